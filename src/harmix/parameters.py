"""Parameters declare themselves: one line gives a field its domain, its shapes and its checks.

    lengthscale: Float[Array, "..."] = parameter("lengthscale", positive, "", "D")

says that `lengthscale` is positive, a scalar or one value for each input dimension. The declaration is read by the
constructor (conversion to 64 bit, refusal of bad values), by `check_shapes` (do P, Q and D agree across the fields of
one kernel?) and by learning (which unconstrained coordinates does the optimiser see?).

Shape letters are those of the whole library: D input dimensions, P components, Q frequencies in a component. `P|1`
means one value for each component, or a single one shared by all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from harmix.arguments import is_concrete, numeric_array, show
from harmix.linalg import psd_factor

# Relative size below which an asymmetry or a negative eigenvalue is rounding, not a mistake of the caller.
ROUNDING = 1e-10


@dataclasses.dataclass(frozen=True)
class Domain:
    """A set of admissible parameter values.

    Attributes:
        name: what the values are, for error messages ("positive").
        refuse: given a concrete array, says what is wrong with it, or returns None.
        to_free: from an admissible array to real, unconstrained coordinates for an optimiser.
        from_free: back again; any real array gives an admissible one.
        allow_complex: whether complex entries are admissible.
    """

    name: str
    refuse: Callable[[np.ndarray], str | None]
    to_free: Callable[[Array], Array]
    from_free: Callable[[Array], Array]
    allow_complex: bool = False


def _refuse_nonpositive(value: np.ndarray) -> str | None:
    return None if np.all(value > 0) else f"must be positive, got {show(value)}"


def _refuse_negative(value: np.ndarray) -> str | None:
    return None if np.all(value >= 0) else f"must not be negative, got {show(value)}"


def _refuse_outside_unit(value: np.ndarray) -> str | None:
    return None if np.all((value > 0) & (value < 1)) else f"must lie strictly between 0 and 1, got {show(value)}"


def _refuse_not_psd(value: np.ndarray) -> str | None:
    if value.shape[-1] != value.shape[-2]:
        return f"must be square in its last two dimensions, got shape {value.shape}"
    scale = np.max(np.abs(value))
    if np.max(np.abs(value - np.conj(np.swapaxes(value, -1, -2)))) > ROUNDING * scale:
        return f"must be {'Hermitian' if np.iscomplexobj(value) else 'symmetric'}, got {show(value)}"
    smallest = float(np.min(np.linalg.eigvalsh(value)))
    if smallest < -ROUNDING * scale:
        return f"must be positive semidefinite, but has the eigenvalue {smallest:.6g} in {show(value)}"
    return None


def _refuse_negative_or_not_psd(value: np.ndarray) -> str | None:
    return _refuse_not_psd(value) if value.ndim >= 2 else _refuse_negative(value)


def _refuse_not_spread(value: np.ndarray) -> str | None:
    # (..., D, D) holds matrices and (..., D) positive numbers; `parameter` has checked which by its shapes.
    if value.ndim < 3:
        return _refuse_nonpositive(value)
    complaint = _refuse_not_psd(value)
    if complaint is None and np.min(np.linalg.eigvalsh(value)) <= 0:
        return f"must be positive definite, but {show(value)} is singular"
    return complaint


# A weight of 0 has no logarithm: the smallest one that learning starts from.
_SMALLEST = 1e-10


def _matrix_to_free(V: Array) -> Array:
    """The lower triangular factor `F` of `V = F F^H`, as it is for real V and as (real, imaginary) for complex V."""
    F = psd_factor(V)
    return jnp.stack([jnp.real(F), jnp.imag(F)]) if jnp.iscomplexobj(V) else F


def _hermitian_from_free(free: Array) -> Array:
    # (P, Q, Q) is a real factor; the leading 2 of a complex one makes four axes.
    F = jnp.tril(jax.lax.complex(free[0], free[1]) if free.ndim == 4 else free)
    return F @ jnp.conj(jnp.swapaxes(F, -1, -2))


def _psd_from_free(free: Array) -> Array:
    F = jnp.tril(free)
    return F @ jnp.swapaxes(F, -1, -2)


def _log(value: Array) -> Array:
    return jnp.log(jnp.maximum(value, _SMALLEST))


def _logit(value: Array) -> Array:
    return jnp.log(value) - jnp.log1p(-value)


def _unchanged(value: Array) -> Array:
    return value


real = Domain("real", lambda value: None, _unchanged, _unchanged)
positive = Domain("positive", _refuse_nonpositive, jnp.log, jnp.exp)
nonnegative = Domain("nonnegative", _refuse_negative, _log, jnp.exp)
unit_interval = Domain("unit interval", _refuse_outside_unit, _logit, jax.nn.sigmoid)
hermitian = Domain(
    "Hermitian positive semidefinite", _refuse_not_psd, _matrix_to_free, _hermitian_from_free, allow_complex=True
)
nonnegative_or_psd = Domain(
    "not negative, or a positive semidefinite matrix",
    _refuse_negative_or_not_psd,
    lambda value: _matrix_to_free(value) if value.ndim >= 2 else _log(value),
    lambda free: _psd_from_free(free) if free.ndim >= 2 else jnp.exp(free),
)
spread = Domain(
    "positive, or positive definite matrices",
    _refuse_not_spread,
    lambda value: _matrix_to_free(value) if value.ndim >= 3 else jnp.log(value),
    lambda free: _psd_from_free(free) if free.ndim >= 3 else jnp.exp(free),
)


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What `parameter` stores in the field's metadata: the domain and the admissible shapes, in letters."""

    name: str
    domain: Domain
    shapes: tuple[tuple[str, ...], ...]


def parameter(name: str, domain: Domain, *shapes: str, optional: bool = False) -> Any:
    """A field that holds a learnable array of the given domain.

    Args:
        name: the field's own name, for messages.
        domain: which values are admissible.
        shapes: admissible shapes as letters separated by spaces, such as `"Q D"`; `""` is a scalar.
        optional: whether it may be left out; it is None then, and has no coordinates. Such fields are given by keyword.
    """
    declaration = Declaration(name, domain, tuple(tuple(shape.split()) for shape in shapes))

    def convert(value: Any) -> Array | None:
        if optional and value is None:
            return None
        array = numeric_array(name, value, allow_complex=domain.allow_complex, allow_boolean=False)
        if array.ndim not in {len(shape) for shape in declaration.shapes}:
            raise ValueError(f"{name} must have shape {_spell(declaration)}, got shape {array.shape}.")
        if is_concrete(array) and (complaint := domain.refuse(np.asarray(array))) is not None:
            raise ValueError(f"{name} {complaint}.")
        return array

    default: dict[str, Any] = {"default": None, "kw_only": True} if optional else {}
    return eqx.field(converter=convert, metadata={"parameter": declaration}, **default)


def declarations(module: eqx.Module) -> dict[str, Declaration]:
    """The declared parameters of a module (not of the modules inside it), by field name."""
    fields = dataclasses.fields(module)
    return {f.name: f.metadata["parameter"] for f in fields if "parameter" in f.metadata}


def check_shapes(module: eqx.Module) -> dict[str, int]:
    """Binds the shape letters across all parameters of one module, or says which two disagree.

    Returns:
        The size of each letter, such as `{"Q": 3, "D": 1}`.
    """
    bound: dict[str, tuple[int, str]] = {}
    for name, declaration in declarations(module).items():
        if getattr(module, name) is None:
            continue
        shape = jnp.shape(getattr(module, name))
        letters = next(s for s in declaration.shapes if len(s) == len(shape))
        for letter, size in zip(letters, shape, strict=True):
            base, _, alternative = letter.partition("|")
            if alternative == str(size) == "1":
                continue  # shared by all
            known, owner = bound.setdefault(base, (size, name))
            if known != size:
                raise ValueError(
                    f"{name} has shape {shape}, so {base} = {size}, but {owner} has {base} = {known} "
                    f"(expected shape {_spell(declaration)})."
                )
    return {letter: size for letter, (size, _) in bound.items()}


Tree = TypeVar("Tree")


def to_free(tree: Tree) -> Tree:
    """The same pytree with every declared parameter in unconstrained coordinates, for an optimiser to move."""
    return _convert(tree, lambda domain: domain.to_free)


def from_free(tree: Tree) -> Tree:
    """The inverse of `to_free`: admissible parameters from any real coordinates."""
    return _convert(tree, lambda domain: domain.from_free)


def _convert(tree: Any, direction: Callable[[Domain], Callable[[Array], Array]]) -> Any:
    is_module = lambda node: isinstance(node, eqx.Module)
    if not is_module(tree):
        return jax.tree.map(lambda n: _convert(n, direction) if is_module(n) else n, tree, is_leaf=is_module)
    declared = declarations(tree)
    # A module is rebuilt from its fields, not through its constructor: free coordinates need not be admissible values.
    names = [f.name for f in dataclasses.fields(tree) if not f.metadata.get("static", False)]
    values = [
        direction(declared[name].domain)(value) if name in declared and value is not None else _convert(value, direction)
        for name, value in ((name, getattr(tree, name)) for name in names)
    ]
    return eqx.tree_at(
        lambda module: [getattr(module, name) for name in names], tree, values, is_leaf=lambda node: node is None
    )


def _spell(declaration: Declaration) -> str:
    return " or ".join("(" + ", ".join(s) + ("," if len(s) == 1 else "") + ")" for s in declaration.shapes)

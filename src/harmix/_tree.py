"""Models as trees that a JSON header can hold, and back; the format is described in `harmix.persistence`.

A type is looked up in `TYPES` and nowhere else. Its fields must be what the class says they are (their annotations and
`parameter` domains), as if they had come through the constructor, but no converter runs: arrays stay as they are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import jaxtyped

from harmix import kernels, likelihoods
from harmix._archive import Refused, member, one_line
from harmix.arguments import show
from harmix.features import Basis, FourierFrequencies, InducingPoints, WindowedFourier
from harmix.inference.mixture import MixturePosterior
from harmix.inference.posterior import Posterior
from harmix.inference.stochastic import VariationalGaussian
from harmix.linalg import Cholesky
from harmix.parameters import check_shapes, declarations
from harmix.summary import Summary
from harmix.summary.grid import Grid

# What a file may hold, by the name it has there: a class that is renamed keeps its old name here.
TYPES: dict[str, type] = {
    "Sum": kernels.Sum,
    "Product": kernels.Product,
    "Scaled": kernels.Scaled,
    "SquaredExponential": kernels.SquaredExponential,
    "Matern": kernels.Matern,
    "SparseSpectrum": kernels.SparseSpectrum,
    "SpectralMixture": kernels.SpectralMixture,
    "SpectralMixtureProduct": kernels.SpectralMixtureProduct,
    "StationaryGeneralizedSpectral": kernels.StationaryGeneralizedSpectral,
    "GeneralizedSpectral": kernels.GeneralizedSpectral,
    "InvertedFractionalBrownian": kernels.InvertedFractionalBrownian,
    "LocallyStationaryGaussian": kernels.LocallyStationaryGaussian,
    "HarmonizableMixture": kernels.HarmonizableMixture,
    "HarmonizableMixtureProduct": kernels.HarmonizableMixtureProduct,
    "InducingPoints": InducingPoints,
    "FourierFrequencies": FourierFrequencies,
    "WindowedFourier": WindowedFourier,
    "Gaussian": likelihoods.Gaussian,
    "StudentT": likelihoods.StudentT,
    "Bernoulli": likelihoods.Bernoulli,
    "Poisson": likelihoods.Poisson,
    "Softmax": likelihoods.Softmax,
    "Cholesky": Cholesky,
    "Basis": Basis,
    "VariationalGaussian": VariationalGaussian,
    "Posterior": Posterior,
    "MixturePosterior": MixturePosterior,
    "Summary": Summary,
    "Grid": Grid,
}
_NAMES = {cls: name for name, cls in TYPES.items()}
WITH_FUNCTIONS = (
    kernels.Gibbs,
    kernels.GeneralizedSpectralMixture,
    kernels.FrequencyWarped,
    kernels.LocallyStationary,
)
_TIME_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")
_NAT = np.iinfo(np.int64).min
# Of lists and modules within one another.
_DEEPEST = 100
# Lagrange polynomials of a grid take memory by the square of its order; `summarize` makes 48 at most.
_HIGHEST_ORDER = 512


# --- from a model to a tree -------------------------------------------------------------------------------------------


def encode(value: Any, place: str, arrays: list[np.ndarray], depth: int = 0) -> Any:
    """A NODE of the header; arrays are added to `arrays`."""
    if depth > _DEEPEST:
        raise ValueError(f"{place[:60]}... is nested more than {_DEEPEST} levels deep; flatten it.")
    inner = lambda v, name: encode(v, place + name, arrays, depth + 1)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _encode_array(value, place, arrays)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} must be finite, got {value}; a model file holds no NaN and no infinity.")
    if isinstance(value, int | float):
        return value
    if type(value) in (list, tuple):
        return {"type": type(value).__name__, "items": [inner(v, f"[{i}]") for i, v in enumerate(value)]}
    if type(value) is dict:
        if odd := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"{place} has the key {show(odd[0])}; keys must be strings.")
        return {"type": "dict", "items": {str(key): inner(v, f"[{key!r}]") for key, v in value.items()}}
    if type(value).__module__.startswith(("harmix.estimators.", "harmix.learning.fit")):
        from harmix.estimators import _saved  # heavy, and not needed for anything else

        return {"type": "fitted", "name": type(value).__name__, "state": inner(_saved.state_of(value), "")}
    name = _NAMES.get(type(value))
    if name is None:
        raise TypeError(_why_not(value, place))
    of_field = lambda f: (_setting if _is_setting(type(value), f) else _learnable)(getattr(value, f.name))
    return {"type": name, "fields": {f.name: inner(of_field(f), f".{f.name}") for f in dataclasses.fields(value)}}


def _is_setting(cls: type, field: dataclasses.Field) -> bool:
    """A plain value, never an array."""
    plain = field.type in ("float", "int", "str", "bool")  # as annotations are written, not what they mean
    return plain or field.metadata.get("static", False) or not issubclass(cls, eqx.Module)


def _setting(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_setting, value))
    return value.item() if isinstance(value, np.generic) else value


def _learnable(value: Any) -> Any:
    """A number that has been put in the place of an array computes as one."""
    return np.asarray(value) if isinstance(value, int | float | complex) and not isinstance(value, bool) else value


def _encode_array(value: Any, place: str, arrays: list[np.ndarray]) -> dict[str, Any]:
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.extended):
        raise TypeError(f"{place} is a random key ({value.dtype}); save the integer seed it was made from.")
    array = np.asarray(value)
    kind = array.dtype.kind
    if kind == "U":
        return {"type": "strings", "shape": list(array.shape), "items": array.ravel().tolist()}
    if kind in "mM":
        unit, count = np.datetime_data(array.dtype)
        dtype = f"{'datetime64' if kind == 'M' else 'timedelta64'}[{unit}]"
        array = (array if count == 1 else array.astype(dtype)).astype(np.int64)
    else:
        # Wider types of the same kind, where there are any.
        widest = {"f": np.float64, "c": np.complex128, "i": np.int64, "u": np.int64, "b": np.bool_}.get(kind)
        if widest is None or not np.can_cast(array.dtype, widest):
            hint = "; labels can be made strings with .astype(str)" if kind == "O" else ""
            raise TypeError(f"{place} is an array of {array.dtype}, which a model file does not hold{hint}.")
        array = array.astype(widest)
        dtype = array.dtype.name
    arrays.append(array)
    return {"type": "array", "member": member(len(arrays) - 1), "dtype": dtype}


def _why_not(value: Any, place: str) -> str:
    name = type(value).__name__
    if isinstance(value, WITH_FUNCTIONS):
        return (
            f"{place} is a {name}, which is made of Python functions, and a model file holds no code: keep the script that makes "
            "this kernel, and save the numbers in it."
        )
    if isinstance(value, eqx.Module):
        return f"{place} is a {name}, which is not one of harmix's own classes: save its arrays in a dict and rebuild it from them."
    if callable(value):
        return f"{place} is a function ({name}), and a model file holds no code."
    return (
        f"{place} is a {name}; a model file holds harmix models, dicts, lists, tuples, strings, numbers, None and NumPy arrays."
    )


# --- from a tree to a model -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _at(place: str) -> Iterator[None]:
    """Whatever a class has to say against values that nobody has checked yet, as a refusal that names the place."""
    try:
        with np.errstate(all="ignore"):  # 1e308 squared is refused for what it is, or harmless
            yield
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"{place} is not valid: {one_line(error) or type(error).__name__}") from None


def decode(node: Any, place: str, arrays: dict[str, np.ndarray], depth: int = 0) -> Any:
    """What a NODE stands for; its arrays are taken out of `arrays`."""
    if depth > _DEEPEST:
        raise Refused(f"model is nested more than {_DEEPEST} levels deep")
    if node is None or isinstance(node, bool | int | float | str):
        return node
    kind = node.get("type") if isinstance(node, dict) else None
    inner = lambda v, name: decode(v, place + name, arrays, depth + 1)
    match node:
        case {"type": "list" | "tuple", "items": list(items), **rest} if not rest:
            values = [inner(v, f"[{i}]") for i, v in enumerate(items)]
            return values if kind == "list" else tuple(values)
        case {"type": "dict", "items": dict(items), **rest} if not rest:
            return {key: inner(v, f"[{key!r}]") for key, v in items.items()}
        case {"type": "array", "member": str(member), "dtype": str(dtype), **rest} if not rest:
            return _decode_array(member, dtype, place, arrays)
        case {"type": "strings", "shape": list(shape), "items": list(items), **rest} if not rest:
            if not all(isinstance(v, str) for v in items) or not all(type(n) is int and n >= 0 for n in shape):
                raise Refused(f"{place} must be made of strings, in a shape of integers")
            with _at(place):
                return np.array(items, dtype=str).reshape(shape)[()]
        case {"type": "fitted", "name": str(name), "state": dict(state), **rest} if not rest:
            from harmix.estimators import _saved

            plain = inner(state, "")
            with _at(place):
                return _saved.revive(name, plain)
        case {"type": str(name), "fields": dict(fields), **rest} if not rest and name in TYPES:
            return _build(TYPES[name], {key: inner(v, f".{key}") for key, v in fields.items()}, place)
    raise Refused(f"{place} is of no type that a model has, got {kind!r:.60}" if kind else f"{place} is no part of a model")


def _decode_array(member: str, dtype: str, place: str, arrays: dict[str, np.ndarray]) -> np.ndarray | np.generic:
    """A copy of its own, a number where there are no dimensions."""
    array = arrays.pop(member, None)
    if array is None:
        raise Refused(f"{place} refers to an array {member!r:.60} that is missing or belongs to another place")
    clock, _, unit = dtype.removesuffix("]").partition("[")
    is_time = clock in ("datetime64", "timedelta64") and unit in _TIME_UNITS and dtype == f"{clock}[{unit}]"
    if array.dtype.name != ("int64" if is_time else dtype):
        raise Refused(f"{place} is declared as {dtype!r:.60}, but {member} has type {array.dtype}")
    if array.dtype.kind in "fc" and not np.all(np.isfinite(array)):
        raise Refused(f"{place} must be finite, but has NaN or infinity")
    if is_time and np.any(array == _NAT):
        raise Refused(f"{place} must have no missing times (NaT)")
    copy = array.astype(array.dtype.newbyteorder("="))
    return (copy.view(dtype) if is_time else copy)[()]


def _build(cls: type, values: dict[str, Any], place: str) -> Any:
    """An instance with exactly these values, once they are what the class says."""
    fields = dataclasses.fields(cls)
    if set(values) != {f.name for f in fields}:
        raise Refused(
            f"{place} is a {cls.__name__} with the fields {show(sorted(values))}, not {show([f.name for f in fields])}"
        )
    hints = typing.get_type_hints(cls)
    result: Any = object.__new__(cls)  # as JAX itself rebuilds pytrees: no constructor, no converter
    for field in fields:
        value, hint = values[field.name], hints[field.name]
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fcib" and not _is_setting(cls, field):
            value = jnp.asarray(value)
        with jaxtyped("context"):  # what D is for a caller that checks its own shapes is not what it is here
            fits = _fits(value, hint)
        if not fits:
            raise Refused(f"{place}.{field.name} must be {_spell(hint)}, got {_spell_value(value)}")
        object.__setattr__(result, field.name, value)
    with _at(place):
        _check_parameters(result)
        for base in cls.__mro__:
            if "__check_init__" in vars(base):
                vars(base)["__check_init__"](result)
        if (complaint := _CHECKS.get(cls, lambda _: None)(result)) is not None:
            raise ValueError(complaint)
    return result


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; only the few forms of annotation that `TYPES` use."""
    args = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return any(_fits(value, arg) for arg in args)
    if typing.get_origin(hint) is tuple:  # tuple[X, ...]
        return isinstance(value, tuple) and all(_fits(v, args[0]) for v in value)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    return isinstance(value, hint)


def _spell(hint: Any) -> str:
    if hasattr(hint, "dim_str"):  # Float[Array, "M D"]
        return f"{hint.__name__.partition('[')[0]}[{hint.dim_str}]"
    args = typing.get_args(hint)
    return " or ".join(map(_spell, args)) if isinstance(hint, types.UnionType) else getattr(hint, "__name__", str(hint))


def _spell_value(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, jax.Array | np.ndarray) else type(value).__name__


def _check_parameters(module: Any) -> None:
    """What the converters of `harmix.parameters.parameter` refuse."""
    if not isinstance(module, eqx.Module):
        return
    for name, declaration in declarations(module).items():
        if getattr(module, name) is None:
            continue  # its annotation allows that
        array = np.asarray(getattr(module, name))
        if array.size == 0 or array.ndim not in {len(shape) for shape in declaration.shapes}:
            raise ValueError(f"{name} has shape {array.shape}")
        if (complaint := declaration.domain.refuse(array)) is not None:
            raise ValueError(f"{name} {complaint}")
    check_shapes(module)


# --- what must agree in classes whose constructors trust their arguments ----------------------------------------------


def _check_cholesky(factor: Cholesky) -> str | None:
    pivots = np.diagonal(np.asarray(factor.lower), axis1=1, axis2=2)
    if factor.inverse.shape != factor.lower.shape:
        return f"lower and inverse must have the same shape, got {factor.lower.shape} and {factor.inverse.shape}"
    if pivots.size == 0 or not np.all(pivots.real > 0) or not factor.jitter >= 0:
        return "the diagonal of lower must be positive, and jitter not negative"
    return None


def _check_basis(basis: Basis) -> str | None:
    if basis.inverse_scale.shape != (basis.size,) or not np.all(np.asarray(basis.inverse_scale) > 0):
        return f"inverse_scale must be {basis.size} positive numbers, one for each row of factor"
    # Traced, not computed: do kernel and features go together, and with the factor?
    D = basis.kernel.input_dim or check_shapes(basis.features).get("D", 1)
    X = jax.ShapeDtypeStruct((1, D), np.float64)
    rows = jax.eval_shape(basis.features.kuf, basis.kernel, X).shape[0]
    return None if rows == basis.size else f"features have {rows} rows, but factor has {basis.size}"


def _check_variational(q: VariationalGaussian) -> str | None:
    _, B, m, _ = q.root.shape
    same = q.mean.shape[1] == B * m and q.mean.dtype == q.root.dtype and q.mean.size > 0
    return None if same else f"mean {q.mean.shape} and root {q.root.shape} must be (C, M) and (C, B, m, m) with M = B m"


def _check_posterior(posterior: Posterior) -> str | None:
    M = posterior.basis.size
    if posterior.mean_weights.shape != (M,) or (posterior.root is not None and posterior.root.shape != (M, M)):
        return f"mean_weights and root must be of size {M}, as basis is"
    noise = posterior.noise_variance
    return None if noise is None or noise > 0 else f"noise_variance must be positive, got {show(noise)}"


def _check_mixture(mixture: MixturePosterior) -> str | None:
    weights = np.asarray(mixture.weights)
    fits = len(mixture.members) > 0 and weights.shape == (len(mixture.members),) and np.all(weights >= 0)
    return None if fits and abs(np.sum(weights) - 1) < 1e-9 else "weights must be one for each member, and add up to 1"


def _check_summary(summary: Summary) -> str | None:
    G, D = summary.nodes.shape
    if not summary.a.shape == summary.b.shape == (G,):
        return f"a and b must have a value for each of the {G} nodes"
    if G == 0 or D == 0 or not summary.count > 0 or not summary.sum_squares >= 0 or not summary.error >= 0:
        return "a summary must have nodes, a positive count, and a sum of squares and an error that are not negative"
    if (summary.grid is None) != (summary.panels is None):
        return "grid and panels belong together"
    if summary.grid is None:
        return None if np.all(np.asarray(summary.a) > 0) else "weights of exact data must be positive"
    fits = summary.panels.shape[1] == summary.grid.ndim == D  # type: ignore[union-attr]
    fits = fits and summary.panels.shape[0] * summary.grid.order**D == G  # type: ignore[union-attr]
    return None if fits else f"{G} nodes do not make up the panels of its grid"


def _check_grid(grid: Grid) -> str | None:
    if not 0 < len(grid.width) == len(grid.origin) == len(grid.max_frequency):
        return "origin, width and max_frequency must have one number for each dimension"
    positive = min(*grid.width, *grid.max_frequency, grid.tolerance) > 0
    return None if positive and 0 < grid.order <= _HIGHEST_ORDER else "widths, frequencies, tolerance or order out of range"


def _check_same_shape(kernel: kernels.LocallyStationaryGaussian) -> str | None:
    return None if kernel.sigma1.shape == kernel.lag.shape else "sigma1 and lag must have the same shape"


def _check_factors(kernel: kernels.HarmonizableMixtureProduct) -> str | None:
    if not kernel.factors or any(f.input_dim != 1 for f in kernel.factors) or len({f.real for f in kernel.factors}) > 1:
        return "factors must be one-dimensional, and all real or all complex"
    return None


_CHECKS: dict[type, Callable[[Any], str | None]] = {
    Cholesky: _check_cholesky,
    Basis: _check_basis,
    VariationalGaussian: _check_variational,
    Posterior: _check_posterior,
    MixturePosterior: _check_mixture,
    Summary: _check_summary,
    Grid: _check_grid,
    kernels.LocallyStationaryGaussian: _check_same_shape,
    kernels.HarmonizableMixtureProduct: _check_factors,
}

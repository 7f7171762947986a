"""Checks of what a person passes in. Only public entry points call these; inside, the types are trusted.

Every refusal names the argument, what arrived and what to do. Values are checked only when they are known: under
`jit`, `grad` or `vmap` an argument is a tracer and its shape alone is checked.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from harmix.precision import in_float64


def is_concrete(value: Any) -> bool:
    """Whether the numbers in `value` can be looked at (they cannot while JAX traces)."""
    return not isinstance(value, jax.core.Tracer)


def show(value: Any) -> str:
    """A short rendering of a value for an error message."""
    text = repr(np.asarray(value).tolist())  # tolist also makes a plain number of an array scalar
    return text if len(text) <= 80 else text[:77] + "..."


@in_float64
def numeric_array(name: str, value: Any, *, allow_complex: bool = False, allow_boolean: bool = True) -> Array:
    """`value` as a float64 (or complex128) array, refused when it is not made of finite numbers or is empty."""
    if isinstance(value, list | tuple) and not all(map(is_concrete, jax.tree.leaves(value))):
        value = jnp.asarray(value)
    if isinstance(value, jax.core.Tracer):
        array: Any = value
    else:
        try:
            array = np.asarray(value)
        except ValueError as error:  # ragged nested lists
            raise ValueError(f"{name} must be a rectangular array of numbers: {error}") from None
        if array.dtype == object:
            if any(element is None for element in array.flat):  # which NumPy would make NaN
                raise TypeError(f"{name} must be made of numbers, got {show(value)}.")
            try:
                array = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                raise TypeError(f"{name} must be made of numbers, got {show(value)}.") from None
    kind = np.dtype(array.dtype).kind if not jnp.issubdtype(array.dtype, jnp.floating) else "f"
    if kind not in "fiubc" or (kind == "b" and not allow_boolean):
        raise TypeError(f"{name} must be made of numbers, got {show(value)} of type {array.dtype}.")
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {array.shape}); give at least one value.")
    if kind == "c" and not allow_complex:
        raise TypeError(f"{name} must be real, got {show(value)}.")
    if is_concrete(array) and not np.all(np.isfinite(array)):
        bad = array[~np.isfinite(array)].ravel()[0] if array.ndim else array
        raise ValueError(f"{name} must be finite, got {bad}; remove or replace such values first.")
    return jnp.asarray(array, dtype=jnp.complex128 if kind == "c" else jnp.float64)


def points(name: str, value: Any, input_dim: int | None = None) -> Float[Array, "n D"]:
    """Locations or frequencies as an `(n, D)` array; `(n,)` means D = 1.

    Args:
        name: how the caller spells the argument.
        value: `(n,)` or `(n, D)`.
        input_dim: the D that is required, or None when any will do.
    """
    array = numeric_array(name, value)
    if array.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (n,) or (n, D), got shape {array.shape}.")
    array = array[:, None] if array.ndim == 1 else array
    if input_dim is not None and array.shape[1] != input_dim:
        raise ValueError(f"{name} has {array.shape[1]} input dimension(s) (shape {array.shape}), but {input_dim} needed here.")
    return array


def positive_number(name: str, value: Any) -> Float[Array, ""]:
    """A finite number above zero."""
    number = numeric_array(name, value, allow_boolean=False)
    if number.ndim != 0:
        raise ValueError(f"{name} must be a single number, got shape {number.shape}.")
    if is_concrete(number) and not number > 0:
        raise ValueError(f"{name} must be positive, got {show(value)}.")
    return number

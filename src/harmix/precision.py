"""64-bit computation without touching the user's process.

JAX computes in 32 bits unless told otherwise, and Gaussian processes do not survive that: a covariance matrix of
two hundred close points is singular in float32. Every public entry point of harmix therefore runs inside
`jax.enable_x64(True)`, which is local to the call; no global setting is read or written.

Results that a person receives are NumPy arrays. A 64-bit JAX array would not survive in a 32-bit process: `a - b` outside
the call is silently computed in float32. Under the user's own `jit`, `grad` and `vmap` results are tracers, as ever.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax
import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


def in_float64(fn: Callable[P, T]) -> Callable[P, T]:
    """Run `fn` with 64-bit JAX types, whatever the process-wide setting is.

    Works under the user's own `jit`, `grad` and `vmap` too: inputs that arrive as 32-bit tracers are widened by
    the argument checks (`harmix.arguments`).

    Example:
        >>> import jax.numpy as jnp
        >>> in_float64(lambda: jnp.ones(2).dtype.name)()
        'float64'
    """

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        with jax.enable_x64(True):
            return fn(*args, **kwargs)

    return wrapped


def entry_point(fn: Callable[P, T]) -> Callable[P, T]:
    """`in_float64`, and the arrays of the result as NumPy arrays (numbers as NumPy numbers) unless they are traced.

    Example:
        >>> import jax.numpy as jnp
        >>> entry_point(lambda: jnp.ones(2) / 3)()
        array([0.33333333, 0.33333333])
    """
    wide = in_float64(fn)

    @functools.wraps(fn)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        if not _is_wide() and any(map(_is_traced, jax.tree.leaves((args, kwargs)))):
            return _with_wide_gradient(wide, args, kwargs)
        return jax.tree.map(_to_numpy, wide(*args, **kwargs))

    return wrapped


def _is_wide() -> bool:
    return jax.dtypes.canonicalize_dtype(float) == np.float64


def _is_traced(leaf: object) -> bool:
    return isinstance(leaf, jax.core.Tracer)


def _with_wide_gradient(fn: Callable, args: tuple, kwargs: dict) -> Any:
    """`fn(*args, **kwargs)` inside a transformation by a 32-bit process, differentiated backwards in 64 bit too.

    JAX runs the backward pass long after the call, under the settings of the process, and would truncate it to 32
    bits. The price: forward mode (`jax.jvp`) through here needs `jax.enable_x64(True)` around it.
    """
    traced, rest = eqx.partition((args, kwargs), _is_traced)

    def of_traced(traced: Any) -> Any:
        all_args, all_kwargs = eqx.combine(traced, rest)
        return fn(*all_args, **all_kwargs)

    with jax.enable_x64(True):
        # Functions that a person gave to a kernel may close over what is differentiated.
        closed, captured = jax.closure_convert(of_traced, traced)

    @in_float64
    def value(traced: Any, captured: Any) -> Any:
        return closed(traced, *captured)

    @in_float64
    def forward(traced: Any, captured: Any) -> Any:
        return jax.vjp(value, traced, captured)

    @in_float64
    def backward(pull_back: Callable, cotangent: Any) -> Any:
        return pull_back(cotangent)

    call = jax.custom_vjp(value)
    call.defvjp(forward, backward)
    return call(traced, captured)


def _to_numpy(leaf: object) -> object:
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return leaf
    array = np.asarray(leaf)  # shares the memory of the JAX array on a CPU
    return array if array.ndim else array[()]

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
from typing import ParamSpec, TypeVar

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
        return jax.tree.map(_to_numpy, wide(*args, **kwargs))

    return wrapped


def _to_numpy(leaf: object) -> object:
    if not isinstance(leaf, jax.Array) or isinstance(leaf, jax.core.Tracer):
        return leaf
    array = np.asarray(leaf)  # shares the memory of the JAX array on a CPU
    return array if array.ndim else array[()]

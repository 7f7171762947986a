"""64-bit computation without touching the user's process.

JAX computes in 32 bits unless told otherwise, and Gaussian processes do not survive that: a covariance matrix of
two hundred close points is singular in float32. Every public entry point of harmix therefore runs inside
`jax.enable_x64(True)`, which is local to the call; no global setting is read or written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

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

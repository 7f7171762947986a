"""Is the grid of a summary fine enough for what is summed over it? Checked at every evaluation, never trusted.

Two tests, because each is blind where the other sees. The kernel states how far its spectrum reaches: that catches envelopes
so narrow that they slip between nodes. And the values at the nodes tell by themselves: on every panel the last Chebyshev
coefficients of a resolved function are negligible.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact

from harmix.kernels.base import Kernel
from harmix.summary.core import Summary
from harmix.summary.grid import Grid, lagrange

# Random combinations of the features whose squares are looked at, besides k(x, x).
PROBES = 2
# The tail is compared with the tolerance this generously: it is an upper bound over panels, and sums average.
_ALLOWANCE = 30.0


class OutOfBandError(ValueError):
    """A kernel or features that a compressed summary cannot carry."""


def probe(A: Inexact[Array, "M n"], variance: Float[Array, " n"]) -> Float[Array, "r n"]:
    """Functions of x that are resolved if and only if the products of features are: squares of random combinations."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (PROBES, A.shape[0])) / math.sqrt(A.shape[0])
    return jnp.concatenate([jnp.abs(signs @ A) ** 2, variance[None]])


def tail(grid: Grid, values: Float[Array, "r G"]) -> Float[Array, ""]:
    """The largest of the last two Chebyshev coefficients in any dimension of any panel, relative to the largest value."""
    p, D = grid.order, grid.ndim
    last = lagrange(p)[:, -2:]
    boxes = values.reshape(values.shape[0], -1, *[p] * D)
    largest = jnp.max(jnp.abs(values), axis=1)
    scale = jnp.where(largest > 0, largest, 1.0)
    worst = jnp.stack(
        [jnp.max(jnp.abs(jnp.tensordot(boxes, last, axes=(2 + d, 0))).reshape(values.shape[0], -1), axis=1) for d in range(D)]
    )
    return jnp.max(worst / scale)


def overreach(kernel: Kernel, summary: Summary) -> Float[Array, ""]:
    """How far the kernel's spectrum reaches, in units of what the summary resolves; 0 for exact data."""
    if summary.grid is None:
        return jnp.zeros(())
    band = kernel.bandwidth(summary.grid.ndim)
    if band is None:
        raise OutOfBandError(
            f"{type(kernel).__name__} does not say how far its spectrum reaches, so compressed data cannot be trusted with it: "
            "use Summary.exact, or give the kernel a bandwidth method."
        )
    return jnp.max(band / jnp.asarray(summary.grid.max_frequency))


def is_resolved(summary: Summary, tail: Array, overreach: Array) -> Array | bool:
    """Whether both tests are passed."""
    if summary.grid is None:
        return True
    return (overreach <= 1.0) & (tail <= _ALLOWANCE * summary.grid.tolerance)


def refusal(summary: Summary, tail: Array, overreach: Array) -> str:
    """What to tell a person whose kernel does not fit."""
    assert summary.grid is not None
    highest = max(summary.grid.max_frequency)
    wanted = highest * max(1.1 * float(overreach), 1.25)
    return (
        f"the kernel or its features reach beyond the band of this summary (max_frequency={highest:g}; the kernel's spectrum reaches "
        f"{float(overreach):.3g} times as far, the estimated interpolation error is {float(tail):.1e} for tolerance "
        f"{summary.grid.tolerance:g}): summarise again with max_frequency={wanted:.3g} or more, or keep frequencies, windows and "
        "lengthscales inside the band."
    )

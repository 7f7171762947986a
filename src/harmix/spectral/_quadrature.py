"""The quadrature behind `harmix.spectral.numeric`: one rule, and kernels evaluated in blocks.

The trapezoidal rule on ever finer tensor grids over `[-1, 1]^D`, until two of them agree. Where the integrand
is smooth and vanishes at the edges, it converges faster than any power of the step. Where a kernel has a kink
at `x = x'` (Matern), or is cut off at the edges, the error is a power of the step, and extrapolation removes
its leading term.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from harmix.kernels.base import Kernel

# Errors relative to the integral of |k|: aimed at in one dimension, in several, the largest unwarned.
AIM_1D, AIM, TOLERATED = 1e-12, 1e-8, 1e-6
# Kernel values at a time. Harmix kernels see blocks of these two shapes only, so that they compile once.
TILE, PAIRS, PAIRS_OF_FUNCTION = 512, 4096, 32


def first_grid(cycles: np.ndarray) -> int:
    """Intervals of the first grid, given the cycles along it that it must resolve in each dimension."""
    # Even, so that lag zero, where kernels have kinks, is a node.
    step = 64 if len(cycles) == 1 else 32
    return step * max(1, int(np.ceil(4 / 3 * np.max(cycles) / step)))


def coarse_grid(D: int) -> int:
    """Intervals of the grid on which to see where a kernel has decayed."""
    return {1: 256, 2: 40, 3: 16}.get(D, 8)


def grid(n: int, D: int) -> Float[np.ndarray, "N D"]:
    """The nodes in `[-1, 1]^D`."""
    return np.stack(np.meshgrid(*[np.linspace(-1, 1, n + 1)] * D, indexing="ij"), axis=-1).reshape(-1, D)


def weights(n: int, D: int) -> Float[np.ndarray, " N"]:
    """Their weights."""
    line = np.full(n + 1, 2.0 / n)
    line[[0, -1]] /= 2
    return np.prod(np.meshgrid(*[line] * D, indexing="ij"), axis=0).reshape(-1)


def refine(
    at: Callable[[int], tuple[np.ndarray, Any]],
    n: int,
    ratio: float,
    D: int,
    evaluations: Callable[[int], int],
    budget: int,
) -> np.ndarray:
    """`at(n)`, extrapolated, for growing n until it settles; `at` gives values and their scale for errors."""
    history: list[np.ndarray] = []
    best, size, error, aim = np.asarray(np.inf), np.asarray(0.0), np.inf, AIM_1D if D == 1 else AIM
    while error > aim and evaluations(n) <= budget:
        previous, previous_size = best, size
        values, size = at(n)
        size = np.maximum(size, np.finfo(float).tiny)
        history = [*history[-2:], values]
        best = _extrapolate(history)
        error = float(np.max(np.abs(best - previous) / size))
        if np.any(np.abs(size - previous_size) > 0.1 * size):
            # A peak narrower than the step counts as one node: such values fall geometrically, to a wrong limit.
            error = np.inf
        if error <= aim:
            # An oscillation too fast for the grids looks the same on two whose ratio is simple. Ask a third.
            other, _ = at(2 * round(0.385 * n))
            error = max(error, float(np.max((np.abs(other - best) - 10 * np.abs(values - best)) / size)))
        n = round(n * ratio)
    advice = (
        f"a finer grid takes {evaluations(n):.1e} kernel values and max_evaluations is {budget:.1e}. "
        "Enlarge that, or ask for a smaller domain, lower frequencies or fewer places."
    )
    if not history:
        raise ValueError(f"No grid resolves these frequencies: {advice}")
    if error > TOLERATED:
        estimate = f"the relative error is about {error:.0e}" if np.isfinite(error) else "the error is unknown"
        warnings.warn(f"The quadrature has not converged, {estimate}: {advice}", RuntimeWarning, stacklevel=5)
    return best


def _extrapolate(history: list[np.ndarray]) -> np.ndarray:
    """Where the differences of the last values fall geometrically, their limit (Aitken); else the last."""
    if len(history) < 3:
        return history[-1]
    older, newer = history[-2] - history[-3], history[-1] - history[-2]
    falls = np.abs(newer) < 0.6 * np.abs(older)
    return history[-1] + np.where(falls, newer**2 / np.where(falls, older - newer, 1.0), 0.0)


# --- the kernel, in blocks ----------------------------------------------------------------------------------


def slices(n: int, size: int) -> Iterator[slice]:
    """`range(n)` in pieces of at most `size`."""
    return (slice(i, min(i + size, n)) for i in range(0, n, size))


def _pad(X: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([X, np.repeat(X[-1:], size - len(X), axis=0)])


def tile(k: Callable, X1: np.ndarray, X2: np.ndarray) -> np.ndarray:
    """`k(X1, X2)` for at most `TILE` points each."""
    if isinstance(k, Kernel):
        return _checked(k, k(_pad(X1, TILE), _pad(X2, TILE)), TILE, TILE)[: len(X1), : len(X2)]
    return _checked(k, k(X1, X2), len(X1), len(X2))


def pairs(k: Callable, X1: np.ndarray, X2: np.ndarray) -> np.ndarray:
    """`k(x1, x2)` for each row of X1 and the same row of X2."""
    if isinstance(k, Kernel):
        padded = [_kernel_pairs(k, _pad(X1[i], PAIRS), _pad(X2[i], PAIRS)) for i in slices(len(X1), PAIRS)]
        return _checked(k, np.concatenate(padded), len(padded) * PAIRS)[: len(X1)]
    blocks = slices(len(X1), PAIRS_OF_FUNCTION)  # of whole matrices, which is all that we can ask for
    return np.concatenate([np.diagonal(_checked(k, k(X1[i], X2[i]), *[len(X1[i])] * 2)) for i in blocks])


@eqx.filter_jit
def _kernel_pairs(k: Kernel, X1: Any, X2: Any) -> Array:
    return jax.vmap(lambda x1, x2: k.gram(x1[None], x2[None])[0, 0])(X1, X2)


def _checked(k: Callable, values: Any, *shape: int) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != shape:
        raise ValueError(f"k must return an array of shape {shape} for n points of shape (n, D), got {array.shape}: {k!r}.")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"k must be finite all over the domain, got {array[~np.isfinite(array)][0]}: {k!r}.")
    return array

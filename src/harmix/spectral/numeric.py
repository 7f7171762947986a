"""Spectra of any callable kernel, by quadrature over a bounded domain.

A kernel here is a harmix kernel or any function `k(X1, X2) -> (n1, n2)` of arrays `(n, D)`, in numpy or JAX.
Each function states the windowed integral that it computes, and refines its grid until that has converged.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from harmix.arguments import numeric_array, points, positive_number, show
from harmix.kernels.base import Kernel
from harmix.precision import entry_point
from harmix.spectral._quadrature import (
    PAIRS_OF_FUNCTION,
    TILE,
    coarse_grid,
    first_grid,
    grid,
    pairs,
    refine,
    slices,
    tile,
    weights,
)

# "auto" leaves alone what is below this fraction of the largest value in the outer tenth of the range.
_DECAYED, _OUTER = 1e-6, 0.9
# Otherwise its taper has so many standard deviations before the edge, where it is down to 2e-11.
_DEVIATIONS = 7.0
# Kernel values at a time, and in one grid, unless the caller has more patience.
_BATCH, _MAX_EVALUATIONS = 2**18, 2**28
# Complex exponentials at a time.
_WAVES = 2**23


@entry_point
def density(
    k: Callable, w: Any, *, domain: Any, window: Any = "auto", max_evaluations: int = _MAX_EVALUATIONS
) -> Float[Array, " m"]:
    """Spectral density of a stationary kernel by quadrature, seen through a Gaussian lag window `g`.

    `S(w) = int g(t) k(c + t/2, c - t/2) exp(-2 pi i w.t) dt` over `|t_d| <= L_d`,

    `g(t) = exp(-sum_d t_d^2 / (2 s_d^2))`, with `c` the middle of the domain and `L` its length in each
    dimension. The window smooths the spectrum by a Gaussian of standard deviation `1 / (2 pi s)`.

    Args:
        k: a stationary kernel; ValueError when it is seen not to be.
        w: frequencies `(m, D)` or `(m,)`, cycles per input unit.
        domain: `(lo, hi)`, numbers or `(D,)`; the kernel is asked only for points in it.
        window: a number is `s` in every dimension; None is `g = 1`; `"auto"` is `s_d = L_d / 7` in the
            dimensions where the kernel has not decayed to 1e-6 of its largest value as `|t_d|` nears `L_d`,
            no window in the others.
        max_evaluations: the most kernel values that one grid may take.

    Returns:
        `(m,)`. A RuntimeWarning tells when the estimated error exceeds 1e-6 of `int |g k| dt`.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.SquaredExponential(1.0, 0.5)
        >>> error = hx.spectral.numeric.density(k, [0.7], domain=(0, 10)) - hx.spectral.density(k, [0.7])
        >>> bool(abs(error[0]) < 1e-12)
        True
    """
    w, lo, hi = _arguments(k, w, domain)
    _refuse_nonstationary(k, lo, hi)
    return _wigner(k, (lo + hi)[None] / 2, w, lo, hi, _inverse_deviation(window), max_evaluations)[0]


@entry_point
def generalized_density(
    k: Callable,
    w: Any,
    xi: Any,
    *,
    domain: Any,
    window: Any = "auto",
    max_evaluations: int = _MAX_EVALUATIONS,
) -> Complex[Array, "m1 m2"]:
    """Generalised spectral density by quadrature, seen through a Gaussian window `h`.

    `S(w, xi) = iint h(x) k(x, x') h(x') exp(-2 pi i (w.x - xi.x')) dx dx'`, both integrals over the domain,

    `h(x) = exp(-sum_d (x_d - c_d)^2 / (2 s_d^2))`, `c` the middle of the domain. A kernel that has no such
    density, as a stationary one, is given one by the window.

    Args:
        k: any kernel.
        w: frequencies `(m1, D)` or `(m1,)`, cycles per input unit.
        xi: frequencies `(m2, D)` or `(m2,)`.
        domain: `(lo, hi)`, numbers or `(D,)`; the kernel is asked only for points in it.
        window: a number is `s` in every dimension; None is `h = 1`; `"auto"` is `s_d = L_d / 14`, `L` the
            length of the domain, in the dimensions where the kernel has not decayed to 1e-6 of its largest
            value as x nears the edges, no window in the others.
        max_evaluations: the most kernel values that one grid may take.

    Returns:
        `(m1, m2)`. A RuntimeWarning tells when the estimated error exceeds 1e-6 of `iint |h k h| dx dx'`.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
        >>> S = hx.spectral.numeric.generalized_density(k, [0.5], [0.2], domain=(-6, 6))
        >>> bool(abs(S - hx.spectral.generalized_density(k, [0.5], [0.2]))[0, 0] < 1e-12)
        True
    """
    w, lo, hi = _arguments(k, w, domain)
    D = w.shape[1]
    xi = np.asarray(points("xi", xi, D))
    middle, reach, inverse = (lo + hi) / 2, (hi - lo) / 2, _inverse_deviation(window)
    deviations = _deviations(_largest(k, lo, hi)) if inverse is None else reach * inverse

    def at(n: int) -> tuple[np.ndarray, Any]:
        u = grid(n, D)
        X = np.clip(middle + reach * u, lo, hi)  # rounding must not put a point outside the domain
        q = np.prod(reach) * weights(n, D) * np.exp(-0.5 * np.sum((deviations * u) ** 2, axis=1))
        total, size = np.zeros((len(w), len(xi)), dtype=complex), 0.0
        for i in slices(len(X), TILE):
            rows = np.zeros((len(X[i]), len(xi)), dtype=complex)
            for j in slices(len(X), TILE):
                K = tile(k, X[i], X[j])
                waves = q[j, None] * np.exp(2j * np.pi * X[j] @ xi.T)
                # A real K is multiplied with real and imaginary parts rather than cast to complex.
                rows += K @ waves if np.iscomplexobj(K) else (K @ waves.view(float)).view(complex)
                size += q[i] @ np.abs(K) @ q[j]
            total += (q[i, None] * np.exp(-2j * np.pi * X[i] @ w.T)).T @ rows
        return total, size

    start = first_grid(2 * reach * np.max(np.abs(np.concatenate([w, xi])), axis=0))
    # A grid twice as fine costs 4^D times as much: in several dimensions take smaller steps.
    ratio = 2.0 if D == 1 else 1.5
    return jnp.asarray(refine(at, start, ratio, D, lambda n: (n + 1) ** (2 * D), max_evaluations))


@entry_point
def wigner(
    k: Callable, x: Any, w: Any, *, domain: Any, window: Any = "auto", max_evaluations: int = _MAX_EVALUATIONS
) -> Float[Array, "n m"]:
    """Wigner distribution by quadrature, seen through a Gaussian lag window `g`.

    `W(x, w) = int g(t) k(x + t/2, x - t/2) exp(-2 pi i w.t) dt` over `|t_d| <= T_d(x)`,

    `g(t) = exp(-sum_d t_d^2 / (2 s_d^2))`, `T(x) = 2 min(x - lo, hi - x)` in each dimension, which keeps both
    points in the domain: near its edges little is left to integrate over. The window smooths over frequencies
    by a Gaussian of standard deviation `1 / (2 pi s)`.

    Args:
        k: any kernel.
        x: places `(n, D)` or `(n,)` in the domain.
        w: frequencies `(m, D)` or `(m,)`, cycles per input unit.
        domain: `(lo, hi)`, numbers or `(D,)`; the kernel is asked only for points in it.
        window: a number is `s` in every dimension; None is `g = 1`; `"auto"` is `s_d = T_d(x) / 7` in the
            dimensions, and at the places x, where the kernel has not decayed to 1e-6 of its largest value as
            `|t_d|` nears `T_d(x)`, no window in the others.
        max_evaluations: the most kernel values that one grid may take.

    Returns:
        `(n, m)` real. A RuntimeWarning tells when the estimated error exceeds 1e-6 of `int |g k| dt`.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
        >>> W = hx.spectral.numeric.wigner(k, [1.0], [0.5], domain=(-9, 9))
        >>> bool(abs(W - hx.spectral.wigner(k, [1.0], [0.5]))[0, 0] < 1e-12)
        True
    """
    w, lo, hi = _arguments(k, w, domain)
    x = np.asarray(points("x", x, w.shape[1]))
    outside = np.any((x < lo) | (x > hi), axis=1)
    if outside.any():
        raise ValueError(f"x must lie in the domain ({show(lo)}, {show(hi)}), got {show(x[outside][0])}.")
    return _wigner(k, x, w, lo, hi, _inverse_deviation(window), max_evaluations)


def _wigner(
    k: Callable,
    x: np.ndarray,
    w: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    inverse: float | None,
    budget: int,
) -> Float[Array, "n m"]:
    D = x.shape[1]
    T = 2 * np.minimum(x - lo, hi - x)

    def kernel_at_lags(n: int) -> Iterator[tuple[int, slice, np.ndarray]]:
        """For each place, some rows of the grid of lags at a time, the kernel `(rows, n + 1, ..., n + 1)`."""
        u = grid(n, D).reshape(n + 1, -1, D)
        rows = max(1, min(_BATCH // u.shape[1], _WAVES // len(w)))
        for some in slices(len(x), max(1, rows // (n + 1))):
            for j in slices(n + 1, rows):
                half = (T[some, None, None] * u[j] / 2).reshape(len(x[some]), -1, D)
                ends = (np.clip(x[some, None] + side * half, lo, hi).reshape(-1, D) for side in (1, -1))
                values = pairs(k, *ends).reshape(len(half), -1, *[n + 1] * (D - 1))
                yield from ((i, j, v) for i, v in enumerate(values, start=some.start))

    if inverse is None:
        places = itertools.groupby(kernel_at_lags(coarse_grid(D)), key=lambda item: item[0])
        deviations = np.stack([_deviations(np.concatenate([abs(v) for _, _, v in rows])) for _, rows in places])
    else:
        deviations = T * inverse

    def at(n: int) -> tuple[np.ndarray, np.ndarray]:
        u, q = np.linspace(-1, 1, n + 1), weights(n, 1)
        result, size = np.zeros((len(x), len(w))), np.zeros((len(x), 1))
        for i, j, values in kernel_at_lags(n):
            transform, absolute = values, np.abs(values)
            for d in reversed(range(D)):
                nodes = slice(None) if d else j
                taper = (T[i, d] * q * np.exp(-0.5 * (deviations[i, d] * u) ** 2))[nodes]
                waves = taper[:, None] * np.exp(-2j * np.pi * np.outer(T[i, d] * u[nodes], w[:, d]))
                transform = transform @ waves if d == D - 1 else np.einsum("...jm,jm->...m", transform, waves)
                absolute = absolute @ taper
            result[i] += transform.real
            size[i] += absolute
        return result, size

    start = first_grid(np.max(2 * T, axis=0) * np.max(np.abs(w), axis=0))
    return jnp.asarray(refine(at, start, 2.0, D, lambda n: len(x) * (n + 1) ** D, budget))


def _deviations(size: np.ndarray) -> Float[np.ndarray, " D"]:
    """Standard deviations of taper to fit before the edge, given |k| on a grid: 0 where it has decayed."""
    outer = np.abs(np.linspace(-1, 1, size.shape[0])) >= _OUTER
    left = np.array([np.max(np.compress(outer, size, axis=d)) for d in range(size.ndim)])
    return np.where(left > _DECAYED * np.max(size), _DEVIATIONS, 0.0)


def _largest(k: Callable, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
    """`max_x' |k(x, x')|` for x on a coarse grid over the domain."""
    D = len(lo)
    X = np.clip((lo + hi) / 2 + (hi - lo) / 2 * grid(coarse_grid(D), D), lo, hi)
    maximum = [
        np.max([np.max(np.abs(tile(k, X[i], X[j])), axis=1) for j in slices(len(X), TILE)], axis=0)
        for i in slices(len(X), TILE)
    ]
    return np.concatenate(maximum).reshape([coarse_grid(D) + 1] * D)


# --- what a person passes in --------------------------------------------------------------------------------


def _arguments(k: Any, w: Any, domain: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`w` as `(m, D)` and the ends of the domain as `(D,)`."""
    if not callable(k):
        raise TypeError(f"k must be a kernel or a function k(X1, X2) -> (n1, n2), got {k!r}.")
    w = np.asarray(points("w", w, k.input_dim if isinstance(k, Kernel) else None))
    if not isinstance(domain, tuple | list | np.ndarray | jax.Array) or len(domain) != 2:
        raise ValueError(f"domain must be a pair (lo, hi), got {domain!r}.")
    lo, hi = (np.asarray(numeric_array("domain", end, allow_boolean=False)) for end in domain)
    D = w.shape[1]
    if any(end.shape not in ((), (D,)) for end in (lo, hi)) or not np.all(lo < hi):
        raise ValueError(f"domain must be (lo, hi) with lo < hi, numbers or ({D},) as in w, got ({show(lo)}, {show(hi)}).")
    return w, np.broadcast_to(lo, D), np.broadcast_to(hi, D)


def _inverse_deviation(window: Any) -> float | None:
    """One over the standard deviation of the window, None for "auto"."""
    if window is None:
        return 0.0
    if isinstance(window, str):
        if window != "auto":
            raise ValueError(f'window must be "auto", None or a standard deviation, got {window!r}.')
        return None
    return 1 / float(positive_number("window", window))


def _refuse_nonstationary(k: Callable, lo: np.ndarray, hi: np.ndarray) -> None:
    """Compare the kernel at the same lags in the middle of the domain and elsewhere in it."""
    t, shift = np.random.default_rng(0).uniform(-1, 1, (2, PAIRS_OF_FUNCTION, len(lo)))
    shift, t = shift * (1 - np.abs(t)) * (hi - lo) / 2, t * (hi - lo)
    ends = [(lo + hi) / 2 + side * t / 2 for side in (1, -1)]
    here, there = (pairs(k, *(np.clip(x + by, lo, hi) for x in ends)) for by in (0.0, shift))
    worst = np.argmax(np.abs(here - there))
    if np.abs(here - there)[worst] > 1e-8 * np.max(np.abs(here)):
        raise ValueError(
            f"k is not stationary, so it has no spectral density: at the lag {show(t[worst])} it is "
            f"{here[worst]:.6g} in the middle of the domain and {there[worst]:.6g} elsewhere. "
            "Use wigner or generalized_density."
        )

"""Spectra straight from their defining integrals: the trapezoidal rule on one wide grid, in numpy.

Independent of `harmix.spectral.numeric`: no windows, no refinement, no extrapolation. A `formula` is a function of points
`(..., D)`, as in `references.kernels`.
"""

import numpy as np


def box(lo, hi, n):
    """Nodes `(n^D, D)` of a tensor grid on the box and the weight of each; the integrand must vanish at its faces."""
    lo, hi = np.broadcast_arrays(np.atleast_1d(lo).astype(float), np.atleast_1d(hi).astype(float))
    lines = [np.linspace(a, b, n) for a, b in zip(lo, hi, strict=True)]
    nodes = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(lo))
    return nodes, np.prod((hi - lo) / (n - 1))


def wave(w, x):
    """`exp(2 pi i w.x)` of all pairs, `(m, n)`."""
    return np.exp(2j * np.pi * w @ x.T)


def density(k, w, reach, n):
    """`int k(t, 0) exp(-2 pi i w.t) dt` over `|t| <= reach`."""
    t, volume = box(-np.asarray(reach), reach, n)
    return volume * wave(-w, t) @ k(t, np.zeros_like(t))


def wigner(k, x, w, reach, n):
    """`int k(x + t/2, x - t/2) exp(-2 pi i w.t) dt` over `|t| <= reach`, `(len(x), len(w))`."""
    t, volume = box(-np.asarray(reach), reach, n)
    return np.stack([volume * wave(-w, t) @ k(place + t / 2, place - t / 2) for place in x])


def generalized_density(k, w, xi, lo, hi, n, rows=64):
    """`iint k(x, x') exp(-2 pi i (w.x - xi.x')) dx dx'` over the box, for all pairs of w and xi."""
    X, volume = box(lo, hi, n)
    total = 0.0
    for start in range(0, len(X), rows):
        some = X[start : start + rows]
        total = total + wave(-w, some) @ k(some[:, None], X[None, :]) @ wave(xi, X).T
    return volume**2 * total


def kernel_from_density(S, t, lo, hi, n):
    """`int S(w) exp(2 pi i w.t) dw`, for lags `(m, D)`; S is a function of frequencies `(N, D)`."""
    w, volume = box(lo, hi, n)
    return volume * wave(t, w) @ S(w)


def kernel_from_generalized_density(S, x, y, lo, hi, n, rows=256):
    """`iint S(w, xi) exp(2 pi i (w.x - xi.y)) dw dxi`, for all pairs; S is a function of `(N1, D)` and `(N2, D)`."""
    w, volume = box(lo, hi, n)
    total = 0.0
    for start in range(0, len(w), rows):
        some = w[start : start + rows]
        total = total + wave(x, some) @ S(some, w) @ wave(-y, w).T
    return volume**2 * total

"""Spectra straight from their defining integrals, in numpy, on one grid.

Independent of `harmix.spectral.numeric`: no windows, no refinement, no extrapolation. A `formula` is a function
of points `(..., D)`, as in `references.kernels`. A rule is a pair of nodes `(N, D)` and weights `(N,)`.
"""

import numpy as np


def box(lo, hi, n):
    """The trapezoidal rule with n^D nodes; the integrand must vanish at the faces of the box."""
    lo, hi = np.broadcast_arrays(np.atleast_1d(lo).astype(float), np.atleast_1d(hi).astype(float))
    lines = [np.linspace(a, b, n) for a, b in zip(lo, hi, strict=True)]
    nodes = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1).reshape(-1, len(lo))
    return nodes, np.full(len(nodes), np.prod((hi - lo) / (n - 1)))


def ball(scales, radius, n_radii, n_angles=None):
    """Polar coordinates, so that a kink at 0 does no harm: Gauss-Legendre in the radius, equal angles in 2-D.

    The ball is stretched by `scales`, one for each of the one or two dimensions.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(0, radius, n_radii // 20 + 1)
    middles, halves = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    r = (middles[:, None] + halves[:, None] * nodes).ravel()
    q = (halves[:, None] * weights).ravel()
    if len(scales) == 1:
        directions, q = np.array([[-1.0], [1.0]]), np.tile(q[:, None], 2)
    else:
        angles = 2 * np.pi * np.arange(n_angles) / n_angles
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        q = np.tile((q * r)[:, None], n_angles) * 2 * np.pi / n_angles
    t = (r[:, None, None] * directions * np.asarray(scales)).reshape(-1, len(scales))
    return t, q.ravel() * np.prod(scales)


def wave(w, x):
    """`exp(2 pi i w.x)` of all pairs, `(m, n)`."""
    return np.exp(2j * np.pi * w @ x.T)


def density(k, w, rule):
    """`int k(t, 0) exp(-2 pi i w.t) dt`."""
    t, q = rule
    return wave(-w, t) @ (q * k(t, np.zeros_like(t)))


def wigner(k, x, w, rule):
    """`int k(x + t/2, x - t/2) exp(-2 pi i w.t) dt`, `(len(x), len(w))`."""
    t, q = rule
    return np.stack([wave(-w, t) @ (q * k(place + t / 2, place - t / 2)) for place in x])


def generalized_density(k, w, xi, rule, rows=64):
    """`iint k(x, x') exp(-2 pi i (w.x - xi.x')) dx dx'` for all pairs of w and xi."""
    X, q = rule
    right = q[:, None] * wave(xi, X).T
    total = 0.0
    for start in range(0, len(X), rows):
        some = slice(start, start + rows)
        total = total + (wave(-w, X[some]) * q[some]) @ (k(X[some, None], X[None, :]) @ right)
    return total


def kernel_from_density(S, t, rule):
    """`int S(w) exp(2 pi i w.t) dw` for lags `(m, D)`; S is a function of frequencies `(N, D)`."""
    w, q = rule
    return wave(t, w) @ (q * S(w))


def kernel_from_generalized_density(S, x, y, rule, rows=256):
    """`iint S(w, xi) exp(2 pi i (w.x - xi.y)) dw dxi` for all pairs; S is a function of `(N1, D)` and `(N2, D)`."""
    w, q = rule
    right = q[:, None] * wave(-y, w).T
    total = 0.0
    for start in range(0, len(w), rows):
        some = slice(start, start + rows)
        total = total + (wave(x, w[some]) * q[some]) @ (S(w[some], w) @ right)
    return total

"""Panels of Chebyshev nodes: how sums over data become sums over fixed nodes (MATH.md section 6).

A function that is band-limited to `band` cycles is, on a panel short enough, a polynomial of degree below p to within the
tolerance. So `sum_n v_n F(x_n)` needs of the data only the moments `sum_n v_n T_k(xi_n)`, k < p, of each occupied panel,
whatever F is, and those of the nodes' Lagrange basis follow by one small matrix. In D dimensions panels are boxes and all
of this is a tensor product.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

# Chebyshev order by number of dimensions: high orders need fewer nodes a cycle (pi at best), but fill a box of p^D.
_ORDERS = {1: 48, 2: 24, 3: 16}
# Grids are made this much finer than the tolerance asks, so that what just fits the band passes the check.
_MARGIN = 0.1
# Points whose Chebyshev polynomials are evaluated at a time: they stay in cache, and products are too small for BLAS threads.
_BLOCK = 4096


@dataclasses.dataclass(frozen=True)
class Grid:
    """A lattice of panels. Two summaries add if and only if their grids are equal.

    Attributes:
        origin: a corner of the lattice, D numbers.
        width: of a panel, D numbers.
        order: p, Chebyshev nodes of a panel in each dimension.
        max_frequency: the highest frequency of a feature that is resolved, D numbers; products of two reach twice as far.
        tolerance: relative accuracy that the lattice was made for.
    """

    origin: tuple[float, ...]
    width: tuple[float, ...]
    order: int
    max_frequency: tuple[float, ...]
    tolerance: float

    @property
    def ndim(self) -> int:
        """D."""
        return len(self.width)

    def locate(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Panel of each point, `(n, D)` integers, and its coordinate inside, `(n, D)` in [-1, 1]."""
        position = (X - np.asarray(self.origin)) / np.asarray(self.width)
        panel = np.floor(position)
        return panel.astype(np.int64), 2 * (position - panel) - 1

    def nodes(self, panels: np.ndarray) -> np.ndarray:
        """All nodes of the given panels `(K, D)`, as `(K p^D, D)`."""
        xi = (chebyshev_nodes(self.order) + 1) / 2
        local = np.stack(np.meshgrid(*[xi] * self.ndim, indexing="ij"), axis=-1).reshape(-1, self.ndim)
        points = (panels[:, None, :] + local) * np.asarray(self.width) + np.asarray(self.origin)
        return points.reshape(-1, self.ndim)

    def node_weights(self, moments: np.ndarray) -> np.ndarray:
        """Weights of the nodes from the moments of the panels: `(K, p^D, c)` to `(K p^D, c)`."""
        K, _, columns = moments.shape
        result = moments.reshape(K, *[self.order] * self.ndim, columns)
        for axis in range(1, self.ndim + 1):
            result = np.moveaxis(np.tensordot(lagrange(self.order), result, axes=(1, axis)), 0, axis)
        return result.reshape(-1, columns)


def make_grid(max_frequency: np.ndarray, tolerance: float, origin: np.ndarray, end: np.ndarray | None = None) -> Grid:
    """The lattice for features up to `max_frequency` in each dimension; with an `end`, a whole number of panels up to there."""
    order = _ORDERS.get(len(max_frequency), 12)
    half_phase = resolved_phase(order, _MARGIN * tolerance)
    # A product of two features has frequencies up to 2 max_frequency: half a panel then turns by 2 pi f width.
    width = half_phase / (2 * np.pi * max_frequency)
    if end is not None:
        # One part in 1e9 more, so that the last point does not open a panel of its own.
        length = (end - origin) * (1 + 1e-9)
        width = length / np.ceil(length / width)
    return Grid(tuple(map(float, origin)), tuple(map(float, width)), order, tuple(map(float, max_frequency)), tolerance)


def chebyshev_nodes(p: int) -> np.ndarray:
    """Roots of `T_p`, ascending."""
    return -np.cos((np.arange(p) + 0.5) * np.pi / p)


@functools.lru_cache
def lagrange(p: int) -> np.ndarray:
    """`(p, p)`: `l_g(xi) = sum_k lagrange[g, k] T_k(xi)`; its transpose takes node values to Chebyshev coefficients."""
    k = np.arange(p)
    return np.cos(k * np.arccos(chebyshev_nodes(p))[:, None]) * np.where(k == 0, 1.0, 2.0) / p


def chebyshev(xi: np.ndarray, p: int, out: np.ndarray | None = None) -> np.ndarray:
    """`T_0 ... T_{p-1}`, `(p, n)`."""
    T = np.empty((p, xi.shape[0])) if out is None else out
    T[0] = 1
    if p > 1:
        T[1] = xi
    twice = 2 * xi
    for k in range(2, p):
        np.multiply(twice, T[k - 1], out=T[k])
        T[k] -= T[k - 2]
    return T


@functools.lru_cache
def resolved_phase(p: int, tolerance: float) -> float:
    """The largest kappa for which p nodes interpolate `exp(i kappa xi)` on [-1, 1] to the tolerance."""
    xi = np.linspace(-1, 1, 501)
    weights = lagrange(p) @ chebyshev(xi, p)
    nodes = chebyshev_nodes(p)

    def error(kappa: float) -> float:
        return float(np.max(np.abs(np.exp(1j * kappa * nodes) @ weights - np.exp(1j * kappa * xi))))

    low, high = 0.0, float(p)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) <= tolerance else (low, middle)
    if low < 0.5:
        raise ValueError(f"tolerance must be at least about 1e-13, got {tolerance:g}: interpolation cannot be that accurate.")
    return low


def moments(grid: Grid, X: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`sum_n values_n T_k1(xi_n1) ... T_kD(xi_nD)` over the points of each occupied panel.

    Args:
        grid: the lattice.
        X: `(n, D)`.
        values: `(n, c)`.

    Returns:
        The occupied panels `(K, D)`, in lexicographic order, and their moments `(K, p^D, c)`.
    """
    panels, xi = grid.locate(X)
    low = panels.min(axis=0)
    extent = panels.max(axis=0) - low + 1
    key = panels[:, 0] - low[0]
    for d in range(1, grid.ndim):
        key = key * extent[d] + (panels[:, d] - low[d])
    if np.any(key[1:] < key[:-1]):
        # 16-bit keys sort by radix, in linear time.
        order = np.argsort(key.astype(np.uint16) if np.prod(extent) < 2**16 else key, kind="stable")
        key, xi, values = key[order], xi[order], values[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    result = np.zeros((len(starts), grid.order**grid.ndim, values.shape[1]))
    ends = np.append(starts[1:], len(key))
    of_block = _LineMoments(grid.order, values.shape[1]) if grid.ndim == 1 else _tensor_moments
    for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for at in range(start, end, _BLOCK):
            rows = slice(at, min(at + _BLOCK, end))
            result[k] += of_block(xi[rows], values[rows], grid.order)
    occupied = np.stack(np.unravel_index(key[starts], tuple(extent)), axis=-1) + low
    return occupied, result


def _tensor_moments(xi: np.ndarray, values: np.ndarray, p: int) -> np.ndarray:
    """`(p^D, c)`: one matrix product between the polynomials of the first dimension and all the rest."""
    rest = values.T
    for d in range(xi.shape[1] - 1, 0, -1):
        rest = (chebyshev(xi[:, d], p)[:, None, :] * rest).reshape(-1, xi.shape[0])
    # rest is (p^{D-1} c, n) with the later dimensions outermost first.
    return (chebyshev(xi[:, 0], p) @ rest.T).reshape(p ** xi.shape[1], values.shape[1])


class _LineMoments:
    """`_tensor_moments` in one dimension, from few polynomials.

    `T_{sa+b} = 2 T_{sa} T_b - T_{sa-b}`: the sums of products of every s-th polynomial with the first s are one matrix product, and
    those of all p polynomials follow. The arrays it works in are kept: fresh ones of this size cost more than the arithmetic.
    """

    stride = 8

    def __init__(self, p: int, columns: int):
        self.count = -(-p // self.stride)
        self.low = np.empty((self.stride + 1, _BLOCK))
        self.high = np.empty((self.count, _BLOCK))
        self.weighted = np.empty((self.count, columns, _BLOCK))

    def __call__(self, xi: np.ndarray, values: np.ndarray, p: int) -> np.ndarray:
        """`(p, c)` from `(n, 1)` coordinates and `(n, c)` values, n at most `_BLOCK`."""
        n, c, s = xi.shape[0], values.shape[1], self.stride
        low = chebyshev(xi[:, 0], s + 1, out=self.low[:, :n])
        high = chebyshev(low[s], self.count, out=self.high[:, :n])  # T_a(T_s) = T_{sa}
        weighted = np.multiply(high[:, None, :], values.T, out=self.weighted[:, :, :n])
        products = np.stack([weighted[:, j] @ low[:s].T for j in range(c)], axis=1)  # (count, c, s)
        sums = np.empty((self.count * s, c))
        sums[:s] = products[0].T
        for a in range(1, self.count):
            sums[s * a] = products[a, :, 0]
            back = sums[s * a - 1 : s * (a - 1) : -1]
            sums[s * a + 1 : s * (a + 1)] = 2 * products[a, :, 1:].T - back
        return sums[:p]


def interpolation_error(grid: Grid, X: np.ndarray, seed: int = 0, probes: int = 4) -> float:
    """The largest error, over points of the data, in interpolating random waves of the full band `2 max_frequency`."""
    rng = np.random.default_rng(seed)
    panels, xi = grid.locate(X)
    worst = 0.0
    sides = rng.uniform(-1, 1, (probes, grid.ndim))
    sides[0] = 1.0  # the corner of the band is always among them
    for side in sides:
        w = 2 * side * np.asarray(grid.max_frequency)
        truth = np.exp(2j * np.pi * ((X - (panels * np.asarray(grid.width) + np.asarray(grid.origin))) @ w))
        value = np.ones(len(X), dtype=complex)
        for d in range(grid.ndim):  # waves are products over dimensions, and so are their interpolants
            t = (chebyshev_nodes(grid.order) + 1) / 2 * grid.width[d]
            value *= np.exp(2j * np.pi * w[d] * t) @ (lagrange(grid.order) @ chebyshev(xi[:, d], grid.order))
        worst = max(worst, float(np.max(np.abs(value - truth))))
    return worst

"""How well a model predicts what it has not seen: stretches of the record, as long as its gaps, withheld in turn.

The bound asks how well each observation follows from all those before it, and most of them have close neighbours. It hardly
notices whether a model is right about its error bars inside a gap. The density of observations given all but the block they
lie in does, and with `A(x)` the orthonormal features, `W = L^-1 A / sqrt(s2)`, `L L^H = I + A A^H / s2`, it is nearly free: for a
block b, `H = W_b^H W_b` (its block of the smoother matrix),

    y_b - E[y_b | y_-b] = (I - H)^-1 (y_b - W_b^H W y),    Var[y_n | y_-b] = s2 [(I - H)^-1]_nn + k(x_n, x_n) - Q_nn.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from harmix.features.base import Basis
from harmix.inference.collapsed import Collapsed
from harmix.linalg import Blocks, cholesky
from harmix.summary import Summary

# A gap is a spacing this much larger than the median one.
_GAP = 6.0
# Blocks are withheld in three lengths, relative to the median gap; without gaps, to so many median spacings.
_LENGTHS, _WITHOUT_GAPS = (0.65, 1.0, 1.5), 8.0
# Larger blocks than this, or more work than so many blocks of that size, are too expensive.
_LARGEST, _MOST_WORK = 256, 64 * 64**3
# There must be so many blocks for their average to say anything.
_FEWEST = 4


class Withheld(NamedTuple):
    """A partition of (part of) the nodes of a summary into blocks.

    Attributes:
        rows: which nodes each block holds, `(B, L)`.
        inside: whether a row counts, `(B, L)`: blocks are filled up to equal length, and partitions to equal numbers of blocks.
    """

    rows: Int[np.ndarray, "B L"]
    inside: Bool[np.ndarray, "B L"]


def withhold(summary: Summary) -> tuple[Withheld, ...]:
    """Partitions of a one-dimensional record into blocks as long as its gaps; none for compressed data or in more dimensions.

    Args:
        summary: of exact data; nodes that no observation lies on are passed over.
    """
    if summary.grid is not None or summary.nodes.shape[1] > 1:
        return ()
    counts = np.flatnonzero(np.asarray(summary.a) > 0)
    x = np.asarray(summary.nodes)[counts, 0]
    order = np.argsort(x, kind="stable")
    spacing = np.diff(x[order])
    distinct = spacing[spacing > 0]
    if len(distinct) < 2 * _FEWEST:
        return ()
    median = float(np.median(distinct))
    gaps = distinct[distinct > _GAP * median]
    typical = float(np.median(gaps)) if len(gaps) else _WITHOUT_GAPS * median
    found = (_partition(x, order, counts, length * typical) for length in _LENGTHS)
    return _of_equal_shape([w for w in found if w is not None])


def _partition(x: np.ndarray, order: np.ndarray, counts: np.ndarray, length: float) -> Withheld | None:
    """Runs of nodes that reach over `length` at the most; None where they are too few or too large."""
    blocks: list[list[int]] = []
    for i in order:
        if not blocks or x[i] - x[blocks[-1][0]] > length:
            blocks.append([])
        blocks[-1].append(int(i))
    # Every other block, or fewer, where all of them would cost too much.
    size = max(map(len, blocks))
    stride = int(np.ceil(len(blocks) * size**3 / _MOST_WORK))
    blocks = blocks[::stride]
    if len(blocks) < _FEWEST or size > _LARGEST:
        return None
    inside = np.array([[j < len(b) for j in range(size)] for b in blocks])
    index = np.array([[b[min(j, len(b) - 1)] for j in range(size)] for b in blocks])
    return Withheld(counts[index], inside)


def _of_equal_shape(partitions: list[Withheld]) -> tuple[Withheld, ...]:
    """Filled up with rows and blocks that count for nothing."""
    B, L = (max((w.rows.shape[axis] for w in partitions), default=0) for axis in (0, 1))
    fill = lambda v: np.pad(v, ((0, B - v.shape[0]), (0, L - v.shape[1])))
    return tuple(Withheld(fill(w.rows), fill(w.inside)) for w in partitions)


def log_density(
    basis: Basis, collapsed: Collapsed, noise_variance: Float[Array, ""], summary: Summary, partitions: tuple[Withheld, ...]
) -> Float[Array, ""]:
    """`sum_n log p(y_n | all blocks but the one of n)`, averaged over partitions and scaled to all observations.

    Args:
        basis: the orthonormal features.
        collapsed: the bound on all data, whose factor is needed.
        noise_variance: `s2`.
        summary: of exact data; a node of weight a counts a times.
        partitions: from `withhold`, of equal shape.
    """
    # Each node once, whichever blocks it is in.
    A, s2 = basis.project(summary.nodes), noise_variance
    unexplained = jnp.maximum(basis.kernel.diagonal(summary.nodes) - jnp.sum(jnp.abs(A) ** 2, axis=0), 0.0)
    a = jnp.where(summary.a > 0, summary.a, 1.0)
    white = collapsed.factor.solve_lower(A) * jnp.sqrt(a / s2)
    residual = summary.b / a - jnp.conj(A).T @ collapsed.mean

    def one(partition: Withheld) -> Float[Array, ""]:
        nodes, inside = partition
        take = lambda v: jnp.where(inside, v[..., nodes], 0.0)  # (..., B, L)
        W, weight = jnp.moveaxis(take(white), 0, 1), take(a)  # (B, M, L)
        H = jnp.conj(jnp.swapaxes(W, 1, 2)) @ W
        inner = cholesky(Blocks(jnp.eye(H.shape[-1]) - H), jitter=0.0, unit=1.0)
        root = jnp.sqrt(a[nodes]).reshape(-1)
        error = inner.solve_lower_adjoint(inner.solve_lower(root * take(residual).reshape(-1))) / root
        variance = s2 * jnp.sum(jnp.abs(inner.inverse) ** 2, axis=1).reshape(-1) / root**2 + unexplained[nodes].reshape(-1)
        squared = jnp.abs(error) ** 2 / variance
        if summary.is_complex or not basis.kernel.is_real:
            each = -jnp.log(jnp.pi * variance) - squared
        else:
            each = -0.5 * (jnp.log(2 * jnp.pi * variance) + squared)
        return jnp.sum(weight.reshape(-1) * each) / jnp.sum(weight)

    # One after another: what takes long to compile is in the program once.
    return summary.count * jnp.mean(jax.lax.map(one, jax.tree.map(lambda *v: jnp.stack(v), *partitions)))

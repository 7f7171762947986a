"""Data as the collapsed bound sees them: weighted nodes and a few sums, and they add (MATH.md section 6)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact, Int

from harmix.arguments import is_concrete, numeric_array, points
from harmix.precision import in_float64
from harmix.summary.grid import Grid


class Summary(eqx.Module):
    """What a Gaussian likelihood needs to know of the data.

    `sum_n v_n F(x_n) = sum_g a_g F(t_g)` and `sum_n v_n F(x_n) y_n = sum_g F(t_g) b_g` for the functions F that occur, `v_n` the
    weight of observation n (its noise variance is `noise_variance / v_n`).

    Attributes:
        nodes: `t`, `(G, D)`.
        a: `(G,)`.
        b: `(G,)`, complex when the observations are.
        count: n.
        sum_squares: `sum_n v_n |y_n|^2`.
        sum_log_weights: `sum_n log v_n`.
        panels: occupied panels of the grid, `(K, D)`, nodes in their order; None for exact data.
        error: measured relative error of interpolating the full band at the data's own places; 0 for exact data.
        grid: where the nodes are; None for exact data.
    """

    nodes: Float[Array, "G D"]
    a: Float[Array, " G"]
    b: Inexact[Array, " G"]
    count: Float[Array, ""]
    sum_squares: Float[Array, ""]
    sum_log_weights: Float[Array, ""]
    panels: Int[Array, "K D"] | None
    error: Float[Array, ""]
    grid: Grid | None = eqx.field(static=True)

    @staticmethod
    @in_float64
    def exact(X: Any, y: Any, weights: Any = None) -> Summary:
        """The data set itself: every point its own node, `a = v`, `b = v y`.

        Args:
            X: `(n, D)` or `(n,)`.
            y: `(n,)`, real or complex.
            weights: `v`, `(n,)`, positive; the noise variance of observation n is `noise_variance / v_n`. One by default.

        Example:
            >>> import harmix as hx
            >>> float(hx.Summary.exact([0.0, 1.0], [3.0, 4.0]).sum_squares)
            25.0
        """
        X, y, v = observations(X, y, weights)
        squares, logs = jnp.sum(v * jnp.abs(y) ** 2), jnp.sum(jnp.log(v))
        return Summary(X, v, v * y, jnp.asarray(float(X.shape[0])), squares, logs, None, jnp.zeros(()), None)

    @property
    def is_complex(self) -> bool:
        """Whether the observations are complex."""
        return jnp.iscomplexobj(self.b)

    @property
    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest corner of the nodes, `(D,)` each: where kernels are evaluated."""
        nodes = np.asarray(self.nodes)
        return nodes.min(axis=0), nodes.max(axis=0)

    @in_float64
    def __add__(self, other: Summary) -> Summary:
        """The summary of both data sets together: `summary(D1) + summary(D2) = summary(D1 u D2)`.

        Example:
            >>> import harmix as hx
            >>> both = hx.Summary.exact([0.0], [3.0]) + hx.Summary.exact([1.0], [4.0])
            >>> float(both.count), float(both.sum_squares)
            (2.0, 25.0)
        """
        if not isinstance(other, Summary):
            return NotImplemented
        if self.grid != other.grid:
            raise ValueError(
                f"only summaries on the same grid add, got {_describe(self)} and {_describe(other)}: summarise both with the "
                "same max_frequency, tolerance and domain."
            )
        sums = (
            self.count + other.count,
            self.sum_squares + other.sum_squares,
            self.sum_log_weights + other.sum_log_weights,
        )
        if self.grid is None:
            nodes, a, b = (jnp.concatenate([getattr(self, n), getattr(other, n)]) for n in ("nodes", "a", "b"))
            return Summary(nodes, a, b, *sums, None, jnp.zeros(()), None)
        weights = (jnp.stack([s.a, s.b], axis=1).reshape(s.panels.shape[0], -1, 2) for s in (self, other))  # type: ignore[union-attr]
        panels, total = merge((np.asarray(self.panels), np.asarray(other.panels)), tuple(map(np.asarray, weights)))
        both = total.reshape(-1, 2)
        observed = both[:, 1] if self.is_complex or other.is_complex else both[:, 1].real
        return on_grid(self.grid, panels, both[:, 0].real, observed, sums, max(float(self.error), float(other.error)))


def on_grid(grid: Grid, panels: np.ndarray, a: np.ndarray, b: np.ndarray, sums: tuple[Any, Any, Any], error: float) -> Summary:
    """A summary from its parts."""
    n, squares, logs = map(jnp.asarray, sums)
    arrays = jnp.asarray(grid.nodes(panels)), jnp.asarray(a), jnp.asarray(b)
    return Summary(*arrays, n, squares, logs, jnp.asarray(panels), jnp.asarray(error, float), grid)


def merge(panels: tuple[np.ndarray, ...], values: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Adds up what belongs to the same panel: panels `(K_i, D)` and values `(K_i, ...)` to `(K, D)` and `(K, ...)`."""
    every, place = np.unique(np.concatenate(panels), axis=0, return_inverse=True)
    total = np.zeros((len(every), *values[0].shape[1:]), dtype=np.result_type(*values))
    np.add.at(total, place.reshape(-1), np.concatenate(values))
    return every, total


def _describe(summary: Summary) -> str:
    grid = summary.grid
    if grid is None:
        return "exact data"
    return f"a grid with max_frequency={grid.max_frequency}, tolerance={grid.tolerance:g}, origin={grid.origin}, width={grid.width}"


def observations(X: Any, y: Any, weights: Any = None) -> tuple[Array, Array, Array]:
    """Checked `(n, D)` places, `(n,)` observations and `(n,)` weights."""
    X, y = points("X", X), numeric_array("y", y, allow_complex=True)
    if y.shape != X.shape[:1]:
        raise ValueError(f"y must have one value for each row of X, shape ({X.shape[0]},), got shape {y.shape}.")
    if weights is None:
        return X, y, jnp.ones(X.shape[0])
    weights = numeric_array("weights", weights)
    if weights.shape != y.shape:
        raise ValueError(f"weights must have one value for each row of X, shape {y.shape}, got shape {weights.shape}.")
    if is_concrete(weights) and not np.all(np.asarray(weights) > 0):
        raise ValueError(f"weights must be positive, got {float(np.min(weights))}; leave out observations of no weight.")
    return X, y, weights


def as_summary(data: Any) -> Summary:
    """A `Summary` as it is, or `(X, y)` as an exact one."""
    if isinstance(data, Summary):
        return data
    if isinstance(data, tuple) and len(data) in (2, 3):
        return Summary.exact(*data)
    raise TypeError(f"data must be a harmix.Summary or a tuple (X, y) or (X, y, weights), got {type(data).__name__}.")

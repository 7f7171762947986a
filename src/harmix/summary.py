"""Data as the collapsed bound sees them: weighted nodes and a few sums, and they add (MATH.md section 6)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact

from harmix.arguments import is_concrete, numeric_array, points
from harmix.precision import in_float64


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
    """

    nodes: Float[Array, "G D"]
    a: Float[Array, " G"]
    b: Inexact[Array, " G"]
    count: Float[Array, ""]
    sum_squares: Float[Array, ""]
    sum_log_weights: Float[Array, ""]

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
        return Summary(
            X, v, v * y, jnp.asarray(float(X.shape[0])), jnp.sum(v * jnp.abs(y) ** 2), jnp.sum(jnp.log(v))
        )

    @property
    def is_complex(self) -> bool:
        """Whether the observations are complex."""
        return jnp.iscomplexobj(self.b)


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

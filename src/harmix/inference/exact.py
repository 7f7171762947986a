"""The exact Gaussian process: the reference that everything sparse is measured by, and the right choice for few data."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from harmix.arguments import points, positive_number
from harmix.inference.collapsed import require_finite
from harmix.kernels.base import Kernel
from harmix.linalg import Cholesky, cholesky, dense
from harmix.precision import entry_point
from harmix.summary import observations


def factorise(kernel: Kernel, noise_variance: Float[Array, ""], X: Float[Array, "n D"], v: Float[Array, " n"]) -> Cholesky:
    """The Cholesky factor of `K + diag(s2 / v)`."""
    return cholesky(dense(kernel.gram(X, X) + jnp.diag(noise_variance / v)), jitter=0.0)


@eqx.filter_jit
def _log_marginal(kernel: Kernel, s2: Array, X: Array, y: Array, v: Array) -> tuple[Array, Array]:
    factor = factorise(kernel, s2, X, v)
    white = factor.solve_lower(y)
    complex_data = jnp.iscomplexobj(white)
    half, constant = (1.0, jnp.pi) if complex_data else (0.5, 2 * jnp.pi)
    value = -half * (jnp.sum(jnp.abs(white) ** 2) + factor.logdet() + y.shape[0] * jnp.log(constant))
    return value, factor.jitter


@entry_point
def log_marginal_likelihood(kernel: Kernel, noise_variance: Any, X: Any, y: Any, weights: Any = None) -> Float[Array, ""]:
    """`log N(y | 0, K + s2 I)`; for a complex kernel or complex y, `log CN(y | 0, K + s2 I)`.

    Args:
        kernel: the prior.
        noise_variance: `s2`, positive.
        X: `(n, D)` or `(n,)`.
        y: `(n,)`, real or complex.
        weights: `v`, `(n,)`, positive: the noise variance of observation n is `s2 / v_n`.

    Example:
        >>> import harmix as hx
        >>> round(float(hx.log_marginal_likelihood(hx.kernels.SquaredExponential(1.0, 1.0), 1.0, [0.0], [0.0])), 6)
        -1.265512
    """
    X, y, v = observations(X, y, weights)
    points("X", X, kernel.input_dim)
    value, jitter = _log_marginal(kernel, positive_number("noise_variance", noise_variance), X, y, v)
    require_finite("log_marginal_likelihood", value, jitter)
    return value

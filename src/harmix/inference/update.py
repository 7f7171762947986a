"""More data for a posterior that has seen some already, without the old data and without learning anything anew.

Where f depends on the data through features, the old data are their posterior `u ~ N(m, R R^H)`: write `u = m + R v` and v is
standard normal, so that the new data meet a prior like any other, with `R^H A(x)` in place of `A(x)` and `y - A(x)^H m` in place
of y. Natural parameters add, `S'^-1 = S^-1 + G / s2`, and no inverse of S is formed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from harmix.arguments import points
from harmix.features.base import Basis
from harmix.features.points import InducingPoints
from harmix.inference.collapsed import Diagnostics, gather, require_finite, require_resolved
from harmix.linalg import Cholesky, adjoint, cholesky, dense
from harmix.parameters import check_shapes
from harmix.precision import in_float64
from harmix.summary import Summary, as_summary
from harmix.summary.guard import overreach

if TYPE_CHECKING:
    from harmix.inference.posterior import Posterior


@in_float64
def updated(posterior: Posterior, data: Any) -> tuple[Posterior, Float[Array, ""]]:
    """The posterior given further data, and what the old one thought of them.

    Args:
        posterior: under Gaussian noise.
        data: `(X, y)`, `(X, y, weights)` or a `harmix.Summary`.

    Returns:
        The new posterior, and the log density of the new data given the old: exact where inference is; with features, what the
        collapsed bound of all data is above that of the old.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> old, new = ([0.0, 0.5], [1.0, 1.5]), ([1.0], [2.0])
        >>> post, gain = updated(hx.condition(k, u, 0.1, old), new)
        >>> both = hx.collapsed_bound(k, u, 0.1, ([0.0, 0.5, 1.0], [1.0, 1.5, 2.0]))
        >>> bool(abs(float(gain) - (both - hx.collapsed_bound(k, u, 0.1, old))) < 1e-9)
        True
    """
    if posterior.noise_variance is None:
        raise ValueError(
            "only a posterior under Gaussian noise can be updated, and this one has no noise_variance: "
            "take steps of harmix.natural_gradient_step with all data instead."
        )
    summary = as_summary(data)
    points("the nodes of the data", summary.nodes, check_shapes(posterior.basis.features).get("D", posterior.kernel.input_dim))
    if posterior.root is not None:
        result, density, diagnostics = _of_features(posterior, summary)
        result = require_resolved(summary, result, diagnostics)
    elif summary.grid is None:
        result, density = _of_observations(posterior, summary)
    else:
        raise TypeError(
            "this posterior is exact: it needs every observation, and a compressed summary has none. Give data as (X, y), "
            "or condition with features."
        )
    require_finite("Posterior.update", result.mean_weights, result.basis.jitter)
    return result, density


def _constants(posterior: Posterior, summary: Summary) -> tuple[float, float]:
    is_complex = summary.is_complex or jnp.iscomplexobj(posterior.mean_weights) or not posterior.kernel.is_real
    return (1.0, float(jnp.pi)) if is_complex else (0.5, 2 * float(jnp.pi))


@eqx.filter_jit
def _of_features(posterior: Posterior, summary: Summary) -> tuple[Posterior, Array, Diagnostics]:
    basis, m = posterior.basis, posterior.mean_weights
    R: Any = posterior.root
    s2: Any = posterior.noise_variance
    stats = gather(basis, summary)
    half, constant = _constants(posterior, summary)

    explained = stats.gram @ m  # sum_n v_n A(x_n) E[f(x_n)]
    factor = cholesky(dense(jnp.eye(basis.size) + adjoint(R) @ stats.gram @ R / s2), jitter=0.0)
    white = factor.solve_lower(adjoint(R) @ (stats.projection - explained)) / s2
    residual = summary.sum_squares - jnp.real(jnp.vdot(m, 2 * stats.projection - explained))
    unexplained = (stats.trace - jnp.real(jnp.trace(stats.gram))) / s2
    density = half * (
        -summary.count * jnp.log(constant * s2)
        + summary.sum_log_weights
        - factor.logdet()
        - residual / s2
        + jnp.sum(jnp.abs(white) ** 2)
        - unexplained
    )
    mean = m + R @ factor.solve_lower_adjoint(white)
    root = R @ adjoint(factor.inverse[0])
    new = eqx.tree_at(lambda p: (p.mean_weights, p.root), posterior, (mean, root))
    return new, density, Diagnostics(basis.jitter, unexplained, stats.tail, overreach(basis.kernel, summary))


@eqx.filter_jit
def _of_observations(posterior: Posterior, summary: Summary) -> tuple[Posterior, Array]:
    """Exact inference keeps `K + diag(s2 / v) = L L^H` and `L^-1 y`: both grow by the new rows."""
    basis, m = posterior.basis, posterior.mean_weights
    old: Any = basis.features
    s2: Any = posterior.noise_variance
    X, y = summary.nodes, summary.b / summary.a
    A = basis.project(X)
    rest = basis.kernel.gram(X, X) - adjoint(A) @ A + jnp.diag(s2 / summary.a)
    factor = cholesky(dense(rest), jitter=0.0)
    white = factor.solve_lower(y - adjoint(A) @ m)
    half, constant = _constants(posterior, summary)
    density = -half * (jnp.sum(jnp.abs(white) ** 2) + factor.logdet() + X.shape[0] * jnp.log(constant))

    L1, I1 = basis.factor.lower[0], basis.factor.inverse[0]
    L2, I2 = factor.lower[0], factor.inverse[0]
    none = jnp.zeros_like(A)
    grown = Cholesky(
        jnp.block([[L1, none], [adjoint(A), L2]])[None],
        jnp.block([[I1, none], [-I2 @ adjoint(A) @ I1, I2]])[None],
        jnp.maximum(basis.factor.jitter, factor.jitter),
    )
    places = InducingPoints(jnp.concatenate([old.locations, X]))
    new = Basis(basis.kernel, places, jnp.ones(grown.size), grown)
    return type(posterior)(new, jnp.concatenate([m, white]), None, s2), density

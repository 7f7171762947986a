"""What harmonizable mixtures are compared with: stationary kernels, exact or with inducing points, learned from several starts."""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from scipy.optimize import minimize
from scipy.signal import lombscargle

from harmix.features import Features, InducingPoints, make_basis
from harmix.inference.collapsed import collapse
from harmix.inference.exact import _log_marginal
from harmix.inference.posterior import Posterior, condition
from harmix.kernels import Kernel, Matern, SpectralMixture, SquaredExponential
from harmix.parameters import from_free, to_free
from harmix.precision import in_float64
from harmix.summary import Summary

_REFUSED = 1e10


class Baseline(NamedTuple):
    """A learned model: its posterior, and the log evidence (or bound) that chose it among its starts."""

    posterior: Posterior
    objective: float


@eqx.filter_jit
def _negative(vector: Array, like: Any, summary: Summary) -> tuple[Array, Array]:
    unravel = ravel_pytree(eqx.filter(like, eqx.is_inexact_array))[1]
    static = eqx.filter(like, eqx.is_inexact_array, inverse=True)

    def objective(vector: Array) -> Array:
        kernel, features, log_noise = from_free(eqx.combine(unravel(vector), static))
        noise = jnp.exp(log_noise)
        if features is None:
            return -_log_marginal(kernel, noise, summary.nodes, summary.b / summary.a, summary.a)[0]
        return -collapse(make_basis(kernel, features), noise, summary).bound

    value, gradient = jax.value_and_grad(objective)(vector)
    usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    return jnp.where(usable, value, _REFUSED), jnp.where(usable, gradient, 0.0)


@in_float64
def learn(starts: list[Kernel], locations: Any, noise: float, X: Any, y: Any, *, iterations: int = 300) -> Baseline:
    """The best of several starts by L-BFGS; "best" by the training objective.

    Args:
        starts: kernels of the same shape.
        locations: inducing points `(M, D)` to start from; None for exact inference.
        noise: noise variance to start from.
        X: `(n, D)`.
        y: `(n,)`.
        iterations: at most so many for each start.

    Example:
        >>> x = np.linspace(0, 1, 20)[:, None]
        >>> learn([SquaredExponential(1.0, 0.3)], None, 0.1, x, np.sin(6 * x[:, 0]), iterations=5).objective > -20
        True
    """
    summary = Summary.exact(X, y)
    best: tuple[float, Any] = (np.inf, None)
    for kernel in starts:
        features: Features | None = None if locations is None else InducingPoints(locations)
        like = to_free((kernel, features, jnp.log(jnp.asarray(noise))))
        start, unravel = ravel_pytree(eqx.filter(like, eqx.is_inexact_array))
        static = eqx.filter(like, eqx.is_inexact_array, inverse=True)
        evaluate = lambda v, like=like: tuple(np.asarray(a, float) for a in _negative(jnp.asarray(v), like, summary))
        found = minimize(
            evaluate, start, jac=True, method="L-BFGS-B", options={"maxiter": iterations, "maxfun": 2 * iterations}
        )
        if found.fun < best[0]:
            best = (float(found.fun), from_free(eqx.combine(unravel(jnp.asarray(found.x)), static)))
    kernel, features, log_noise = best[1]
    return Baseline(condition(kernel, features, jnp.exp(log_noise), (X, y)), -best[0])


def spectral_mixture_starts(X: np.ndarray, y: np.ndarray, Q: int, count: int, rng: np.random.Generator) -> list[Kernel]:
    """Spectral mixtures with frequencies drawn in proportion to the Lomb-Scargle periodogram, as peers start theirs."""
    x, span = X[:, 0], float(np.ptp(X))
    highest = 0.5 / float(np.median(np.diff(np.sort(x))))
    tried = np.arange(0.25, highest * span, 0.25) / span
    power = lombscargle(x, y - np.mean(y), 2 * np.pi * tried)
    variance = float(np.var(y))
    draw = lambda: np.sort(rng.choice(tried, Q, p=power / power.sum()))
    width = lambda: np.exp(rng.normal(np.log(1 / span), 0.5, (Q, 1)))
    return [SpectralMixture(np.full(Q, variance / Q), draw()[:, None], width()) for _ in range(count)]


def stationary_starts(family: str, X: np.ndarray, y: np.ndarray, count: int) -> list[Kernel]:
    """SE or Matern-5/2 with lengthscales from a hundredth of the record to a third."""
    variance = float(np.var(y))
    lengths = np.geomspace(0.01, 0.3, count) * float(np.ptp(X))
    make = {"SE": lambda s: SquaredExponential(variance, s), "Matern-5/2": lambda s: Matern(2.5, variance, s)}[family]
    return [make(s) for s in lengths]

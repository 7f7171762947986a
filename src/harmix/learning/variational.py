"""Learning with any likelihood: kernel, features, likelihood and q(u) climb the stochastic bound together (MATH.md section 5).

Nothing is collapsed here, so q(u) is part of what the optimiser moves. It starts at what a few natural-gradient steps make of
it, and then L-BFGS moves everything at once: alternating with first-order steps takes ten times as many evaluations.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from harmix.arguments import numeric_array
from harmix.features import Features
from harmix.features.base import make_basis
from harmix.inference.collapsed import require_finite
from harmix.inference.natural import step
from harmix.inference.stochastic import VariationalGaussian, bound, checked_data
from harmix.kernels import Kernel
from harmix.learning.descent import descend
from harmix.likelihoods import Likelihood
from harmix.parameters import from_free, to_free
from harmix.precision import in_float64

# Natural-gradient steps that q starts with, and their size: full ones overshoot where the likelihood is steep.
WARM_UP, WARM_UP_STEP = 12, 0.5
# What the optimiser is told where the bound is not a number: it takes a shorter step.
_REFUSED = 1e10

# Log density of parameters, up to a constant: what is added to the bound while it is climbed.
Prior = Callable[[Kernel, Features, Likelihood], Any]
Callback = Callable[[int, float], None]


class VariationalFit(NamedTuple):
    """Where `fit_variational` ended, and how it got there.

    Attributes:
        kernel: with learned parameters.
        features: with learned frequencies or locations.
        likelihood: with learned parameters.
        q: the variational distribution.
        bound: on the log evidence, without the prior.
        history: bound plus log prior after each iteration, the best so far, `(iterations,)`.
        jitter: added to the prior covariance of the features.
        converged: whether the optimiser was done.
        message: why it stopped.
        seconds: it took, compilation included.
    """

    kernel: Kernel
    features: Features
    likelihood: Likelihood
    q: VariationalGaussian
    bound: float
    history: Float[np.ndarray, " iterations"]
    jitter: float
    converged: bool
    message: str
    seconds: float


class _Weighted(Likelihood):
    """A likelihood whose n-th observation counts `weights[n]` times."""

    inner: Likelihood
    weights: Float[Array, " n"]

    @property
    def n_latent(self) -> int:
        return self.inner.n_latent

    def log_prob(self, y: Array, f: Array) -> Array:
        return self.weights * self.inner.log_prob(y, f)

    def moments(self, f: Array) -> tuple[Array, Array]:
        return self.inner.moments(f)  # a row that stands for many is many observations, each distributed as one

    def expected_log_prob(self, y: Array, mean: Array, variance: Array) -> Array:
        return self.weights * self.inner.expected_log_prob(y, mean, variance)

    # A likelihood of several latents must have these, used or not.
    def predict(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        return self.inner.predict(mean, variance)

    def log_density(self, y: Array, mean: Array, variance: Array) -> Array:
        return self.weights * self.inner.log_density(y, mean, variance)


class _Problem(NamedTuple):
    """What stays while the optimiser moves."""

    static: Any  # whatever of (kernel, features, likelihood, q) is not an array
    prior: Prior | None
    X: Float[Array, "n D"]
    y: Array
    weights: Float[Array, " n"]


def _model(free: Any, static: Any) -> tuple[Kernel, Features, Likelihood, VariationalGaussian]:
    parameters, q = eqx.combine(free, static)
    return (*from_free(parameters), q)


@eqx.filter_jit
def _value_and_gradient(vector: Array, like: Any, problem: _Problem) -> tuple[Array, Array, tuple[Array, Array]]:
    """Minus bound plus log prior, its gradient, and the bound with its jitter, at flat coordinates shaped as `like`."""
    unravel = ravel_pytree(like)[1]

    def negative(vector: Array) -> tuple[Array, tuple[Array, Array]]:
        kernel, features, likelihood, q = _model(unravel(vector), problem.static)
        weighted = _Weighted(likelihood, problem.weights)
        value, jitter = bound(kernel, features, weighted, q, problem.X, problem.y, problem.X.shape[0])
        log_prior = 0.0 if problem.prior is None else problem.prior(kernel, features, likelihood)
        return -(value + log_prior), (value, jitter)

    (value, terms), gradient = jax.value_and_grad(negative, has_aux=True)(vector)
    usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    return jnp.where(usable, value, _REFUSED), jnp.where(usable, gradient, 0.0), terms


@eqx.filter_jit
def _warm_up(
    kernel: Kernel,
    features: Features,
    likelihood: Likelihood,
    q: VariationalGaussian,
    X: Array,
    y: Array,
    weights: Array,
    steps: Array,
) -> VariationalGaussian:
    basis, weighted = make_basis(kernel, features), _Weighted(likelihood, weights)
    once = lambda _, q: step(basis, weighted, q, X, y, WARM_UP_STEP, X.shape[0])
    return jax.lax.fori_loop(0, steps, once, q)


@in_float64
def fit_variational(
    kernel: Kernel,
    features: Features,
    likelihood: Likelihood,
    q: VariationalGaussian | None,
    X: Any,
    y: Any,
    *,
    max_iterations: int = 500,
    weights: Any = None,
    prior: Prior | None = None,
    warm_up: int = WARM_UP,
    callback: Callback | None = None,
) -> VariationalFit:
    """Kernel, features, likelihood and q(u) at a local maximum of the stochastic bound, on all data at once, by L-BFGS.

    Args:
        kernel: the prior process to start from.
        features: the features to start from; their frequencies or locations are learned too.
        likelihood: one of `harmix.likelihoods`.
        q: where q starts; None: where natural-gradient steps from the prior lead.
        X: `(n, D)` or `(n,)`.
        y: `(n,)`, as the likelihood takes them.
        max_iterations: of L-BFGS.
        weights: how many observations each row stands for, `(n,)`; 0 leaves a row out. One of each by default.
        prior: `prior(kernel, features, likelihood)`, a log density of the parameters that is added to the bound. An
            `equinox.Module` is compiled once, whatever the numbers in it.
        warm_up: natural-gradient steps that a q without a start begins with; 0 leaves it at the prior, which takes a few more
            iterations, and half as long to compile.
        callback: `callback(iteration, objective)`; may raise StopIteration.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> X, y = [0.0, 0.4, 0.5, 1.0], [0.0, 1.0, 0.0, 1.0]
        >>> found = fit_variational(k, u, hx.likelihoods.Bernoulli(), None, X, y, max_iterations=20)
        >>> bool(found.bound > hx.elbo(k, u, hx.likelihoods.Bernoulli(), hx.VariationalGaussian(u, k), X, y))
        True
    """
    began = time.perf_counter()
    fresh = q is None
    q = VariationalGaussian(features, kernel, n_latent=likelihood.n_latent) if q is None else q
    X, y = checked_data(kernel, likelihood, q, X, y)
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 1:
        raise ValueError(f"max_iterations must be a positive integer, got {max_iterations!r}.")
    weights = checked_weights(weights, X.shape[0])
    if fresh and warm_up > 0:
        q = _warm_up(kernel, features, likelihood, q, X, y, weights, jnp.asarray(warm_up))

    # Numbers as arrays: other values are then no reason to compile anew.
    prior = jax.tree.map(lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) else leaf, prior)
    like, static = eqx.partition((to_free((kernel, features, likelihood)), q), eqx.is_inexact_array)
    problem = _Problem(static, prior, X, y, weights)
    vector, unravel = ravel_pytree(like)
    best: dict[str, Any] = {"value": np.inf, "vector": np.asarray(vector)}
    history: list[float] = []

    def evaluate(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, terms = _value_and_gradient(jnp.asarray(v), like, problem)
        if float(value) < best["value"]:
            best.update(value=float(value), vector=v.copy(), terms=terms)
        return float(value), np.asarray(gradient)

    def after(_: np.ndarray) -> None:
        history.append(-best["value"])
        if callback is not None:
            callback(len(history), history[-1])

    if evaluate(best["vector"])[0] == _REFUSED:
        require_finite("the bound at the start of fit_variational", jnp.asarray(jnp.nan), jnp.zeros(()))
    found = descend(evaluate, lambda: best["vector"], iterations=max_iterations, gtol=1e-5, callback=after)

    kernel, features, likelihood, q = _model(unravel(jnp.asarray(best["vector"])), static)
    value, jitter = map(float, best["terms"])
    return VariationalFit(
        kernel,
        features,
        likelihood,
        q,
        value,
        np.asarray(history or [-best["value"]]),
        jitter,
        bool(found.success),
        str(found.message).strip().lower(),
        time.perf_counter() - began,
    )


@in_float64
def checked_weights(weights: Any, n: int) -> Float[Array, " n"]:
    """Weights of n rows, all 1 by default."""
    if weights is None:
        return jnp.ones(n)
    array = numeric_array("weights", weights)
    if array.shape != (n,):
        raise ValueError(f"weights must have one value for each row of X, shape ({n},), got shape {array.shape}.")
    if not (np.all(np.asarray(array) >= 0) and np.any(np.asarray(array) > 0)):
        raise ValueError(f"weights must not be negative, nor all 0, got the smallest {float(jnp.min(array)):g}.")
    return array

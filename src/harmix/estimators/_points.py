"""Regression with many input columns: a harmonizable mixture with inducing points in place of frequencies.

Frequencies explain a process in one component by its Fourier transform, and the share of the variance at a place that one of them
explains is a product over the dimensions: in ten of them fifty frequencies explain next to nothing. Points do not suffer from it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from scipy.optimize import minimize

from harmix.features import InducingPoints
from harmix.features.base import make_basis
from harmix.inference.collapsed import collapse
from harmix.inference.posterior import condition, positive_count
from harmix.kernels import HarmonizableMixture
from harmix.learning.classify import clusters
from harmix.learning.fit import FitResult, _padded
from harmix.learning.optimize import REFUSED, Restart
from harmix.likelihoods import Gaussian
from harmix.parameters import from_free, to_free
from harmix.precision import in_float64
from harmix.summary import Summary

# Inputs have unit deviation: windows start so wide that the record is nearly stationary, noise as a part of the variance.
_WINDOW, _NOISE = 10.0, 0.3
# Deviations of log windows, log lengthscales and log variances from where they start.
_SPREAD = 1.5
_POINTS, _ITERATIONS = 50, 200


@eqx.filter_jit
def _value_and_gradient(vector: Array, like: Any, static: Any, start: Any, summary: Summary) -> tuple[Array, Array, Any]:
    unravel = ravel_pytree(like)[1]

    def objective(v: Array) -> tuple[Array, Any]:
        kernel, features, likelihood = from_free(eqx.combine(unravel(v), static))
        result = collapse(make_basis(kernel, features), likelihood.variance, summary)
        pairs = ((kernel.windows, start.windows), (kernel.lengthscales, start.lengthscales))
        variances = (jnp.trace(k.weights, axis1=1, axis2=2) for k in (kernel, start))
        prior = sum(-0.5 * jnp.sum((jnp.log(a / b) / _SPREAD) ** 2) for a, b in (*pairs, tuple(variances)))
        return result.bound + prior, (result.bound, result.diagnostics.jitter)

    (value, terms), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
    return jnp.where(usable, value, -REFUSED), jnp.where(usable, gradient, 0.0), terms


@in_float64
def fit_points(
    summary: Summary, *, n_components: Any, n_inducing: Any, seed: int, callback: Callable[[int, int, float], None]
) -> FitResult:
    """One set of hyperparameters at a maximum of the bound plus a weak log prior, by L-BFGS."""
    began = time.perf_counter()
    X = np.asarray(summary.nodes)
    D, rng = X.shape[1], np.random.default_rng(seed)
    P = 1 if n_components == "auto" else min(positive_count("n_components", n_components), len(X))
    M = min(_POINTS if n_inducing == "auto" else positive_count("n_inducing", n_inducing), len(X))
    # Distances grow with the root of the number of columns, and lengthscales with them.
    kernel = HarmonizableMixture(
        jnp.asarray(clusters(X, P, rng)),
        jnp.full((P, D), _WINDOW),
        jnp.full((P, D), math.sqrt(D)),
        jnp.zeros((P, 1, D)),
        jnp.full((P, 1, 1), 1.0 / P),
    )
    model = (kernel, InducingPoints(jnp.asarray(clusters(X, M, rng))), Gaussian(jnp.asarray(_NOISE)))
    like, static = eqx.partition(to_free(model), eqx.is_inexact_array)
    padded, (vector, unravel) = _padded(summary), ravel_pytree(like)
    best: dict[str, Any] = {"value": -np.inf, "vector": np.asarray(vector)}
    history: list[float] = []

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient, terms = _value_and_gradient(jnp.asarray(v), like, static, kernel, padded)
        if float(value) > best["value"]:
            best.update(value=float(value), vector=v.copy(), terms=terms)
        return -float(value), -np.asarray(gradient)

    def after(_: np.ndarray) -> None:
        history.append(best["value"])
        callback(0, len(history), history[-1])

    options = {"maxiter": _ITERATIONS, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-4}
    found = minimize(negative, best["vector"], jac=True, method="L-BFGS-B", callback=after, options=options)
    kernel, features, likelihood = from_free(eqx.combine(unravel(jnp.asarray(best["vector"])), static))
    bound, jitter = map(float, best["terms"])
    seconds, message = time.perf_counter() - began, str(found.message).strip().lower()
    objective = np.asarray(history or [best["value"]])
    name = f"{P} window(s), {M} inducing points"
    restart = Restart(name, objective, bound, math.nan, jitter, int(found.nit), bool(found.success), message, seconds)
    noise = float(likelihood.variance)
    posterior = condition(kernel, features, noise, summary)
    return FitResult(
        posterior, kernel, features, noise, bound, (restart,), 0, "map", {}, jitter, seconds, restart.converged, message
    )

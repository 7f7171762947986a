"""Every likelihood at the same number of points, so that each of its methods is compiled once for all tests."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import harmix as hx

L = hx.likelihoods

# Instances of every likelihood, and observations that fit.
EVERY = [
    (L.Gaussian(0.3), [0.7, -4.0]),
    (L.Bernoulli("probit"), [0.0, 1.0]),
    (L.Bernoulli("logit"), [0.0, 1.0]),
    (L.Poisson(), [0.0, 7.0, 50.0]),
    (L.Poisson(exposure=0.1), [1.0]),
    (L.StudentT(4.0, 0.1), [0.5, -6.0]),
    (L.StudentT(0.7, 1.0), [0.5]),
    (L.StudentT(200.0, 0.5), [3.0]),
    (L.Softmax(3), [0.0, 2.0, 1.0]),
]

MEANS = np.array([-10.0, -3.1, -0.2, 0.0, 1.0, 10.0])
VARIANCES = np.array([0.0, 1e-12, 1e-4, 0.3, 2.0, 10.0, 100.0, 1e4])
# No variance, or next to none, around zero: what a derivative in the variance meets there.
NARROW = np.linspace(-3.0, 3.0, 5), np.array([0.0, 1e-300, 1e-12])
EXTREME = np.array([-1e3, -30.0, 0.0, 30.0, 1e3]), np.array([0.0, 1e-300, 1e-12, 1.0, 1e3, 1e6])
RANDOM = 24

BATCH = 6 * 8 * 3 + 5 * 3 + 5 * 6 + RANDOM


def name(likelihood):
    return "-".join([type(likelihood).__name__, *(str(getattr(likelihood, f.name)) for f in dataclasses.fields(likelihood))])


def call(method, *args):
    """A method of a likelihood, `BATCH` points at a time however many they are."""
    args = [np.asarray(a, dtype=float) for a in args]
    n = len(args[0])
    rows = np.minimum(np.arange(-(-n // BATCH) * BATCH), n - 1).reshape(-1, BATCH)
    parts = [method(*(a[r] for a in args)) for r in rows]
    return jax.tree.map(lambda *p: np.concatenate(p)[:n], *parts)


class Case:
    """A likelihood and `BATCH` observations, means and variances, in four sections.

    `grid`: MEANS x VARIANCES x observations; `narrow` and `extreme`: as above, with the first (last) observation;
    `random`: moderate means and variances. Several latents: the others at random, or, at the extremes, means of zero
    and variances from one extreme to another.
    """

    grid, narrow, extreme, random = slice(0, 144), slice(144, 159), slice(159, 189), slice(189, BATCH)

    def __init__(self, likelihood, ys):
        self.likelihood, self.ys = likelihood, ys
        rng = np.random.default_rng(1)
        mesh = lambda *axes: tuple(a.ravel() for a in np.meshgrid(*axes, indexing="ij"))
        labels, means, variances = mesh(np.resize(ys, 3), MEANS, VARIANCES)
        narrow, extreme = mesh(*NARROW), mesh(*EXTREME)
        self.y = np.concatenate([labels, np.full(15, ys[0]), np.full(30, ys[-1]), rng.choice(ys, RANDOM)])
        self.mean = np.concatenate([means, narrow[0], extreme[0], 2 * rng.normal(size=RANDOM)])
        self.variance = np.concatenate([variances, narrow[1], extreme[1], 10 ** rng.uniform(-2, 1, size=RANDOM)])
        if (C := likelihood.n_latent) > 1:
            more = (BATCH, C - 1)
            self.mean = np.column_stack([self.mean, 2 * rng.normal(size=more)])
            self.variance = np.column_stack([self.variance, 10 ** rng.uniform(-2, 1, size=more)])
            self.mean[self.extreme, 1:] = 0.0
            rolled = [np.roll(extreme[1], 7 * k) for k in range(1, C)]
            self.variance[self.extreme, 1:] = np.stack(rolled, axis=1)

    @functools.cached_property
    def expected_log_prob(self):
        return self.likelihood.expected_log_prob(self.y, self.mean, self.variance)

    @functools.cached_property
    def log_density(self):
        return self.likelihood.log_density(self.y, self.mean, self.variance)

    @functools.cached_property
    def predict(self):
        return self.likelihood.predict(self.mean, self.variance)


# Also of likelihoods that differ in nothing but their parameters: they share what is compiled.
CASES = [Case(*pair) for pair in EVERY]


@eqx.filter_jit
def derivatives(likelihood, method, y, mean, variance, weight, direction):
    """Gradient of the weighted sum of a method in (likelihood, mean, variance), and its change in a direction.

    The gradient backwards, as learning computes it, and its change forwards: one function gives first derivatives and
    second ones. For `predict` the gradient alone, of everything it returns.
    """
    if method == "predict":
        total = lambda lik, m, v: sum(jnp.sum(a) for a in lik.predict(m, v))
    else:
        total = lambda lik, m, v: jnp.sum(weight * getattr(lik, method)(y, m, v))
    parameters, static = eqx.partition(likelihood, eqx.is_inexact_array)
    gradient = jax.grad(lambda p, m, v: total(eqx.combine(p, static), m, v), argnums=(0, 1, 2))
    if method == "predict":
        return gradient(parameters, mean, variance), None
    return jax.jvp(gradient, (parameters, mean, variance), direction)

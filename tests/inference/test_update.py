"""A posterior that is given its data in parts ends where one that is given all of them at once does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inference.problems import N, Problem, places, problem

import harmix as hx
from harmix.inference.update import updated
from harmix.summary.guard import OutOfBandError

FIRST, SECOND = slice(0, 10), slice(10, N)


def parts(p: Problem, weights=None):
    """All of the data, and the two parts of it."""
    every = (p.X, p.y) if weights is None else (p.X, p.y, weights)
    return every, tuple(a[FIRST] for a in every), tuple(a[SECOND] for a in every)


def assert_same_posterior(a, b, tolerance=1e-9):
    """Of the same u: nothing that is asked of a posterior depends on more than these two."""
    covariance = lambda p: np.zeros(1) if p.root is None else np.asarray(p.root) @ np.conj(p.root).T
    np.testing.assert_allclose(a.mean_weights, b.mean_weights, rtol=0, atol=tolerance * np.max(np.abs(b.mean_weights)))
    np.testing.assert_allclose(covariance(a), covariance(b), rtol=0, atol=tolerance)
    for name in ("lower", "inverse"):
        one, two = (np.asarray(getattr(p.basis.factor, name)) for p in (a, b))
        np.testing.assert_allclose(one, two, rtol=0, atol=tolerance * np.max(np.abs(two)))


@pytest.mark.parametrize(("kind", "D"), [("real", 1), ("Hermitian", 2), ("complex", 1), ("complex", 2)])
def test_an_update_equals_conditioning_on_both_parts(kind, D):
    p = problem(kind, D, seed=3)
    every, first, second = parts(p, np.random.default_rng(0).uniform(0.2, 4.0, N))
    start = hx.condition(p.kernel, p.features, p.noise, first)
    new, density = updated(start, second)
    assert_same_posterior(new, hx.condition(p.kernel, p.features, p.noise, every))
    if D == 1:
        X = places(np.random.default_rng(1), D, n=4)
        np.testing.assert_array_equal(start.update(hx.Summary.exact(*second)).mean(X), new.mean(X))
        bound = lambda data: hx.collapsed_bound(p.kernel, p.features, p.noise, data)
        assert density == pytest.approx(bound(every) - bound(first), abs=1e-9)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_an_exact_posterior_grows_by_the_new_data(kind):
    p = problem(kind, seed=3)
    every, first, second = parts(p, np.random.default_rng(0).uniform(0.2, 4.0, N))
    evidence = lambda data: hx.log_marginal_likelihood(p.kernel, p.noise, *data)
    new, density = updated(hx.condition(p.kernel, None, p.noise, first), second)
    assert_same_posterior(new, hx.condition(p.kernel, None, p.noise, every))
    assert density == pytest.approx(evidence(every) - evidence(first), abs=1e-9)


@pytest.mark.parametrize(("kind", "D"), [("real", 1), ("complex", 2)])
def test_an_update_takes_compressed_data(kind, D):
    p = problem(kind, D, seed=4)
    every, first, second = parts(p)
    with jax.enable_x64(True):
        band = 1.2 * np.asarray(p.kernel.bandwidth(D)) + np.max(np.abs(p.features.frequencies), axis=(0, 1))
    summary = hx.summarize(*second, max_frequency=tuple(map(float, band)), tolerance=1e-11)
    start = hx.condition(p.kernel, p.features, p.noise, first)
    assert_same_posterior(start.update(summary), hx.condition(p.kernel, p.features, p.noise, every))
    if D == 1:
        coarse = hx.summarize(*second, max_frequency=tuple(map(float, band / 9)))
        with pytest.raises(OutOfBandError, match="summarise again with max_frequency"):
            start.update(coarse)


def test_many_updates_do_not_drift():
    p = problem("real", seed=5, n=200, noise=1e-4)
    sparse = hx.condition(p.kernel, p.features, p.noise, (p.X[:25], p.y[:25]))
    for i in range(25, 200, 25):
        sparse = sparse.update((p.X[i : i + 25], p.y[i : i + 25]))
    assert_same_posterior(sparse, hx.condition(p.kernel, p.features, p.noise, p.data), tolerance=1e-8)


def test_what_cannot_be_updated_is_refused():
    p = problem("real")
    exact = hx.condition(p.kernel, None, p.noise, p.data)
    with pytest.raises(TypeError, match=r"exact.*compressed summary"):
        exact.update(hx.summarize(*p.data, max_frequency=9.0))
    variational = hx.posterior(p.kernel, p.features, hx.VariationalGaussian(p.features, p.kernel))
    with pytest.raises(ValueError, match="Gaussian noise"):
        variational.update(p.data)
    for features in (p.features, None):
        posterior = hx.condition(p.kernel, features, p.noise, p.data)
        with pytest.raises(ValueError, match="2 input dimension"):
            posterior.update((np.ones((3, 2)), np.ones(3)))
        with pytest.raises(ValueError, match="finite"):
            posterior.update(([0.0], [jnp.nan]))

"""A classifier starts where its training rows are, keeps what is best on them, and knows binary and several classes."""

import jax
import numpy as np
import pytest

import harmix as hx
from harmix.learning.classify import DEFAULT_PRIOR, WINDOW, MixturePrior, fit_classifier, initial_classifier
from harmix.likelihoods import Bernoulli, Softmax

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, (60, 2))
Y = (np.sum(X**2, axis=1) + 0.3 * RNG.normal(size=60) < 2).astype(float)
SMALL = {"n_components": 2, "n_inducing": 2, "n_restarts": 1, "max_iterations": 30}


def probabilities(found, X):
    return np.asarray(found.likelihood.predict(*found.latent(X))[0])


@pytest.fixture(scope="module")
def found():
    return fit_classifier(X, Y, **SMALL | {"n_restarts": 5, "max_iterations": 130})


def test_it_tells_a_disc_from_what_is_around_it(found):
    assert np.mean((probabilities(found, X) > 0.5) == Y) > 0.9
    new = np.array([[0.0, 0.0], [1.9, 1.9]])
    inside, outside = probabilities(found, new)
    assert inside > 0.8 > 0.2 > outside


def test_the_bound_it_reports_is_that_of_the_model_it_returns_in_the_units_of_the_data(found):
    said = hx.elbo(found.kernel, found.features, found.likelihood, found.q, X, Y)
    assert found.bound == pytest.approx(float(said), abs=1e-6)


def test_the_chosen_restart_ends_highest_and_the_others_are_accounted_for(found):
    ends = [r.history[-1] for r in found.restarts]
    assert len(ends) == 5
    assert found.chosen == np.argmax(ends)
    assert found.bound == found.restarts[found.chosen].bound
    dropped = [r for r in found.restarts if "dropped early" in r.message]
    assert len(dropped) == 1
    assert not dropped[0].converged
    assert len(dropped[0].history) <= 100 < max(len(r.history) for r in found.restarts)


def test_rows_of_weight_0_leave_no_trace():
    weights = np.ones(60)
    weights[::5] = 0.0
    moved, flipped = X.copy(), Y.copy()
    moved[::5], flipped[::5] = 50.0, 1 - Y[::5]
    a, b = (fit_classifier(*data, weights=weights, **SMALL) for data in ((X, Y), (moved, flipped)))
    assert b.bound == pytest.approx(a.bound, abs=1e-6)
    np.testing.assert_allclose(b.kernel.centers, a.kernel.centers, atol=1e-6)


@pytest.mark.parametrize("inducing", ["frequencies", pytest.param("points", marks=pytest.mark.slow)])
def test_units_do_not_matter(inducing):
    scale, shift = np.array([100.0, 1e-3]), np.array([5.0, -2.0])
    a = fit_classifier(X, Y, inducing=inducing, **SMALL)
    b = fit_classifier(shift + scale * X, Y, inducing=inducing, **SMALL)
    np.testing.assert_allclose(probabilities(b, shift + scale * X), probabilities(a, X), atol=1e-3)
    assert b.bound == pytest.approx(a.bound, abs=1e-2)


def test_three_clusters_by_softmax():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 20)
    clusters = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])[y] + 0.5 * rng.normal(size=(60, 2))
    found = fit_classifier(clusters, y, likelihood=Softmax(3), **SMALL)
    mean, variance = found.latent(clusters)
    assert mean.shape == variance.shape == (60, 3)
    p = probabilities(found, clusters)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-8)
    assert np.mean(np.argmax(p, axis=1) == y) == 1.0
    assert np.mean(p[np.arange(60), y]) > 0.9


def test_a_prior_holds_the_kernel_where_learning_starts():
    tight, loose = (MixturePrior(log_width=d, frequency=d, log_variance=d, center=d) for d in (0.01, 10.0))
    free, held = (fit_classifier(X, Y, prior=prior, **SMALL) for prior in (loose, tight))
    widths = lambda found: np.ptp(np.log(np.asarray(found.kernel.windows) / np.std(X, axis=0)))
    assert widths(held) < 0.05 < widths(free)
    assert held.bound < free.bound


def test_the_prior_is_a_sum_of_normals():
    kernel, features = initial_classifier(X, P=2, Q=3, M=2, seed=0)
    doubled = hx.kernels.HarmonizableMixture(
        kernel.centers, 2 * np.asarray(kernel.windows), kernel.lengthscales, kernel.frequencies, kernel.weights
    )
    with jax.enable_x64(True):
        before, after = (float(DEFAULT_PRIOR(k, features, Bernoulli())) for k in (kernel, doubled))
    z = np.log(np.asarray(kernel.windows) / WINDOW)
    change = -0.5 * np.sum(((z + np.log(2)) ** 2 - z**2) / DEFAULT_PRIOR.log_width**2)
    assert after - before == pytest.approx(change)


@pytest.mark.parametrize("inducing", ["frequencies", "points"])
def test_it_starts_on_the_clusters_of_the_inputs(inducing):
    rng = np.random.default_rng(0)
    middles = np.array([[-5.0, 0.0], [5.0, 0.0], [0.0, 40.0]])
    inputs = np.concatenate([m + 0.1 * rng.normal(size=(30, 2)) for m in middles])
    kernel, features = initial_classifier(inputs, P=3, Q=2, M=3, seed=0, inducing=inducing)
    nearest = lambda points: np.min(np.linalg.norm(np.asarray(points)[None] - middles[:, None], axis=-1), axis=1)
    assert np.all(nearest(kernel.centers) < 0.2)
    if inducing == "points":
        assert np.all(nearest(features.locations) < 0.2)
    else:
        assert features.frequencies.shape == (3, 3, 2)
        assert len(np.unique(np.asarray(features.frequencies).reshape(-1, 2), axis=0)) == 9


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_components": 0}, "P must be a positive integer, got 0"),
        ({"n_restarts": 0}, "n_restarts must be a positive integer, got 0"),
        ({"inducing": "points", "n_inducing": 61}, "M = 61, but X has only 60 different rows"),
        ({"weights": np.zeros(60)}, "weights must not be negative, nor all 0"),
    ],
)
def test_bad_arguments_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        fit_classifier(X, Y, **SMALL | options)

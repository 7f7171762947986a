"""Matching promises: a true descent on the true loss, which no unit of x changes, to kernels that are covariances."""

import numpy as np
import pytest

from harmix import kernels
from harmix.experiments import matching

TARGET = kernels.GeneralizedSpectralMixture([lambda x: 1.0], [lambda x: 1.5 + x], [lambda x: 0.4])
X = np.linspace(0, 1, 14)


def stretched(scale):
    """The same process, over an x in another unit."""
    a, f, l = (lambda x: 1.0), (lambda x: (1.5 + x / scale) / scale), (lambda x: 0.4 * scale)
    return matching.problem(kernels.GeneralizedSpectralMixture([a], [f], [l]), scale * X)


@pytest.fixture(scope="module")
def to():
    return stretched(1.0)


@pytest.fixture(scope="module")
def rough():
    """Three components with two frequencies whose weights are complex, nowhere near an optimum."""
    rng = np.random.default_rng(0)
    rows = matching.spread(stretched(1.0), 3, 2, band=4.0).rows
    return matching.Mixture(rows + 0.2 * rng.standard_normal(rows.shape))


def test_the_normal_equations_are_those_of_dense_finite_differences(to, rough):
    weights, truth = np.asarray(to.weights), np.asarray(TARGET(X, X))

    def residuals(flat):
        K = matching.Mixture(flat.reshape(rough.rows.shape)).covariance(X, X)
        return (np.sqrt(np.outer(weights, weights)) * (K - truth)).ravel()

    flat, h = rough.rows.ravel(), 1e-6
    r = residuals(flat)
    J = np.stack([(residuals(flat + h * e) - residuals(flat - h * e)) / (2 * h) for e in np.eye(len(flat))], axis=1)
    loss, gradient, curvature = matching.normal_equations(rough.rows, to)
    assert loss == pytest.approx(r @ r, rel=1e-10)
    np.testing.assert_allclose(gradient, J.T @ r, atol=1e-8 * np.max(np.abs(J.T @ r)))
    np.testing.assert_allclose(curvature, J.T @ J, atol=1e-8 * np.max(np.abs(J.T @ J)))


def test_the_loss_never_rises_and_is_that_of_the_kernel(to, rough):
    found = matching.refine(to, rough, steps=40)
    assert found.history[0] == matching.normal_equations(rough.rows, to)[0]
    assert np.all(np.diff(found.history) <= 0)
    assert found.loss < found.history[0] / 100
    weights = np.asarray(to.weights)
    squares = (np.asarray(found.kernel()(X, X)) - np.asarray(TARGET(X, X))) ** 2
    assert found.loss == pytest.approx(weights @ squares @ weights, rel=1e-8)


def test_the_matched_kernel_is_a_covariance_at_points_it_has_not_seen(to, rough):
    k = matching.refine(to, rough, steps=20).kernel()
    x = np.random.default_rng(1).uniform(-2, 3, 60)
    eigenvalues = np.linalg.eigvalsh(np.asarray(k(x, x)))
    assert eigenvalues[0] > -1e-12 * eigenvalues[-1]


def test_the_covariance_of_a_mixture_is_that_of_its_kernel(rough):
    other = np.linspace(-1, 2, 5)
    np.testing.assert_allclose(rough.covariance(X, other), np.asarray(rough.kernel()(X, other)), atol=1e-12)


def test_the_unit_of_x_changes_nothing(to):
    small, large = (
        matching.refine(problem, matching.spread(problem, 2, 2, band=4.0 / scale), steps=15)
        for problem, scale in ((to, 1.0), (stretched(1000.0), 1000.0))
    )
    np.testing.assert_allclose(large.history, small.history, rtol=1e-5)


def test_components_stand_close_together_where_the_process_is_rough():
    x = np.linspace(0.1, 1.1, 31)[1:]
    rows = matching.spread(matching.problem(kernels.InvertedFractionalBrownian(0.5), x), 6, 1, band=2.0).rows
    gaps = np.diff(rows[:, 0])
    assert np.all(gaps > 0)
    assert np.all(np.diff(gaps) > 0)
    assert gaps[-1] > 3 * gaps[0]


def test_growing_keeps_what_was_there_and_adds_what_was_missing(to):
    one = matching.grow(to, 1, 1, band=4.0, seed=0)
    three = matching.grow(to, 3, 1, band=4.0, seed=1, start=one)
    np.testing.assert_array_equal(three.rows[:1], one.rows)
    loss = lambda mixture: matching.normal_equations(mixture.rows, to)[0]
    assert loss(three) < loss(one)


def test_one_frequency_more_is_nearly_the_same_kernel(to, rough):
    richer = matching.enrich(rough)
    assert richer.Q == 3
    before, after = (m.covariance(X, X) for m in (rough, richer))
    assert 0 < np.linalg.norm(after - before) < 0.05 * np.linalg.norm(before)


def test_of_several_starts_the_best_one_is_refined(to, rough):
    hopeless = matching.Mixture(rough.rows + np.array([50.0, *[0.0] * 8]))  # all centres far away
    found = matching.best(to, [hopeless, rough], steps=30)
    assert found.loss < 0.1 * matching.refine(to, hopeless, steps=30).loss

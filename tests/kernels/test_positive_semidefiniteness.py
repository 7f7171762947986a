"""`0 <= Sigma1 <= 4 Sigma2` is what makes the locally stationary Gaussian a covariance; nothing else is accepted."""

import numpy as np
import pytest
from kernels.draws import SCALES, covariances, points
from references.kernels import formula, gram, locally_stationary_gaussian

import harmix as hx


def from_spectral(sigma1, sigma2):
    """A mixture of two components in as many dimensions as the Sigmas ask for, one where they are numbers."""
    D = max((np.shape(V)[0] for V in (sigma1, sigma2) if np.ndim(V)), default=1)
    return hx.kernels.HarmonizableMixture.from_spectral(
        np.arange(2.0 * D).reshape(2, D), np.ones((1, D)), np.ones((1, 1, D)), np.ones((1, 1, 1)), sigma1, sigma2
    )


constructors = pytest.mark.parametrize("make", [hx.kernels.LocallyStationaryGaussian, from_spectral])


@constructors
@pytest.mark.parametrize(
    ("sigma1", "sigma2", "eigenvalue"),
    [
        (6.0, 1.0, "-2"),
        ([1.0, 6.0], [1.0, 1.25], "-1"),
        (5.0, [1.0, 2.0], "-1"),
        ([[2.0, 1.0], [1.0, 2.0]], [[0.5, 0.0], [0.0, 1.0]], "-0.414214"),
        ([[2.0, 1.0], [1.0, 2.0]], 0.5, "-1"),
        (4.5, [[1.0, 0.0], [0.0, 3.0]], "-0.5"),
    ],
)
def test_a_lag_that_is_too_long_is_refused_with_its_eigenvalue(make, sigma1, sigma2, eigenvalue):
    with pytest.raises(ValueError, match=f"4 sigma2 - sigma1 .* eigenvalue {eigenvalue} "):
        make(sigma1, sigma2)


@constructors
@pytest.mark.parametrize(
    ("sigma1", "sigma2", "eigenvalue"),
    [(-1.0, 1.0, "-1"), ([1.0, -0.5], 1.0, "-0.5"), ([[1.0, 2.0], [2.0, 1.0]], 3.0, "-1")],
)
def test_a_negative_sigma1_is_refused_with_its_eigenvalue(make, sigma1, sigma2, eigenvalue):
    with pytest.raises(ValueError, match=f"sigma1 must be positive semidefinite .* eigenvalue {eigenvalue} "):
        make(sigma1, sigma2)


@constructors
def test_a_matrix_that_is_not_symmetric_is_refused(make):
    with pytest.raises(ValueError, match="sigma1 must be symmetric"):
        make([[1.0, 0.5], [0.0, 1.0]], 2.0)


BOUNDARY = {
    "no window": (0.0, 0.3),
    "no lag": (1.2, 0.3),
    "no window, diagonal": ([0.0, 0.0], [0.3, 0.2]),
    "no lag, diagonal": ([1.2, 0.8], [0.3, 0.2]),
    "no window in one dimension": ([0.0, 0.1], [0.3, 0.2]),
    "no lag in one dimension": ([1.2, 0.1], [0.3, 0.2]),
    "no window, full": (np.zeros((2, 2)), [[0.3, 0.1], [0.1, 0.2]]),
    "no lag, full": ([[1.2, 0.4], [0.4, 0.8]], [[0.3, 0.1], [0.1, 0.2]]),
    "no window in one direction": ([[0.4, 0.2], [0.2, 0.1]], [[0.3, 0.1], [0.1, 0.2]]),
    "no lag in one direction": ([[1.2, 0.4], [0.4, 0.8]], [[0.4, 0.15], [0.15, 0.225]]),
}


@pytest.mark.parametrize(("sigma1", "sigma2"), BOUNDARY.values(), ids=list(BOUNDARY))
def test_the_boundary_is_accepted_and_positive_semidefinite(sigma1, sigma2):
    rng = np.random.default_rng(0)
    D = max(np.ndim(sigma1), 1) if np.ndim(sigma1) != 1 else 2
    X = rng.uniform(-2, 2, (200, D))
    for make in (hx.kernels.LocallyStationaryGaussian, from_spectral):
        K = make(sigma1, sigma2)(X)
        eigenvalues = np.linalg.eigvalsh(K)
        assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]
    X = X[:10]
    expected = gram(locally_stationary_gaussian(np.asarray(sigma1), np.asarray(sigma2)), X, X)
    np.testing.assert_allclose(hx.kernels.LocallyStationaryGaussian(sigma1, sigma2)(X), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("sigma1", "sigma2"), BOUNDARY.values(), ids=list(BOUNDARY))
def test_a_mixture_on_the_boundary_keeps_its_values(sigma1, sigma2):
    k = from_spectral(sigma1, sigma2)
    D = k.input_dim
    X = np.random.default_rng(0).uniform(-2, 2, (10, D))
    lsg = locally_stationary_gaussian(np.asarray(sigma1), np.asarray(sigma2))
    phase = np.sum(X, axis=1)
    expected = sum(gram(lsg, X - c, X - c) for c in np.asarray(k.centers)) * np.cos(2 * np.pi * (phase[:, None] - phase))
    # A window or lag without end is one that is 1e7 times the other; with full matrices, 1e4 times.
    np.testing.assert_allclose(k(X), expected, rtol=0, atol=2e-6 if np.ndim(sigma1) == 2 else 1e-11)


def test_rounding_at_the_boundary_is_not_a_mistake():
    rng = np.random.default_rng(0)
    for _ in range(20):
        sigma2 = covariances(rng, 2)
        noise = 1e-15 * rng.normal(size=(2, 2)) * sigma2
        k = hx.kernels.LocallyStationaryGaussian(4 * sigma2 + noise + noise.T, sigma2)
        np.testing.assert_allclose(k.lag, 0.0, atol=1e-13 * np.max(sigma2))
        k = hx.kernels.LocallyStationaryGaussian(noise + noise.T, sigma2)
        np.testing.assert_allclose(k.sigma1, 0.0, atol=1e-13 * np.max(sigma2))


@constructors
def test_dimensions_may_be_measured_in_very_different_units(make):
    # A millionth of the first dimension's scale is not rounding in the second.
    units = np.array([1.0, 1e-6])
    sigma1, sigma2 = np.diag(units**2), np.array([[0.5, 0.1], [0.1, 0.5]]) * np.outer(units, units)
    k = make(sigma1, sigma2)
    reference = make(np.eye(2), [[0.5, 0.1], [0.1, 0.5]])
    X = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    if make is hx.kernels.LocallyStationaryGaussian:
        np.testing.assert_allclose(k(X / units), reference(X), rtol=1e-12)
    else:
        np.testing.assert_allclose(np.asarray(k.windows) * np.outer(units, units), reference.windows, rtol=1e-10)
    with pytest.raises(ValueError, match="4 sigma2 - sigma1"):
        make(np.diag([1.0, 6e-12]), np.diag([0.5, 1e-12]))
    with pytest.raises(ValueError, match="4 sigma2 - sigma1"):
        make([1.0, 6e-12], [0.5, 1e-12])


def test_any_full_matrices_inside_are_accepted():
    rng = np.random.default_rng(0)
    for _ in range(50):
        sigma1, C = np.linalg.inv(covariances(rng, 2)), np.linalg.inv(covariances(rng, 2))
        k = hx.kernels.LocallyStationaryGaussian(sigma1, sigma1 / 4 + C)
        np.testing.assert_allclose(k.lag, C, rtol=0, atol=1e-12 * np.max(sigma1))


def test_outside_it_is_not_a_covariance():
    # MATH.md section 2: Sigma1 / Sigma2 = 6 in one dimension, 200 points.
    X = np.linspace(-1, 1, 200)[:, None]
    worst = 0.0
    for sigma2 in np.geomspace(1e-3, 1.0, 13):
        k = locally_stationary_gaussian(6 * sigma2, sigma2)
        eigenvalues = np.linalg.eigvalsh(k(X[:, None], X[None, :]))
        worst = min(worst, eigenvalues[0] / eigenvalues[-1])
    assert worst == pytest.approx(-0.10, abs=0.005)
    with pytest.raises(ValueError, match="positive semidefinite"):
        hx.kernels.LocallyStationaryGaussian(6.0, 1.0)


def test_the_gap_between_the_constructors_is_rounding():
    rng = np.random.default_rng(0)
    k = from_spectral([0.1, 0.2], [0.3, 0.2])
    X = points(rng, 5, 2) / SCALES[:2]
    np.testing.assert_allclose(k(X), gram(formula(k), X, X), rtol=0, atol=1e-12)

"""The picture of the data is that of the posterior process on a fine grid, its band is calibrated, and it is what an STFT sees."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inference.problems import KINDS, chirps, problem
from references.kernels import formula, gram
from scipy import signal, stats

import harmix as hx
from harmix.inference import power, timefrequency, windowed
from harmix.inference.power import Coefficients, spectrogram_of
from harmix.kernels import Matern, SparseSpectrum, SpectralMixture, SpectralMixtureProduct, SquaredExponential

WIDTH = 0.5
# A grid so fine and long that sums over it are integrals, to rounding; times lie on it.
STEP = 0.05
GRID = STEP * np.arange(-140, 141)
TIMES = np.array([-1.5, 0.0, 0.75])
FREQUENCIES = np.array([-0.6, 0.0, 0.4, 1.1])
LEVEL = 0.8

each_kind = pytest.mark.parametrize("kind", KINDS)


@functools.cache
def posterior(kind, features="Fourier"):
    """Every result on the common grid is computed once."""
    p = problem(kind, seed=3)
    features = {
        "Fourier": p.features,
        "points": hx.features.InducingPoints(np.linspace(-2, 2, 8)[:, None]),
        "exact": None,
    }[features]
    return hx.condition(p.kernel, features, p.noise, p.data)


def conditioned(kernel, features=None):
    p = problem("real", seed=3)
    return hx.condition(kernel, features, p.noise, p.data)


def waves(times=TIMES, frequencies=FREQUENCIES, grid=GRID, width=WIDTH):
    """`h(s - x) exp(-2 pi i w s) ds`, `(T, F, n)`."""
    taper = np.exp(-((grid - times[:, None]) ** 2) / (2 * width**2)) * (grid[1] - grid[0])
    return taper[:, None, :] * np.exp(-2j * np.pi * frequencies[:, None] * grid)


def on_the_grid(post, grid=GRID):
    """Mean, variance, pseudo-variance of G from the process at the points of the grid."""
    W = waves(grid=grid)
    mean, covariance = post.mean(grid), post.covariance(grid)
    variance = np.einsum("tfi,ij,tfj->tf", W, covariance, np.conj(W), optimize=True)
    pseudo = 0 * mean[0] if np.iscomplexobj(mean) else np.einsum("tfi,ij,tfj->tf", W, covariance, W, optimize=True)
    return W @ mean, variance.real, pseudo


def wigner_on_the_grid(post):
    second = post.covariance(GRID) + np.outer(post.mean(GRID), np.conj(post.mean(GRID)))
    return wigner_of(second)


def wigner_of(second):
    result = []
    for x in np.round(TIMES / STEP).astype(int) + len(GRID) // 2:
        j = np.arange(-min(x, len(GRID) - 1 - x), min(x, len(GRID) - 1 - x) + 1)
        result.append(second[..., x + j, x - j] @ np.exp(-2j * np.pi * np.outer(2 * STEP * j, FREQUENCIES)) * 2 * STEP)
    return np.real(np.stack(result, axis=-2))


def assert_same_moments(actual, expected, tolerance):
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b * np.ones_like(a), rtol=0, atol=tolerance)


# --- the closed forms -------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("features", ["Fourier", "points", "exact"])
def test_coefficients_are_those_of_the_process_on_a_fine_grid(kind, features):
    post = posterior(kind, features)
    G = timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH)
    expected = on_the_grid(post)
    assert_same_moments(G, expected, 1e-10)
    assert G.mean.dtype == np.complex128
    assert G.variance.dtype == np.float64
    # A real process is not circular, and the test would see it if the pseudo-variance were left out.
    assert (np.max(np.abs(G.pseudo)) > 0.05 * np.max(G.variance)) == (kind != "complex")


@pytest.mark.parametrize("real", [True, False])
def test_chirps_are_in_closed_form_too(real):
    p = chirps(real)
    for features in (p.features, hx.features.InducingPoints(np.linspace(-2, 2, 8)[:, None])):
        post = hx.condition(p.kernel, features, p.noise, p.data)
        assert_same_moments(timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH), on_the_grid(post), 1e-10)
        np.testing.assert_allclose(post.wigner(TIMES, FREQUENCIES), wigner_on_the_grid(post), rtol=0, atol=1e-9)


STATIONARY = [
    SquaredExponential(1.2, 0.5),
    SpectralMixtureProduct([1.0, 0.5], [[1.0], [0.3]], [[0.3], [0.2]]),
    SparseSpectrum([1.0, 0.5], [[1.0], [0.3]]),
]


@pytest.mark.parametrize("kernel", STATIONARY, ids=lambda k: type(k).__name__)
def test_stationary_kernels_are_in_closed_form_too(kernel):
    post = conditioned(kernel)
    assert_same_moments(timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH), on_the_grid(post), 1e-10)


def test_sums_scalings_and_windowed_features_are_in_closed_form_too():
    full = SpectralMixture([0.7], [[0.8]], np.full((1, 1, 1), 0.09))
    mixed = 2.0 * (problem("Hermitian", seed=3).kernel + full) + hx.kernels.LocallyStationaryGaussian(0.05, 0.2)
    windowed_features = hx.features.WindowedFourier([[0.0], [0.5], [1.0]], [0.2], [1.0])
    for post in (conditioned(mixed), conditioned(2.0 * full, windowed_features)):
        assert_same_moments(timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH), on_the_grid(post), 1e-10)


def test_long_pictures_are_computed_a_few_times_at_a_time(monkeypatch):
    monkeypatch.setattr(timefrequency, "_ENTRIES", 2 * 20 * 4)  # two times of M = 20 features and F = 4
    post = posterior("real")
    times = np.linspace(-1.5, 0.75, 7)  # of a length that no other test has compiled
    G = timefrequency.coefficients(post, times, FREQUENCIES, WIDTH)
    assert_same_moments([part[[0, -1]] for part in G], [part[[0, 2]] for part in on_the_grid(post)], 1e-10)


# --- the quadrature ---------------------------------------------------------------------------------------------------


def test_the_closed_form_equals_the_quadrature():
    post = posterior("Hermitian")
    closed, numeric = (
        timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH, method=method) for method in ("auto", "quadrature")
    )
    assert_same_moments(closed, numeric, 1e-10)


def test_kernels_with_a_kink_are_integrated_up_to_it():
    # The sum over a grid is off by the square of its step, and two of them show the limit, where kinks lie on the grid.
    p = problem("real", seed=3)
    post = hx.condition(Matern(0.5, 1.0, 0.5), None, p.noise, (0.0125 * np.round(p.X / 0.0125), p.y))
    G = timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH)
    coarse, fine = (on_the_grid(post, grid) for grid in (np.linspace(-4.5, 4.5, n) for n in (721, 1441)))
    assert_same_moments(G, [b + (b - a) / 3 for a, b in zip(coarse, fine, strict=True)], 2e-5)
    assert np.max(np.abs(G.variance - fine[1])) > 1e-7  # so they do differ


def test_terms_that_the_features_do_not_see_count_in_the_prior():
    p = problem("real", seed=3)
    rough = p.kernel + 0.5 * Matern(1.5, 1.0, 0.5)
    post = conditioned(rough, p.features)
    G = timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH)
    assert_same_moments(G, on_the_grid(post), 2e-6)


def test_a_quadrature_that_does_not_settle_warns():
    with pytest.warns(RuntimeWarning, match="has not converged"):
        windowed._refine(lambda step: step, lambda new, old: 1e-3, 1.0)


# --- quantiles of the power -------------------------------------------------------------------------------------------


def band_of(mean, variance, pseudo, level, weights=(1.0,)):
    """Of coefficients (K, n)."""
    parts = (np.asarray(v, dtype)[:, None, :] for v, dtype in ((mean, complex), (variance, float), (pseudo, complex)))
    result = spectrogram_of(Coefficients(*parts), weights, [0.0], np.arange(len(mean[0])), level=level)
    return result.mean[0], result.lower[0], result.upper[0]


def test_quantiles_are_exact_where_the_distribution_is_known():
    amplitude = np.array([0.0, 0.1, 1.0, 30.0, 1e4, 2.0])
    ones = np.ones_like(amplitude)
    mean, low, high = band_of([amplitude], [ones], [0 * ones], 0.9)  # circular: non-central chi-square
    for q, actual in ((0.05, low), (0.95, high)):
        np.testing.assert_allclose(actual, stats.ncx2.ppf(q, 2, np.maximum(2 * amplitude**2, 1e-300)) / 2, rtol=1e-6)
    np.testing.assert_allclose(mean, amplitude**2 + 1)
    turn = np.exp(0.7j)  # G = turn * (a real normal): the power is its square
    _, low, high = band_of([turn * amplitude], [ones], [turn**2 * ones], 0.9)
    for q, actual in ((0.05, low), (0.95, high)):
        np.testing.assert_allclose(actual, stats.ncx2.ppf(q, 1, np.maximum(amplitude**2, 1e-300)), rtol=1e-5)
    _, low, high = band_of([amplitude], [0 * ones], [0 * ones], 0.9)  # no uncertainty at all
    np.testing.assert_allclose([low, high], [amplitude**2] * 2, rtol=1e-6, atol=1e-30)


def test_quantiles_of_mixtures_match_sampling():
    rng = np.random.default_rng(0)
    K, n, draws_ = 3, 40, 200_000
    s = 10 ** rng.uniform(-2, 0.5, (K, n))
    t = s * rng.choice([1.0, 0.5, 0.01, 0.0], (K, n))
    mean = 10 ** rng.uniform(-2, 0.5, (K, n)) * np.exp(2j * np.pi * rng.choice([0.0, 0.25, 0.1], (K, n)))
    turn = np.exp(2j * np.pi * rng.choice([0.0, 0.3], (K, n)))
    weights = np.array([0.5, 0.3, 0.2])
    _, low, high = band_of(mean, s**2 + t**2, turn**2 * (s**2 - t**2), LEVEL, 7 * weights)
    which = rng.choice(K, draws_, p=weights)
    a, b = rng.normal(size=(2, draws_))
    for i in range(n):
        G = mean[which, i] + turn[which, i] * (s[which, i] * a + 1j * t[which, i] * b)
        for q, edge in (((1 - LEVEL) / 2, low[i]), ((1 + LEVEL) / 2, high[i])):
            assert np.mean(np.abs(G) ** 2 <= edge) == pytest.approx(q, abs=5 * np.sqrt(q * (1 - q) / draws_))


# --- against sampling the posterior -----------------------------------------------------------------------------------


@each_kind
def test_mean_power_band_and_wigner_distribution_match_samples_of_the_posterior(kind):
    post, n = posterior(kind), 4000
    f = post.sample(1, GRID, n)
    observed = np.abs(np.einsum("tfi,ni->ntf", waves(), f)) ** 2
    picture = post.spectrogram(TIMES, FREQUENCIES, WIDTH, level=LEVEL)
    assert np.all(np.abs(observed.mean(0) - picture.mean) < 5 * observed.std(0) / np.sqrt(n))
    for edge, q in ((picture.lower, 0.1), (picture.upper, 0.9)):
        assert np.all(np.abs(np.mean(observed <= edge, axis=0) - q) < 5 * np.sqrt(q * (1 - q) / n))
    each = np.stack([wigner_of(np.outer(one, np.conj(one))) for one in f[:500]])
    error = each.std(0) / np.sqrt(len(each))
    assert np.all(np.abs(each.mean(0) - post.wigner(TIMES, FREQUENCIES)) < 5 * error)


# --- the expected Wigner distribution ---------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("features", ["Fourier", "exact"])
def test_the_wigner_distribution_is_that_of_the_second_moments_on_a_fine_grid(kind, features):
    post = posterior(kind, features)
    W = post.wigner(TIMES, FREQUENCIES)
    np.testing.assert_allclose(W, wigner_on_the_grid(post), rtol=0, atol=1e-9 * np.max(np.abs(W)))


def test_under_a_stationary_prior_it_tends_to_the_density_away_from_the_data():
    kernel = STATIONARY[0]
    post = conditioned(kernel)
    np.testing.assert_allclose(post.wigner([60.0], FREQUENCIES)[0], hx.spectral.density(kernel, FREQUENCIES), rtol=1e-10)
    # What the data add falls off, and the integral over frequencies is the second moment.
    w = np.linspace(-12, 12, 961)
    total = post.wigner(TIMES, w).sum(axis=1) * (w[1] - w[0])
    np.testing.assert_allclose(total, post.variance(TIMES) + post.mean(TIMES) ** 2, rtol=1e-6)


# --- what a signal analyst sees ---------------------------------------------------------------------------------------


def test_a_dense_regular_record_without_noise_gives_the_short_time_fourier_transform():
    rate, width = 40.0, 0.4
    t = np.arange(400) / rate
    y = np.cos(2 * np.pi * (2.0 * t + 0.3 * t**2)) * np.exp(-((t - 5) ** 2) / 18)
    window = signal.windows.gaussian(2 * 80 + 1, width * rate)
    stft = signal.ShortTimeFFT(window, hop=16, fs=rate, mfft=320)
    inside = (stft.t(len(t)) > 2.5) & (stft.t(len(t)) < 7.5)
    expected = np.abs(stft.stft(y).T[inside] / rate) ** 2
    post = hx.condition(SquaredExponential(1.0, 0.1), None, 1e-8, (t, y))
    picture = post.spectrogram(stft.t(len(t))[inside], stft.f, width)
    assert picture.mean.shape == expected.shape
    assert np.max(expected) > 0.05
    np.testing.assert_allclose(picture.mean, expected, rtol=0, atol=1e-3 * np.max(expected))
    peaks = picture.frequencies[np.argmax(picture.mean, axis=1)]
    assert np.all(np.abs(peaks - (2.0 + 0.6 * picture.times)) < 0.15)  # the chirp


def test_the_band_widens_inside_a_gap():
    rng = np.random.default_rng(0)
    t = np.sort(np.concatenate([rng.uniform(0, 4, 40), rng.uniform(7, 11, 40)]))
    y = np.cos(2 * np.pi * t) + 0.1 * rng.normal(size=80)
    post = hx.condition(SpectralMixture([1.0], [[1.0]], [[0.3]]), None, 0.01, (t, y))
    picture = post.spectrogram([2.0, 5.5, 9.0], [0.8, 1.0, 1.2], WIDTH)
    extent = picture.upper - picture.lower
    assert np.all(extent[1] > 3 * extent[0])
    assert np.all(extent[1] > 3 * extent[2])
    assert np.all(picture.lower <= picture.upper)
    assert np.all(picture.lower >= 0)


def test_the_band_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(1)
    p = problem("real", seed=3)
    grid = GRID[::2]
    grams = gram(formula(p.kernel), *[np.concatenate([p.X[:, 0], grid])[:, None]] * 2)
    values, vectors = np.linalg.eigh(grams)
    root = vectors * np.sqrt(np.maximum(values, 0))
    covered = []
    for _ in range(40):
        f = root @ rng.normal(size=len(root))
        y = f[: len(p.X)] + np.sqrt(p.noise) * rng.normal(size=len(p.X))
        truth = np.abs(waves(grid=grid) @ f[len(p.X) :]) ** 2
        picture = hx.condition(p.kernel, None, p.noise, (p.X, y)).spectrogram(TIMES, FREQUENCIES, WIDTH)
        covered.append((picture.lower <= truth) & (truth <= picture.upper))
    assert 0.85 <= np.mean(covered) <= 0.95


# --- what is refused --------------------------------------------------------------------------------------------------


def test_refusals_name_the_argument_and_the_remedy():
    post = posterior("real")
    plane = hx.condition(SquaredExponential(1.0, 1.0), None, 0.1, (np.eye(2), [0.0, 1.0]))
    with pytest.raises(ValueError, match="one input dimension, but InducingPoints has 2"):
        plane.spectrogram(TIMES, FREQUENCIES, WIDTH)
    with pytest.raises(ValueError, match="level must be a probability strictly between 0 and 1, got 90"):
        post.spectrogram(TIMES, FREQUENCIES, WIDTH, level=90.0)
    with pytest.raises(ValueError, match=r"width must be positive, got -1\.0"):
        post.spectrogram(TIMES, FREQUENCIES, -1.0)
    with pytest.raises(ValueError, match="times has 2 input dimension"):
        post.wigner(np.eye(2), FREQUENCIES)
    with pytest.raises(ValueError, match='method must be "auto" or "quadrature"'):
        timefrequency.coefficients(post, TIMES, FREQUENCIES, WIDTH, method="fast")
    for kernel in (STATIONARY[2], Matern(0.5, 1.0, 0.5)):
        with pytest.raises(hx.kernels.base.NoClosedFormError, match=r"use Posterior\.spectrogram"):
            conditioned(kernel).wigner(TIMES, FREQUENCIES)
    moments = Coefficients(*(np.zeros((1, 1, 1), dtype) for dtype in (complex, float, complex)))
    with pytest.raises(ValueError, match=r"coefficients must have shape \(K, T, F\) = \(2, 1, 1\)"):
        spectrogram_of(moments, [0.5, 0.5], [0.0], [0.0])
    with pytest.raises(ValueError, match="weights must be"):
        spectrogram_of(moments, [-1.0], [0.0], [0.0])


def test_the_distribution_function_keeps_its_accuracy_where_one_deviation_vanishes():
    s = np.ones(4)
    a, b, t = np.array([0.0, 1.0, 5.0, 0.0]), np.array([0.0, 0.0, 2.0, 1e3]), np.array([0.0, 1e-12, 0.0, 1e-9])
    R = np.array([1.0, 1.5, 5.5, np.sqrt(1e6 + 1.0)])
    inside = np.sqrt(np.maximum(R**2 - b**2, 0.0))  # Y is where its mean is
    expected = stats.norm.cdf(inside - a) - stats.norm.cdf(-inside - a)
    with jax.enable_x64(True):
        found = power.below(*map(jnp.asarray, (R, a, b, s, t)))
    np.testing.assert_allclose(found, expected, atol=1e-4)

"""What ties the spectra of a kernel to the kernel, to each other and to other kernels."""

import numpy as np
import pytest
from kernels.draws import SCALES, centers, covariances, full_sigmas, hermitian, lengths, narrow, points, sigmas
from references import quadrature
from references.kernels import formula, gram, harmonizable_mixture
from spectral.cases import DENSITY, DRAW, GENERALIZED_DENSITY, WIGNER, error, frequencies, is_kinked

import harmix as hx

TOLERANCE = {1: 1e-8, 2: 1e-6}
MATERN = [name for name in DENSITY if name.startswith("Matern")]
GAUSSIAN_DENSITY = [n for n in DENSITY if n not in (*MATERN, "StationaryGeneralizedSpectral real")]
# In two dimensions one variant of each kind, where the other differs only in parameters that one dimension
# covers.
BOTH = [
    *((name, 1) for name in GENERALIZED_DENSITY),
    *((name, 2) for name in GENERALIZED_DENSITY if "full" in name or "Product complex" in name),
]


def spectral_box(D, n=None):
    """Where the spectra have vanished on all sides; in two dimensions the `narrow` ones."""
    if D == 1:
        return quadrature.box(-10, 10, n or 1200)
    return quadrature.box(-3.2 / SCALES[:2], 3.2 / SCALES[:2], n or 64)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", GAUSSIAN_DENSITY)
def test_the_density_transforms_back_to_the_kernel(name, D):
    rng = np.random.default_rng(D)
    with narrow():
        k = DRAW[name](rng, D)
    t = rng.uniform(-1, 1, (4, D)) * SCALES[:D]
    back = quadrature.kernel_from_density(lambda w: hx.spectral.density(k, w), t, spectral_box(D))
    assert error(back, k(t, np.zeros((1, D)))[:, 0]) <= TOLERANCE[D]


@pytest.mark.parametrize(("name", "D"), BOTH)
def test_the_generalized_density_transforms_back_to_the_kernel(name, D):
    rng = np.random.default_rng(D)
    with narrow():
        k = DRAW[name](rng, D)
    x, y = (rng.uniform(-1, 1, (3, D)) * SCALES[:D] for _ in range(2))
    S = lambda w, xi: hx.spectral.generalized_density(k, w, xi)
    back = quadrature.kernel_from_generalized_density(S, x, y, spectral_box(D, n=600 if D == 1 else 42))
    assert error(back, k(x, y)) <= TOLERANCE[D]


@pytest.mark.parametrize("name", MATERN)
def test_a_heavy_tailed_density_integrates_to_the_variance(name):
    k = DRAW[name](np.random.default_rng(0), 1)
    # w = tan(angle): periodic and smooth, so that equal steps are exact.
    angles = np.pi * (np.arange(4000) + 0.5) / 4000
    w = np.tan(angles)
    total = np.sum(hx.spectral.density(k, w) * (1 + w**2)) * np.pi / 4000
    assert total == pytest.approx(float(k.variance), rel=1e-10)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", WIGNER)
def test_the_wigner_distribution_sums_over_frequencies_to_the_variance(name, D):
    rng = np.random.default_rng(D)
    with narrow():
        k = DRAW[name](rng, D)
    if is_kinked(k) or (name, D) == ("LocallyStationaryGaussian isotropic", 2):
        return  # tails too heavy, or scales too different, for a box
    x = rng.uniform(-1, 1, (3, D)) * SCALES[:D]
    if name == "GeneralizedSpectral non-stationary base":
        w, q = quadrature.box(-9 / SCALES[:D], 9 / SCALES[:D], 1200 if D == 1 else 140)
    else:
        w, q = spectral_box(D)
    assert error(hx.spectral.wigner(k, x, w) @ q, k.diag(x)) <= TOLERANCE[D]


@pytest.mark.parametrize(("name", "D"), BOTH)
def test_the_wigner_distribution_sums_over_places_to_the_diagonal_of_the_generalized_density(name, D):
    rng = np.random.default_rng(D)
    with narrow():
        k, w = DRAW[name](rng, D), frequencies(rng, 4, D)
    x, q = quadrature.box(-9 * SCALES[:D], 9 * SCALES[:D], 800 if D == 1 else 120)
    S = hx.spectral.generalized_density(k, w, w)
    assert error(q @ hx.spectral.wigner(k, x, w), np.diagonal(S)) <= TOLERANCE[D]


@pytest.mark.parametrize("name", GENERALIZED_DENSITY)
def test_the_generalized_density_is_hermitian_and_that_of_a_real_process_has_its_mirror_image(name):
    rng = np.random.default_rng(0)
    k, w, xi = DRAW[name](rng, 2), frequencies(rng, 3, 2), frequencies(rng, 3, 2)
    S = hx.spectral.generalized_density(k, w, xi)
    scale = {"rtol": 0, "atol": 1e-14 * np.max(np.abs(hx.spectral.generalized_density(k, w, w)))}
    np.testing.assert_allclose(hx.spectral.generalized_density(k, xi, w), np.conj(S).T, **scale)
    mirrored = hx.spectral.generalized_density(k, -w, -xi)
    assert np.allclose(mirrored, np.conj(S), **scale) == k.is_real


@pytest.mark.parametrize("name", WIGNER)
def test_the_wigner_distribution_of_a_real_process_is_even_in_frequency(name):
    rng = np.random.default_rng(0)
    k, w, x = DRAW[name](rng, 2), frequencies(rng, 4, 2), points(rng, 3, 2)
    W, mirrored = hx.spectral.wigner(k, x, w), hx.spectral.wigner(k, x, -w)
    assert np.allclose(W, mirrored, rtol=1e-12, atol=1e-14 * np.max(np.abs(W))) == k.is_real


# --- the harmonizable mixture in other words
# ------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["number", "diagonal", "full"])
@pytest.mark.parametrize("real", [True, False])
def test_from_spectral_is_the_scaled_form_of_the_paper(structure, real):
    rng = np.random.default_rng(0)
    P, Q, D = 2, 3, 2
    x, g, mu = centers(rng, P, D), rng.uniform(0.5, 2, (P, D)), frequencies(rng, P * Q, D).reshape(P, Q, D)
    B = hermitian(rng, P, Q)
    sigma1, sigma2 = {
        "number": lambda: (0.02, 0.03),
        "diagonal": lambda: sigmas(rng, D),
        "full": lambda: full_sigmas(rng, D),
    }[structure]()
    k = hx.kernels.HarmonizableMixture.from_spectral(x, g, mu, B, sigma1, sigma2, real=real)
    paper = harmonizable_mixture(x, g, mu, B, [sigma1] * P, [sigma2] * P, real)
    X = rng.uniform(-1, 1, (5, D)) * SCALES[:D]
    assert error(k(X), gram(paper, X, X)) <= 1e-11


@pytest.mark.parametrize("full", [True, False])
def test_natural_and_spectral_parameters_make_the_same_kernel(full):
    rng = np.random.default_rng(0)
    x, mu, B = np.zeros((1, 2)), frequencies(rng, 2, 2)[None], hermitian(rng, 1, 2)
    if full:
        W, l = covariances(rng, 1, 2), covariances(rng, 1, 2)
        sigma1, C = (np.linalg.inv(4 * np.pi**2 * V[0]) for V in (W, l))
    else:
        W, l = lengths(rng, 1, 2), lengths(rng, 1, 2)
        sigma1, C = (1 / (4 * np.pi**2 * V[0] ** 2) for V in (W, l))
    natural = hx.kernels.HarmonizableMixture(x, W, l, mu, B)
    spectral = hx.kernels.HarmonizableMixture.from_spectral(x, np.ones((1, 2)), mu, B, sigma1, sigma1 / 4 + C)
    np.testing.assert_allclose(spectral.windows, W, rtol=1e-10)
    np.testing.assert_allclose(spectral.lengthscales, l, rtol=1e-10)
    X = points(rng, 6, 2)
    assert error(natural(X), spectral(X)) <= 1e-12


def test_a_component_is_a_locally_stationary_gaussian():
    sigma1, sigma2 = full_sigmas(np.random.default_rng(0), 2)
    lsg = hx.kernels.LocallyStationaryGaussian(sigma1, sigma2)
    ones = np.ones((1, 1, 1))
    mixture = hx.kernels.HarmonizableMixture.from_spectral(
        np.zeros((1, 2)), np.ones((1, 2)), 0 * np.ones((1, 1, 2)), ones, sigma1, sigma2
    )
    X = points(np.random.default_rng(1), 5, 2)
    assert error(lsg(X), mixture(X)) <= 1e-12
    np.testing.assert_allclose(lsg.sigma2, sigma2, rtol=1e-14)


def test_the_real_kernel_is_a_complex_one_with_mirrored_frequencies():
    rng = np.random.default_rng(0)
    x, W, l = points(rng, 2, 2), lengths(rng, 2, 2), lengths(rng, 2, 2)
    mu, B = frequencies(rng, 6, 2).reshape(2, 3, 2), hermitian(rng, 2, 3)
    real = hx.kernels.HarmonizableMixture(x, W, l, mu, B)
    zeros = np.zeros_like(B)
    both = np.block([[B, zeros], [zeros, np.conj(B)]]) / 2
    mirrored = hx.kernels.HarmonizableMixture(x, W, l, np.concatenate([mu, -mu], axis=1), both, real=False)
    X, w, xi = points(rng, 4, 2), frequencies(rng, 3, 2), frequencies(rng, 3, 2)
    assert error(mirrored(X), real(X)) <= 1e-13
    S = [hx.spectral.generalized_density(k, w, xi) for k in (mirrored, real)]
    W = [hx.spectral.wigner(k, X, w) for k in (mirrored, real)]
    assert error(*S) <= 1e-12
    assert error(*W) <= 1e-12


@pytest.mark.parametrize("width", [1e3, 1e5])
def test_without_windows_and_coupling_it_is_a_stationary_spectral_mixture(width):
    rng = np.random.default_rng(0)
    a, mu, l = rng.uniform(0.5, 2, 3), frequencies(rng, 3, 2), lengths(rng, 1, 2)
    wide = hx.kernels.HarmonizableMixture([[0, 0]], width * SCALES[None, :2], l, mu[None], np.diag(a)[None])
    limit = hx.kernels.SpectralMixture(a, mu, np.repeat(1 / (2 * np.pi * l), 3, axis=0))
    X, w = rng.uniform(-1, 1, (5, 2)) * SCALES[:2], frequencies(rng, 4, 2)
    # Both differ by O(W^-2).
    assert error(wide(X), limit(X)) <= 2 / width**2
    assert error(hx.spectral.wigner(wide, X, w), hx.spectral.wigner(limit, X, w)) <= 2 / width**2


def test_the_atoms_of_a_sparse_spectrum_make_the_kernel():
    k = DRAW["SparseSpectrum"](np.random.default_rng(0), 2)
    frequencies, masses = k.atoms()
    X = points(np.random.default_rng(1), 5, 2)
    waves = np.exp(2j * np.pi * X @ frequencies.T)
    assert error((waves * masses) @ np.conj(waves).T, k(X)) <= 1e-12
    assert formula(k)(X[0], X[0]) == pytest.approx(np.sum(masses), rel=1e-14)

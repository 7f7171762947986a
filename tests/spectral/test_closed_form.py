"""Closed-form spectra are the integrals that define them, at random parameters in one and two dimensions."""

import contextlib

import numpy as np
import pytest
from kernels.draws import (
    RANGES,
    SCALES,
    VARIANT_IDS,
    VARIANTS,
    lsg_full,
    mixture,
    narrow,
    spectral_mixture,
    squared_exponential,
)
from references import quadrature
from references.kernels import formula

from harmix import kernels, spectral

TOLERANCE = {1: 1e-8, 2: 1e-6}
DRAWS = {1: 4, 2: 1}

DENSITY = [
    "SquaredExponential",
    "Matern half",
    "Matern three halves",
    "Matern five halves",
    "SpectralMixture diagonal",
    "SpectralMixture full",
    "SpectralMixtureProduct shared weights",
    "SpectralMixtureProduct weights per dimension",
    "StationaryGeneralizedSpectral real",
    "StationaryGeneralizedSpectral complex",
    "Sum of stationary kernels",
]
GENERALIZED_DENSITY = [
    "GeneralizedSpectral non-stationary base",
    "LocallyStationaryGaussian isotropic",
    "LocallyStationaryGaussian diagonal",
    "LocallyStationaryGaussian full",
    "HarmonizableMixture diagonal",
    "HarmonizableMixture full",
    "HarmonizableMixture shared",
    "HarmonizableMixture complex",
    "HarmonizableMixture complex full from spectral",
    "HarmonizableMixtureProduct real",
    "HarmonizableMixtureProduct complex, weights per dimension",
    "Sum of harmonizable kernels",
    "Scaled",
]
WIGNER = [*DENSITY, *GENERALIZED_DENSITY, "GeneralizedSpectral stationary base", "LocallyStationary gaussian pair", "Sum"]

DRAW = dict(zip(VARIANT_IDS, [draw for _, _, draw in VARIANTS], strict=True)) | {
    "Sum of stationary kernels": lambda rng, D: 2.0 * squared_exponential(rng, D) + spectral_mixture(rng, D),
    "Sum of harmonizable kernels": lambda rng, D: lsg_full(rng, D) + 0.5 * mixture(full=True)(rng, D),
}


def has(spectrum, *args):
    try:
        spectrum(*args)
    except kernels.NoClosedFormError:
        return False
    return True


@pytest.mark.parametrize("name", DRAW)
def test_the_lists_of_closed_forms_are_complete(name):
    k = DRAW[name](np.random.default_rng(0), 1)
    assert has(spectral.density, k, [0.5]) == (name in DENSITY)
    assert has(spectral.generalized_density, k, [0.5], [0.5]) == (name in GENERALIZED_DENSITY)
    assert has(spectral.wigner, k, [0.5], [0.5]) == (name in WIGNER)


def draws(name, rng, D):
    for _ in range(DRAWS[D]):
        yield DRAW[name](rng, D)


def frequencies(rng, m, D):
    return rng.uniform(-1.2, 1.2, (m, D)) * RANGES["frequency"] / SCALES[:D]


def lags(D, kinked):
    """Lags out to where the kernels have vanished: an exponential, which has a kink at 0, needs longer than a Gaussian."""
    if D == 1:
        return quadrature.ball(SCALES[:1], 40.0, 2000)
    return quadrature.ball(SCALES[:2], 24.0, 600, 1000) if kinked else quadrature.ball(SCALES[:2], 12.0, 300, 400)


def error(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


def is_kinked(k):
    return "Matern" in repr(k)


def square(D):
    """Both variables out to where the kernels have vanished; in two dimensions the `narrow` ones."""
    return quadrature.box(-18, 18, 500) if D == 1 else quadrature.box(-6 * SCALES[:2], 6 * SCALES[:2], 46)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", DENSITY)
def test_the_density_is_the_fourier_transform_of_the_kernel(name, D):
    rng = np.random.default_rng(D)
    for k in draws(name, rng, D):
        w = frequencies(rng, 5, D)
        expected = quadrature.density(formula(k), w, lags(D, is_kinked(k)))
        assert error(spectral.density(k, w), expected) <= TOLERANCE[D]


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", WIGNER)
def test_the_wigner_distribution_is_the_fourier_transform_over_the_lag(name, D):
    rng = np.random.default_rng(D)
    for k in draws(name, rng, D):
        w, x = frequencies(rng, 5, D), rng.uniform(-1, 1, (2, D)) * SCALES[:D]
        expected = quadrature.wigner(formula(k), x, w, lags(D, is_kinked(k)))
        W = spectral.wigner(k, x, w)
        assert W.dtype == np.float64
        assert error(W, expected) <= TOLERANCE[D]


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", GENERALIZED_DENSITY)
def test_the_generalized_density_is_the_double_fourier_transform(name, D):
    if name == "LocallyStationaryGaussian isotropic" and D == 2:
        return  # one length on unevenly scaled axes: no grid resolves it
    rng = np.random.default_rng(D)
    with narrow() if D == 2 else contextlib.nullcontext():
        for k in draws(name, rng, D):
            w = frequencies(rng, 4, D)
            xi = np.concatenate([w[:2], frequencies(rng, 2, D)])
            expected = quadrature.generalized_density(formula(k), w, xi, square(D))
            S = spectral.generalized_density(k, w, xi)
            assert S.dtype == np.complex128
            assert error(S, expected) <= TOLERANCE[D]

"""Closed-form spectra are the integrals that define them, at random parameters in one and two dimensions."""

import contextlib
import itertools

import numpy as np
import pytest
from kernels.draws import SCALES, narrow
from references import quadrature
from references.kernels import formula
from spectral.cases import DENSITY, DRAW, GENERALIZED_DENSITY, WIGNER, error, frequencies, is_kinked

import harmix as hx

TOLERANCE = {1: 1e-8, 2: 1e-6}
DRAWS = {1: 4, 2: 1}


@pytest.mark.parametrize("name", DRAW)
def test_a_spectrum_without_closed_form_is_refused_with_advice(name):
    # So the lists in `cases` are complete: what is on them, the tests below compute.
    k = DRAW[name](np.random.default_rng(0), 1)
    without = [
        (DENSITY, lambda: hx.spectral.density(k, [0.5])),
        (GENERALIZED_DENSITY, lambda: hx.spectral.generalized_density(k, [0.5], [0.5])),
        (WIGNER, lambda: hx.spectral.wigner(k, [0.5], [0.5])),
    ]
    for names, spectrum in without:
        if name not in names:
            with pytest.raises(hx.kernels.NoClosedFormError, match=r"harmix\.spectral\.numeric|harmix\.spectral\.density"):
                spectrum()


def draws(name, rng, D):
    for _ in range(DRAWS[D]):
        yield DRAW[name](rng, D)


def lags(D, kinked):
    """Lags out to where the kernels have vanished: an exponential, which has a kink at 0, needs longer than a Gaussian."""
    if D == 1:
        return quadrature.ball(SCALES[:1], 40.0, 2000)
    return quadrature.ball(SCALES[:2], 24.0, 600, 1000) if kinked else quadrature.ball(SCALES[:2], 12.0, 300, 400)


def is_short(name):
    """Whether scalings bring some lengths below those of the other `narrow` kernels, or chirps their cycles."""
    return name.startswith("GeneralizedSpectral") or name.endswith("from spectral") or "chirping" in name


def square(name, D):
    """Both variables out to where the kernels have vanished; in two dimensions the `narrow` ones."""
    if D == 1:
        return quadrature.box(-18, 18, 500)
    return quadrature.box(-6 * SCALES[:2], 6 * SCALES[:2], 46 if is_short(name) else 38)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", DENSITY)
def test_the_density_is_the_fourier_transform_of_the_kernel(name, D):
    rng = np.random.default_rng(D)
    for k in draws(name, rng, D):
        w = frequencies(rng, 5, D)
        expected = quadrature.density(formula(k), w, lags(D, is_kinked(k)))
        assert error(hx.spectral.density(k, w), expected) <= TOLERANCE[D]


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("name", WIGNER)
def test_the_wigner_distribution_is_the_fourier_transform_over_the_lag(name, D):
    rng = np.random.default_rng(D)
    for k in draws(name, rng, D):
        w, x = frequencies(rng, 5, D), rng.uniform(-1, 1, (2, D)) * SCALES[:D]
        expected = quadrature.wigner(formula(k), x, w, lags(D, is_kinked(k)))
        W = hx.spectral.wigner(k, x, w)
        assert W.dtype == np.float64
        assert error(W, expected) <= TOLERANCE[D]


# One length on unevenly scaled axes: no grid resolves it.
UNRESOLVED = [("LocallyStationaryGaussian isotropic", 2)]


@pytest.mark.parametrize(
    ("name", "D"), [case for case in itertools.product(GENERALIZED_DENSITY, [1, 2]) if case not in UNRESOLVED]
)
def test_the_generalized_density_is_the_double_fourier_transform(name, D):
    rng = np.random.default_rng(D)
    with narrow() if D == 2 else contextlib.nullcontext():
        for k in draws(name, rng, D):
            w = frequencies(rng, 4, D)
            xi = np.concatenate([w[:2], frequencies(rng, 2, D)])
            expected = quadrature.generalized_density(formula(k), w, xi, square(name, D))
            S = hx.spectral.generalized_density(k, w, xi)
            assert S.dtype == np.complex128
            assert error(S, expected) <= TOLERANCE[D]

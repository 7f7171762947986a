"""Random kernels with features on them: for each class of `harmix.features`, functions `(rng, D) -> (kernel, features)`.

`narrow < 1` keeps windows and bandwidths small, for quadrature in two dimensions.
"""

import functools

import numpy as np

import harmix as hx

# Unevenly scaled dimensions, so that a mixed-up axis is seen.
SCALES = np.array([1.0, 7.0])
M = 3  # features of a component


# --- parameters -------------------------------------------------------------------------------------------------------


def points(rng, n, D, reach=3.0):
    return rng.uniform(-reach, reach, (n, D)) * SCALES[:D]


def lengths(rng, *shape, low=0.4, high=1.5):
    """Positive lengths on the scale of each dimension, the last axis."""
    return np.exp(rng.uniform(np.log(low), np.log(high), shape)) * SCALES[: shape[-1]]


def covariances(rng, *batch_and_dim, **kwargs):
    """Squared lengths as full matrices `(..., D, D)`."""
    D = batch_and_dim[-1]
    rotation = np.linalg.qr(rng.normal(size=(*batch_and_dim, D)))[0]
    V = np.einsum("...ij,...j,...kj->...ik", rotation, (lengths(rng, *batch_and_dim, **kwargs) / SCALES[:D]) ** 2, rotation)
    return V * SCALES[:D, None] * SCALES[:D]


def hermitian(rng, P, Q, imaginary):
    """Positive semidefinite `(P, Q, Q)`."""
    factor = rng.normal(size=(P, Q, Q)) + (1j * rng.normal(size=(P, Q, Q)) if imaginary else 0)
    return factor @ np.conj(np.swapaxes(factor, 1, 2)) / Q


def frequencies(rng, *shape, narrow=1.0):
    """`(..., D)`; the first is 0."""
    w = rng.uniform(-1, 1, shape)
    w.reshape(-1, shape[-1])[0] = 0.0
    return w * 1.5 * narrow / SCALES[: shape[-1]]


# --- kernels and features ---------------------------------------------------------------------------------------------


def mixture(rng, D, real=True, imaginary=False, full=False, shared=False, chirping=False, P=2, Q=2, narrow=1.0):
    """Components with centres away from 0; `shared`: everything but the centres is common to all; of two `chirping` ones the second
    does not.
    """
    each = 1 if shared else P
    spread = functools.partial(covariances if full else lengths, low=0.4, high=1.5 * narrow)
    return hx.kernels.HarmonizableMixture(
        rng.uniform(-1, 1, (P, D)) * narrow * SCALES[:D],
        spread(rng, each, D),
        spread(rng, each, D),
        rng.uniform(-1.5, 1.5, (each, Q, D)) * narrow / SCALES[:D],
        hermitian(rng, each, Q, imaginary),
        real=real,
        rates=rng.uniform(0.1, 0.4, (each, D)) * np.array([[1.0], [0.0]])[:each] / SCALES[:D] ** 2 if chirping else None,
    )


def fourier_frequencies(wrap=lambda k: k, narrow=1.0, **kwargs):
    def draw(rng, D):
        k = mixture(rng, D, narrow=narrow, **kwargs)
        w = frequencies(rng, len(k.centers), M, D, narrow=narrow)
        return wrap(k), hx.features.FourierFrequencies(w)

    return draw


def inducing_points(kernel):
    def draw(rng, D):
        return kernel(rng, D), hx.features.InducingPoints(points(rng, 4, D))

    return draw


def spectral_mixture(rng, D, full=False, narrow=1.0):
    a, mu = rng.uniform(0.1, 2.0, 2), rng.uniform(-1.5, 1.5, (2, D)) * narrow / SCALES[:D]
    if full:
        return hx.kernels.SpectralMixture(a, mu, np.linalg.inv(covariances(rng, 2, D)) / 40)
    return hx.kernels.SpectralMixture(a, mu, 0.2 / lengths(rng, 2, D))


def squared_exponential(rng, D):
    return hx.kernels.SquaredExponential(rng.uniform(0.5, 2), lengths(rng, D))


def matern(rng, D):
    return hx.kernels.Matern(1.5, rng.uniform(0.5, 2), lengths(rng, D))


def windowed(kernel, narrow=1.0):
    def draw(rng, D):
        center = rng.uniform(-1, 1, D) * SCALES[:D]
        width = lengths(rng, D, low=0.4, high=1.5 * narrow)
        w = frequencies(rng, M, D, narrow=narrow)
        return kernel(rng, D), hx.features.WindowedFourier(w, center, width)

    return draw


def with_smooth_rest(k):
    """A sum with the mixture as one of its terms."""
    return hx.kernels.SquaredExponential(0.7, 0.9) + 2.0 * (0.5 * k)


def smooth_sum(rng, D):
    return 2.0 * squared_exponential(rng, D) + spectral_mixture(rng, D)


def families(narrow=1.0, P=2):
    fourier = functools.partial(fourier_frequencies, narrow=narrow, P=P)
    spectral = functools.partial(spectral_mixture, narrow=narrow)
    return {
        hx.features.FourierFrequencies: {
            "real weights": fourier(),
            "Hermitian weights": fourier(imaginary=True),
            "complex process": fourier(real=False, imaginary=True),
            "full windows and lags": fourier(imaginary=True, full=True),
            "complex process, full": fourier(real=False, imaginary=True, full=True),
            "chirping": fourier(imaginary=True, chirping=True),
            "chirping, complex process": fourier(real=False, imaginary=True, chirping=True),
            "one frequency, shared windows": fourier(Q=1, shared=True),
            "term of a sum": fourier(wrap=with_smooth_rest),
        },
        hx.features.InducingPoints: {
            "real": inducing_points(matern),
            "complex": inducing_points(functools.partial(mixture, real=False, imaginary=True)),
        },
        hx.features.WindowedFourier: {
            "squared exponential": windowed(squared_exponential, narrow),
            "spectral mixture": windowed(spectral, narrow),
            "spectral mixture, full": windowed(functools.partial(spectral, full=True), narrow),
            "sum": windowed(smooth_sum, narrow),
        },
    }


FAMILIES = families()
VARIANTS = [(family, name, draw) for family, variants in FAMILIES.items() for name, draw in variants.items()]
VARIANT_IDS = [f"{family.__name__} {name}" for family, name, _ in VARIANTS]
NARROW = [draw for variants in families(narrow=0.5, P=1).values() for draw in variants.values()]

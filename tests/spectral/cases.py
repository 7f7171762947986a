"""Random kernels by name, and which spectra each has in closed form."""

import numpy as np
from kernels.draws import (
    RANGES,
    SCALES,
    VARIANT_IDS,
    VARIANTS,
    lsg_full,
    mixture,
    spectral_mixture,
    squared_exponential,
)

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
    "HarmonizableMixture chirping",
    "HarmonizableMixture chirping, complex, full",
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


def frequencies(rng, m, D):
    return rng.uniform(-1.2, 1.2, (m, D)) * RANGES["frequency"] / SCALES[:D]


def error(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


def is_kinked(k):
    return "Matern" in repr(k)

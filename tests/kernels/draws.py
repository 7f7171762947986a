"""Random kernels: for each class of `harmix.kernels`, functions `(rng, D) -> kernel` that cover its variants.

Parameters live on unevenly scaled dimensions (`SCALES`), so that a mixed-up axis is seen, and all draws of
one variant have arrays of the same shapes, so that they can be stacked and are compiled once.
"""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from harmix import kernels

SCALES = np.array([1.0, 7.0, 0.3])


def points(rng, n, D):
    """Points where every kernel exists: the inverted Brownian motion does not at 0."""
    X = rng.uniform(-3, 3, (n, D))
    return (X + 0.05 * np.sign(X)) * SCALES[:D]


def stack(kernels):
    """Kernels of one variant as one kernel with batched parameters."""
    with jax.enable_x64(True):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *kernels)


# --- parameters ---------------------------------------------------------------------------------------------


RANGES = {"length": (0.4, 1.5), "frequency": 1.5, "center": 1.0}


@contextlib.contextmanager
def narrow():
    """Parameters so close together that a grid of few points resolves the kernels, as quadrature in 2-D needs."""
    before = dict(RANGES)
    RANGES.update({"length": (0.5, 0.9), "frequency": 0.8, "center": 0.5})
    yield
    RANGES.update(before)


def lengths(rng, *shape):
    """Positive lengths on the scale of each dimension, the last axis."""
    return np.exp(rng.uniform(*np.log(RANGES["length"]), shape)) * SCALES[: shape[-1]]


def centers(rng, *shape):
    return rng.uniform(-1, 1, shape) * RANGES["center"] * SCALES[: shape[-1]]


def frequencies(rng, *shape):
    return rng.uniform(-1, 1, shape) * RANGES["frequency"] / SCALES[: shape[-1]]


def weights(rng, *shape):
    return rng.uniform(0.1, 2.0, shape)


def hermitian(rng, *batch_and_size, imaginary=True):
    """Positive semidefinite `(..., Q, Q)`."""
    factor = rng.normal(size=(*batch_and_size, batch_and_size[-1]))
    if imaginary:
        factor = factor + 1j * rng.normal(size=factor.shape)
    return factor @ np.conj(np.swapaxes(factor, -1, -2)) / batch_and_size[-1]


def covariances(rng, *batch_and_dim):
    """Squared lengths as full matrices `(..., D, D)`."""
    D = batch_and_dim[-1]
    rotation = np.linalg.qr(rng.normal(size=(*batch_and_dim, D)))[0]
    spread = lengths(rng, *batch_and_dim) / SCALES[:D]
    V = np.einsum("...ij,...j,...kj->...ik", rotation, spread**2, rotation)
    return V * SCALES[:D, None] * SCALES[:D]


class Smooth(eqx.Module):
    """`offset + slope.x + bend sin(x)`, a number or one value for each dimension, possibly made positive."""

    offset: jax.Array
    slope: jax.Array
    bend: jax.Array
    scale: tuple[float, ...] = eqx.field(static=True)
    positive: bool = eqx.field(static=True, default=False)
    vector: bool = eqx.field(static=True, default=False)

    def __call__(self, x):
        z = x / jnp.asarray(self.scale)
        value = self.slope * z + self.bend * jnp.sin(z)
        value = self.offset + (value if self.vector else jnp.sum(value, axis=-1))
        return jnp.exp(value) if self.positive else value


def smooth(rng, D, size=0.3, **kwargs):
    with jax.enable_x64(True):
        arrays = (jnp.asarray(rng.uniform(-size, size, shape)) for shape in ((), (D,), (D,)))
        return Smooth(*arrays, tuple(SCALES[:D].tolist()), **kwargs)


class GaussianEnvelope(eqx.Module):
    """`exp(-2 pi^2 c' Sigma1 c)` with a diagonal Sigma1."""

    sigma1: jax.Array

    def __call__(self, c):
        return jnp.exp(-2 * jnp.pi**2 * jnp.sum(self.sigma1 * c**2, axis=-1))


# --- kernels ------------------------------------------------------------------------------------------------


def squared_exponential(rng, D):
    return kernels.SquaredExponential(rng.uniform(0.5, 2), lengths(rng, D))


def matern(nu):
    return lambda rng, D: kernels.Matern(nu, rng.uniform(0.5, 2), lengths(rng, D))


def sparse_spectrum(rng, D):
    return kernels.SparseSpectrum(weights(rng, 3), frequencies(rng, 3, D))


def spectral_mixture(rng, D):
    return kernels.SpectralMixture(weights(rng, 3), frequencies(rng, 3, D), 0.2 / lengths(rng, 3, D))


def spectral_mixture_full(rng, D):
    V = np.linalg.inv(covariances(rng, 3, D)) / 25
    return kernels.SpectralMixture(weights(rng, 3), frequencies(rng, 3, D), V)


def spectral_mixture_product(*per_dimension):
    def draw(rng, D):
        a = weights(rng, 3, *([D] if per_dimension else []))
        return kernels.SpectralMixtureProduct(a, frequencies(rng, 3, D), 0.2 / lengths(rng, 3, D))

    return draw


def stationary_generalized(base, real):
    def draw(rng, D):
        # The scalings bring the unit scale of the base to the scale of each dimension.
        g = 1 / lengths(rng, 2, D)
        return kernels.StationaryGeneralizedSpectral(base, weights(rng, 2), frequencies(rng, 2, D), g, real=real)

    return draw


def generalized_spectral(base):
    def draw(rng, D):
        g = 1 / lengths(rng, 2, D)
        return kernels.GeneralizedSpectral(base(rng), weights(rng, 2), frequencies(rng, 2, 2, D), g)

    return draw


def gibbs(vector):
    # One lengthscale for all dimensions must suit the smallest scale.
    return lambda rng, D: kernels.Gibbs(smooth(rng, D, positive=True, vector=vector))


def generalized_spectral_mixture(vector):
    def draw(rng, D):
        many = lambda **kwargs: [smooth(rng, D, **kwargs) for _ in range(2)]
        return kernels.GeneralizedSpectralMixture(many(size=1.0), many(vector=vector), many(positive=True, vector=vector))

    return draw


def frequency_warped(rng, D):
    return kernels.FrequencyWarped(smooth(rng, D, size=3.0))


def inverted_fractional_brownian(rng, D):
    return kernels.InvertedFractionalBrownian(rng.uniform(0.05, 0.95))


def locally_stationary(rng, D):
    sigma1, sigma2 = sigmas(rng, D)
    h = kernels.SquaredExponential(rng.uniform(0.5, 2), 1 / (2 * np.pi * np.sqrt(sigma2)))
    with jax.enable_x64(True):
        return kernels.LocallyStationary(GaussianEnvelope(jnp.asarray(sigma1)), h)


def sigmas(rng, *shape):
    """Diagonals inside `0 <= Sigma1 <= 4 Sigma2`."""
    W, l = lengths(rng, *shape), lengths(rng, *shape)
    sigma1 = 1 / (4 * np.pi**2 * W**2)
    return sigma1, sigma1 / 4 + 1 / (4 * np.pi**2 * l**2)


def full_sigmas(rng, *shape):
    sigma1 = np.linalg.inv(covariances(rng, *shape)) / (4 * np.pi**2)
    return sigma1, sigma1 / 4 + np.linalg.inv(covariances(rng, *shape)) / (4 * np.pi**2)


def lsg_isotropic(rng, D):
    # One length for all dimensions: between their scales.
    between = np.exp(np.mean(np.log(SCALES[:D])))
    return kernels.LocallyStationaryGaussian(*(V[0] / between**2 for V in sigmas(rng, 1)))


def lsg_diagonal(rng, D):
    return kernels.LocallyStationaryGaussian(*sigmas(rng, D))


def lsg_full(rng, D):
    return kernels.LocallyStationaryGaussian(*full_sigmas(rng, D))


def mixture(real=True, imaginary=False, full=False, shared=False, chirping=False):
    """Two components with centres away from 0; `shared`: everything but the centres is common to both. Of two that are
    `chirping` the first does not.
    """

    def draw(rng, D):
        P = 1 if shared else 2
        spread = covariances if full else lengths
        return kernels.HarmonizableMixture(
            centers(rng, 2, D),
            spread(rng, P, D),
            spread(rng, P, D),
            frequencies(rng, P, 2, D),
            hermitian(rng, P, 2, imaginary=imaginary),
            real=real,
            rates=rng.uniform(-0.4, 0.4, (P, D)) * np.array([[1.0], [0.0]])[::-1][-P:] / SCALES[:D] ** 2 if chirping else None,
        )

    return draw


def mixture_from_spectral(full=False, real=True, imaginary=True):
    def draw(rng, D):
        return kernels.HarmonizableMixture.from_spectral(
            centers(rng, 2, D),
            rng.uniform(0.7, 1.5, (2, D)),
            frequencies(rng, 2, 2, D),
            hermitian(rng, 2, 2, imaginary=imaginary),
            *(full_sigmas if full else sigmas)(rng, D),
            real=real,
        )

    return draw


def mixture_product(real, per_dimension):
    def draw(rng, D):
        B = hermitian(rng, *([D] if per_dimension else []), 2, 2)
        B = np.moveaxis(B, 0, -1) if per_dimension else B
        return kernels.HarmonizableMixtureProduct(
            centers(rng, 2, D),
            lengths(rng, 1, D),
            lengths(rng, 2, D),
            frequencies(rng, 2, 2, D),
            B,
            real=real,
        )

    return draw


def total(rng, D):
    return spectral_mixture(rng, D) + mixture()(rng, D) + lsg_diagonal(rng, D)


def product(rng, D):
    return matern(1.5)(rng, D) * mixture(real=False, imaginary=True)(rng, D)


def scaled(rng, D):
    return rng.uniform(0.0, 3.0) * mixture(full=True)(rng, D)


FAMILIES = {
    kernels.SquaredExponential: {"": squared_exponential},
    kernels.Matern: {"half": matern(0.5), "three halves": matern(1.5), "five halves": matern(2.5)},
    kernels.SparseSpectrum: {"": sparse_spectrum},
    kernels.SpectralMixture: {"diagonal": spectral_mixture, "full": spectral_mixture_full},
    kernels.SpectralMixtureProduct: {
        "shared weights": spectral_mixture_product(),
        "weights per dimension": spectral_mixture_product("D"),
    },
    kernels.StationaryGeneralizedSpectral: {
        "real": stationary_generalized(kernels.Matern(1.5, 1.0, 1.0), True),
        "complex": stationary_generalized(kernels.SquaredExponential(1.0, 1.0), False),
    },
    kernels.GeneralizedSpectral: {
        "stationary base": generalized_spectral(lambda rng: kernels.Matern(2.5, *rng.uniform(0.5, 2, 2))),
        "non-stationary base": generalized_spectral(lambda rng: lsg_isotropic(rng, 1)),
    },
    kernels.Gibbs: {"isotropic": gibbs(False), "per dimension": gibbs(True)},
    kernels.GeneralizedSpectralMixture: {
        "isotropic": generalized_spectral_mixture(False),
        "per dimension": generalized_spectral_mixture(True),
    },
    kernels.FrequencyWarped: {"": frequency_warped},
    kernels.InvertedFractionalBrownian: {"": inverted_fractional_brownian},
    kernels.LocallyStationary: {"gaussian pair": locally_stationary},
    kernels.LocallyStationaryGaussian: {
        "isotropic": lsg_isotropic,
        "diagonal": lsg_diagonal,
        "full": lsg_full,
    },
    kernels.HarmonizableMixture: {
        "diagonal": mixture(imaginary=True),
        "full": mixture(imaginary=True, full=True),
        "shared": mixture(shared=True),
        "complex": mixture(real=False, imaginary=True),
        "chirping": mixture(imaginary=True, chirping=True),
        "chirping, complex, full": mixture(real=False, imaginary=True, full=True, chirping=True),
        "complex full from spectral": mixture_from_spectral(full=True, real=False),
    },
    kernels.HarmonizableMixtureProduct: {
        "real": mixture_product(True, False),
        "complex, weights per dimension": mixture_product(False, True),
    },
    kernels.Sum: {"": total},
    kernels.Product: {"": product},
    kernels.Scaled: {"": scaled},
}

# (class, variant name, draw), for parametrisation.
VARIANTS = [(family, name, draw) for family, variants in FAMILIES.items() for name, draw in variants.items()]
VARIANT_IDS = [f"{family.__name__} {name}".strip() for family, name, _ in VARIANTS]
# The last variant of each family, where one will do.
LAST = [(family, list(variants.values())[-1]) for family, variants in FAMILIES.items()]
LAST_IDS = [family.__name__ for family, _ in LAST]

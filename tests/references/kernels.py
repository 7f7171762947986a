"""Every kernel as its formula reads, in numpy, with a Python loop for every sum over components or
frequencies.

`formula(kernel)` is a function of points `x, y` of shape `(..., D)` that broadcast against each other. It
reads the public parameters of the kernel and nothing else of it; the formulas are those of MATH.md and of the
class docstrings.
"""

from functools import singledispatch

import jax
import numpy as np

import harmix as hx


@singledispatch
def formula(kernel):
    raise NotImplementedError(f"write the formula of {type(kernel).__name__} in tests/references/kernels.py")


def gram(k, X1, X2):
    """All pairs, one at a time."""
    return np.array([[k(x, y) for y in X2] for x in X1])


def quadratic(v, V):
    """`v' V v`; V is a number, a diagonal or a matrix."""
    V = np.asarray(V)
    return np.einsum("...i,ij,...j->...", v, V, v) if V.ndim == 2 else np.sum(V * v**2, axis=-1)


def dot(w, v):
    return np.sum(w * v, axis=-1)


def values(fn, x):
    """A user's function at points, `(...)` or `(..., D)`; such functions are written with jax.numpy."""
    with jax.enable_x64(True):
        return np.asarray(fn(x))


@formula.register
def _(k: hx.kernels.SquaredExponential):
    v, l = np.asarray(k.variance), np.asarray(k.lengthscale)
    return lambda x, y: v * np.exp(-np.sum((x - y) ** 2 / (2 * l**2), axis=-1))


@formula.register
def _(k: hx.kernels.Matern):
    v, l = np.asarray(k.variance), np.asarray(k.lengthscale)
    shape = {
        0.5: lambda r: np.exp(-r),
        1.5: lambda r: (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r),
        2.5: lambda r: (1 + np.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-np.sqrt(5) * r),
    }[k.nu]
    return lambda x, y: v * shape(np.sqrt(np.sum(((x - y) / l) ** 2, axis=-1)))


@formula.register
def _(k: hx.kernels.SparseSpectrum):
    a, w = np.asarray(k.weights), np.asarray(k.frequencies)
    return lambda x, y: sum(a[q] * np.cos(2 * np.pi * dot(w[q], x - y)) for q in range(len(a)))


@formula.register
def _(k: hx.kernels.SpectralMixture):
    a, mu, scales = (np.asarray(p) for p in (k.weights, k.frequencies, k.scales))
    V = scales**2 if scales.ndim == 2 else scales

    def evaluate(x, y):
        t = x - y
        return sum(a[q] * np.exp(-2 * np.pi**2 * quadratic(t, V[q])) * np.cos(2 * np.pi * dot(mu[q], t)) for q in range(len(a)))

    return evaluate


@formula.register
def _(k: hx.kernels.SpectralMixtureProduct):
    mu, s = np.asarray(k.frequencies), np.asarray(k.scales)
    a = np.asarray(k.weights)
    a = np.repeat(a[:, None], mu.shape[1], axis=1) if a.ndim == 1 else a

    def evaluate(x, y):
        t, result = x - y, 1.0
        for d in range(mu.shape[1]):
            result = result * sum(
                a[q, d] * np.exp(-2 * np.pi**2 * s[q, d] ** 2 * t[..., d] ** 2) * np.cos(2 * np.pi * mu[q, d] * t[..., d])
                for q in range(len(a))
            )
        return result

    return evaluate


@formula.register
def _(k: hx.kernels.StationaryGeneralizedSpectral):
    a, mu, g = (np.asarray(p) for p in (k.weights, k.frequencies, k.scalings))
    h = formula(k.base)
    wave = (lambda z: np.cos(z)) if k.real else (lambda z: np.exp(1j * z))

    def evaluate(x, y):
        t = x - y
        return sum(a[q] * h(t * g[q], np.zeros_like(t)) * wave(2 * np.pi * dot(mu[q], t)) for q in range(len(a)))

    return evaluate


@formula.register
def _(k: hx.kernels.GeneralizedSpectral):
    a, w, g = (np.asarray(p) for p in (k.weights, k.frequencies, k.scalings))
    h = formula(k.base)

    def psi(q, x):
        first, second = (2 * np.pi * dot(w[q, i], x) for i in (0, 1))
        return np.cos(first) + np.cos(second), np.sin(first) + np.sin(second)

    def evaluate(x, y):
        total = 0.0
        for q in range(len(a)):
            (c, s), (c_, s_) = psi(q, x), psi(q, y)
            total = total + a[q] * h(x * g[q], y * g[q]) * (c * c_ + s * s_)
        return total

    return evaluate


def gibbs(x, y, lx, ly):
    result = 1.0
    for d in range(x.shape[-1]):
        l, l_ = (v if v.ndim < z.ndim else v[..., d] for v, z in ((lx, x), (ly, y)))
        s = l**2 + l_**2
        result = result * np.sqrt(2 * l * l_ / s) * np.exp(-((x[..., d] - y[..., d]) ** 2) / s)
    return result


@formula.register
def _(k: hx.kernels.Gibbs):
    return lambda x, y: gibbs(x, y, values(k.lengthscale_fn, x), values(k.lengthscale_fn, y))


@formula.register
def _(k: hx.kernels.GeneralizedSpectralMixture):
    def phase(fn, x):
        mu = values(fn, x)
        return 2 * np.pi * np.sum((mu if mu.ndim == x.ndim else mu[..., None]) * x, axis=-1)

    def evaluate(x, y):
        total = 0.0
        for a, mu, l in zip(k.weight_fns, k.frequency_fns, k.lengthscale_fns, strict=True):
            envelope = gibbs(x, y, values(l, x), values(l, y))
            total = total + values(a, x) * values(a, y) * envelope * np.cos(phase(mu, x) - phase(mu, y))
        return total

    return evaluate


@formula.register
def _(k: hx.kernels.FrequencyWarped):
    return lambda x, y: np.cos(values(k.phase_fn, x) - values(k.phase_fn, y))


@formula.register
def _(k: hx.kernels.InvertedFractionalBrownian):
    h = float(k.hurst)
    power = lambda v: np.sqrt(np.sum(v**2, axis=-1)) ** (2 * h)
    invert = lambda x: x / np.sum(x**2, axis=-1, keepdims=True)
    return lambda x, y: (power(invert(x)) + power(invert(y)) - power(invert(x) - invert(y))) / 2


@formula.register
def _(k: hx.kernels.LocallyStationary):
    h = formula(k.stationary)
    return lambda x, y: values(k.envelope_fn, (x + y) / 2) * h(x, y)


def locally_stationary_gaussian(sigma1, sigma2):
    """`k_LSG`, whether or not it is a covariance."""
    return lambda x, y: np.exp(-2 * np.pi**2 * quadratic((x + y) / 2, sigma1) - 2 * np.pi**2 * quadratic(x - y, sigma2))


@formula.register
def _(k: hx.kernels.LocallyStationaryGaussian):
    return locally_stationary_gaussian(np.asarray(k.sigma1), np.asarray(k.sigma2))


def harmonizable_mixture(centers, scalings, frequencies, weights, sigma1, sigma2, real):
    """MATH.md section 3 with the paper's parameters; Sigmas of component p are `sigma1[p]`, `sigma2[p]`."""

    def evaluate(x, y):
        total = 0.0
        for p in range(len(centers)):
            u, v = x - centers[p], y - centers[p]
            waves = 0.0
            for i in range(len(frequencies[p])):
                for j in range(len(frequencies[p])):
                    phase = dot(frequencies[p][i], u) - dot(frequencies[p][j], v)
                    waves = waves + weights[p][i, j] * np.exp(2j * np.pi * phase)
            total = total + locally_stationary_gaussian(sigma1[p], sigma2[p])(u * scalings[p], v * scalings[p]) * waves
        return total.real if real else total

    return evaluate


@formula.register
def _(k: hx.kernels.HarmonizableMixture):
    P = len(k.centers)
    windows, lengthscales, mu, B = (
        [np.asarray(a)[p if len(a) > 1 else 0] for p in range(P)] for a in (k.windows, k.lengthscales, k.frequencies, k.weights)
    )
    # Sigma1 = 1 / (4 pi^2 W^2), Sigma2 = Sigma1 / 4 + 1 / (4 pi^2 l^2); matrices hold W^2 and l^2 themselves.
    spectral = lambda V: np.linalg.inv(V) / (4 * np.pi**2) if V.ndim == 2 else 1 / (4 * np.pi**2 * V**2)
    sigma1 = [spectral(W) for W in windows]
    sigma2 = [S / 4 + spectral(l) for S, l in zip(sigma1, lengthscales, strict=True)]
    if k.rates is None:
        return harmonizable_mixture(np.asarray(k.centers), np.ones(P), mu, B, sigma1, sigma2, k.real)
    # Each component is what a chirp around its centre modulates.
    rates = np.broadcast_to(np.asarray(k.rates), k.centers.shape)
    turn = lambda p, x: np.exp(1j * np.pi * np.sum(rates[p] * (x - np.asarray(k.centers)[p]) ** 2, axis=-1))
    still = [
        harmonizable_mixture(np.asarray(k.centers)[p : p + 1], np.ones(1), *([v[p]] for v in (mu, B, sigma1, sigma2)), False)
        for p in range(P)
    ]
    chirping = lambda x, y: sum(f(x, y) * turn(p, x) * np.conj(turn(p, y)) for p, f in enumerate(still))
    return (lambda x, y: chirping(x, y).real) if k.real else chirping


@formula.register
def _(k: hx.kernels.HarmonizableMixtureProduct):
    factors = [formula(factor) for factor in k.factors]
    return lambda x, y: np.prod([f(x[..., d, None], y[..., d, None]) for d, f in enumerate(factors)], axis=0)


@formula.register
def _(k: hx.kernels.Sum):
    terms = [formula(term) for term in k.kernels]
    return lambda x, y: sum(f(x, y) for f in terms)


@formula.register
def _(k: hx.kernels.Product):
    factors = [formula(factor) for factor in k.kernels]
    return lambda x, y: np.prod([f(x, y) for f in factors], axis=0)


@formula.register
def _(k: hx.kernels.Scaled):
    f = formula(k.kernel)
    return lambda x, y: float(k.factor) * f(x, y)

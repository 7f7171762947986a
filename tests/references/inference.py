"""Sparse inference as the textbook writes it: dense covariance matrices, inverses, loops and quadrature, in numpy.

Written from MATH.md sections 4 and 5, not from the library. Nothing is whitened or structured here: inducing variables `u`
come with their prior covariance `Kuu`, their covariance `Kuf` with the process, and q(u) = N(m, S) of u itself.

`complex_valued` says which normal density is meant: `N`, or the circular `CN(y | 0, V) = pi^-n |V|^-1 exp(-y^H V^-1 y)`.
"""

import numpy as np

from references.quadrature import box, generalized_density, wave


def log_normal(y, V, complex_valued):
    """`log N(y | 0, V)` or `log CN(y | 0, V)`."""
    sign, logdet = np.linalg.slogdet(V)
    assert sign.real > 0
    fit = np.real(np.conj(y) @ np.linalg.solve(V, y))
    if complex_valued:
        return -len(y) * np.log(np.pi) - logdet - fit
    return -0.5 * (len(y) * np.log(2 * np.pi) + logdet + fit)


def half(complex_valued):
    """The factor 1/2 of real Gaussians."""
    return 1.0 if complex_valued else 0.5


# --- bounds -----------------------------------------------------------------------------------------------------------


def nystroem(Kuu, Kuf):
    """`Q = Kfu Kuu^-1 Kuf`."""
    return np.conj(Kuf).T @ np.linalg.solve(Kuu, Kuf)


def collapsed_bound(Kuu, Kuf, variances, noise, y, complex_valued):
    """`log N(y | 0, Q + R) - tr(R^-1 (K - Q)) / 2`, `R = diag(noise)`; for CN without the 1/2."""
    Q = nystroem(Kuu, Kuf)
    missed = np.sum((variances - np.real(np.diagonal(Q))) / noise)
    return log_normal(y, Q + np.diag(noise * np.ones(len(y))), complex_valued) - half(complex_valued) * missed


def optimal_q(Kuu, Kuf, noise, y):
    """Mean and covariance of the q(u) at which the bound collapses."""
    precision = np.linalg.inv(Kuu) + np.linalg.solve(Kuu, (Kuf / noise) @ np.conj(Kuf).T) @ np.linalg.inv(Kuu)
    S = np.linalg.inv(precision)
    return S @ np.linalg.solve(Kuu, (Kuf / noise) @ y), S


def kl(m, S, V, complex_valued):
    """`KL[N(m, S) || N(0, V)]`."""
    logdet = np.linalg.slogdet(V)[1] - np.linalg.slogdet(S)[1]
    inner = np.trace(np.linalg.solve(V, S)) + np.conj(m) @ np.linalg.solve(V, m)
    return half(complex_valued) * (np.real(inner) - len(m) + logdet)


def log_density(u, m, S, complex_valued):
    """`log N(u_k | m, S)` of the columns of `u`."""
    return np.array([log_normal(v - m, S, complex_valued) for v in u.T])


def marginals(Kuu, Kuf, variances, m, S):
    """Mean and variance of every `f(x_n)` under q."""
    projection = np.linalg.solve(Kuu, Kuf)
    mean = np.conj(projection).T @ m
    explained = np.einsum("mn,mk,kn->n", np.conj(projection), Kuu - S, projection)
    return mean, variances - np.real(explained)


def gaussian_elbo(Kuu, Kuf, variances, m, S, noise, y, complex_valued):
    """`sum_n E_q log p(y_n | f_n) - KL` for Gaussian noise."""
    mean, variance = marginals(Kuu, Kuf, variances, m, S)
    h = half(complex_valued)
    data = -h * (np.log(np.pi * noise / h) + (np.abs(y - mean) ** 2 + variance) / noise)
    return np.sum(data) - kl(m, S, Kuu, complex_valued)


def expected(log_prob, mean, variance):
    """`E log_prob(y_n, f)` over `f ~ N(mean_n, variance_n)`, by the trapezoidal rule on +-12 standard deviations."""
    z, volume = np.linspace(-12, 12, 4001, retstep=True)
    density = volume * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.array([density @ log_prob(n, m + np.sqrt(v) * z) for n, (m, v) in enumerate(zip(mean, variance, strict=True))])


# --- posteriors -------------------------------------------------------------------------------------------------------


def exact_posterior(K, noise, y, Kfs, Kss):
    """Mean and covariance at new places, `Kfs` `(n, s)`, `Kss` `(s, s)`."""
    V = K + np.diag(noise * np.ones(len(y)))
    weights = np.linalg.solve(V, Kfs)
    return np.conj(weights).T @ y, Kss - np.conj(Kfs).T @ weights


def sparse_posterior(Kuu, Kus, Kss, m, S):
    """Mean and covariance at new places under q(u) = N(m, S)."""
    projection = np.linalg.solve(Kuu, Kus)
    adjoint = np.conj(projection).T
    return adjoint @ m, Kss - adjoint @ (Kuu - S) @ projection


# --- covariances of Fourier features, from their defining integrals ---------------------------------------------------


def transform_covariance(k, w, X, lo, hi, n, window=lambda s: 1.0, origin=0.0):
    """`cov(int h(s) f(s) e^{-2 pi i w.(s - c)} ds, f(x))`, `(m, n)`; `k` is a function of points, `origin` is c."""
    s, volumes = box(lo, hi, n)
    return wave(-w, s - origin) @ ((volumes * window(s))[:, None] * k(s[:, None], X[None, :]))


def transform_prior(k, w, xi, lo, hi, n, window=lambda s: 1.0, origin=0.0, rows=64):
    """`E[L(w) conj L(xi)]` of the same integrals, `(m1, m2)`."""
    s, volumes = box(lo, hi, n)
    shifted = lambda x, y: k(x + origin, y + origin)
    return generalized_density(shifted, w, xi, (s - origin, volumes * window(s)), rows)


def parts(transform):
    """The real and the imaginary part of complex variables as one list of real variables: `(2m, n)` from `(m, n)`."""
    return np.concatenate([np.real(transform), np.imag(transform)])


def parts_prior(circular, pseudo):
    """Covariance `(2m, 2m)` of the real and imaginary parts of z from `E z z^H` and `E z z^T`."""
    rr, ii = np.real(circular + pseudo) / 2, np.real(circular - pseudo) / 2
    ri, ir = np.imag(pseudo - circular) / 2, np.imag(pseudo + circular) / 2
    return np.block([[rr, ri], [ir, ii]])

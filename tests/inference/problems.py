"""Small problems of few array shapes (each shape is compiled once), and what the dense references need to know of them."""

from typing import NamedTuple

import numpy as np
from features import draws
from features.draws import SCALES
from references.kernels import formula

import harmix as hx

# Real weights: cosine and sine blocks. Hermitian weights: coupled ones. Complex: complex process, circular noise.
KINDS = ["real", "Hermitian", "complex"]
N, P, M = 25, 2, 5


class Problem(NamedTuple):
    """A prior, features, and data drawn from the prior."""

    kernel: hx.kernels.Kernel
    features: hx.features.Features
    noise: float
    X: np.ndarray
    y: np.ndarray

    @property
    def is_complex(self):
        return np.iscomplexobj(self.y)

    @property
    def data(self):
        return self.X, self.y

    @property
    def model(self):
        """What stochastic inference takes first."""
        return self.kernel, self.features, hx.likelihoods.Gaussian(self.noise)

    @property
    def covariances(self):
        """`Kuu, Kuf, k(x_n, x_n)`, dense: what tests/features compares with quadrature."""
        k, u = self.kernel, self.features
        return hx.features.kuu(u, k).to_dense(), hx.features.kuf(u, k, self.X), k.diag(self.X)


def kernel(rng, kind, D, P=P, Q=2, narrow=1.0):
    """A mixture kernel of one of the KINDS."""
    real, imaginary = kind != "complex", kind != "real"
    return draws.mixture(rng, D, real=real, imaginary=imaginary, P=P, Q=Q, narrow=narrow)


def frequencies(rng, D, P=P, M=M, top=1.5):
    """`(P, M, D)`, none of them at 0 and no two alike: the dense references have no jitter."""
    w = (np.arange(M) + 0.5 + rng.uniform(-0.3, 0.3, (P, M))) * top / M
    return w[..., None] * rng.choice([-1, 1], (P, M, D)) / SCALES[:D]


def sample(rng, k, X, noise):
    """Observations of the process; its covariance by the formula, which needs no compilation."""
    K = formula(k)(X[:, None], X[None, :])
    V = K + noise * np.eye(len(K))
    white = rng.normal(size=len(K))
    if np.iscomplexobj(K):
        white = (white + 1j * rng.normal(size=len(K))) / np.sqrt(2)
    return np.linalg.cholesky(V) @ white


def places(rng, D, n=N):
    return draws.points(rng, n, D, reach=2.0)


def chirps(real, seed=5):
    """A mixture whose first component chirps and whose second does not, with few features, and data of it."""
    rng = np.random.default_rng(seed)
    k = draws.mixture(rng, 1, real=real, imaginary=True, P=P, chirping=True)
    X = places(rng, 1)
    return Problem(k, hx.features.FourierFrequencies(frequencies(rng, 1)), 0.1, X, sample(rng, k, X, 0.1))


def problem(kind, D=1, seed=0, noise=0.1, n=N, **kwargs):
    rng = np.random.default_rng(seed)
    k = kernel(rng, kind, D, **kwargs)
    features = hx.features.FourierFrequencies(frequencies(rng, D, P=len(k.centers)))
    X = places(rng, D, n)
    return Problem(k, features, noise, X, sample(rng, k, X, noise))

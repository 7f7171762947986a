"""One component of a harmonizable mixture, in its own centred coordinates (MATH.md sections 2 and 3): a window, a lengthscale,
coupled frequencies, and a rate at which all of them change.

A chirp is a modulation: `f(x) -> exp(i pi x.Rx) f(x)` with `R = diag(rates)` multiplies the kernel by
`exp(i pi (x.Rx - x'.Rx'))`, which stays positive semidefinite and harmonizable. It shears the Wigner distribution,
`W(x, w) -> W(x, w - R x)`, and makes the Gaussians of the generalised spectral density complex.
"""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact

from harmix.kernels.base import GAUSSIAN_REACH
from harmix.linalg import lags, log_normal, normal, quadratic
from harmix.waves import cis, cos_sin


class Component(eqx.Module):
    """`k_LSG(x, x') e^{i pi (x.Rx - x'.Rx')} sum_ij b_ij e^{2 pi i (mu_i.x - mu_j.x')}`, centred at 0; or the real part of it.

    Attributes:
        sigma1: `Sigma1`, `(D,)` or `(D, D)`: how fast the envelope falls, in the spectral domain.
        lag: `C = Sigma2 - Sigma1 / 4`, the same shape: what makes the kernel positive semidefinite is `C >= 0`.
        frequencies: `mu`, `(Q, D)`.
        weights: `B`, `(Q, Q)`, Hermitian.
        real: whether to take the real part.
        rates: how fast the frequencies change along each axis, `r`, `(D,)`; None where they do not.
    """

    sigma1: Float[Array, "D *full"]
    lag: Float[Array, "D *full"]
    frequencies: Float[Array, "Q D"]
    weights: Inexact[Array, "Q Q"]
    real: bool = eqx.field(static=True)
    rates: Float[Array, " D"] | None = None

    @property
    def sigma2(self) -> Float[Array, "D *full"]:
        """`Sigma2 = Sigma1 / 4 + C`."""
        return self.sigma1 / 4 + self.lag

    def bandwidth(self) -> Float[Array, " D"]:
        """`x -> k(z, x)` is Gaussian with the spectral covariance `A = Sigma1 / 4 + Sigma2`, around each frequency.

        A chirp widens it: by the frequencies that it runs through within the Gaussian, and within the window that z moves in.
        """
        A = self.sigma1 / 2 + self.lag
        spread = A if A.ndim == 1 else jnp.diagonal(A)
        if self.rates is not None:
            S = self.sigma1 if A.ndim == 1 else jnp.diagonal(self.sigma1)
            spread = spread + self.rates**2 * (1 / spread + 2 / S) / (4 * jnp.pi**2)
        return jnp.max(jnp.abs(self.frequencies), axis=0) + GAUSSIAN_REACH * jnp.sqrt(spread)

    def phases(self, X: Float[Array, "n D"]) -> Float[Array, "n Q"]:
        """`mu_i.x + x.Rx / 2`, in cycles."""
        return X @ self.frequencies.T + self.chirp(X)[:, None]

    def chirp(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`x.Rx / 2`, in cycles."""
        return jnp.zeros(X.shape[0]) if self.rates is None else quadratic(self.rates, X) / 2

    def waves(
        self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]
    ) -> tuple[Inexact[Array, "n1 R"], Inexact[Array, "n2 R"]]:
        """Factors `F1, F2` with `k = SE(x - x') * (F1 F2^T)`: envelope and sum over i, j as one matrix product."""
        phase1, phase2 = (self.phases(X) for X in (X1, X2))
        envelope1, envelope2 = (jnp.exp(-(jnp.pi**2) * quadratic(self.sigma1, X))[:, None] for X in (X1, X2))
        if not self.real:
            return (
                envelope1 * (cis(phase1) @ self.weights),
                envelope2 * cis(-phase2),
            )
        # Re(phi B phi'^H) by real products: phi = c + i s, and B = R + i J.
        c, s = cos_sin(phase1)
        R, J = jnp.real(self.weights), jnp.imag(self.weights)
        left = jnp.concatenate([c @ R - s @ J, c @ J + s @ R], axis=1)
        right = jnp.concatenate(cos_sin(phase2), axis=1)
        return envelope1 * left, envelope2 * right

    def stationary_factor(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """`exp(-2 pi^2 t' C t)`."""
        return jnp.exp(-2 * jnp.pi**2 * quadratic(self.lag, lags(X1, X2)))

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The covariance matrix."""
        left, right = self.waves(X1, X2)
        return self.stationary_factor(X1, X2) * (left @ right.T)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`exp(-2 pi^2 x' Sigma1 x) (sum_i b_ii + 2 sum_{i<j} Re[b_ij e^{2 pi i (mu_i - mu_j).x}])`."""
        i, j = np.triu_indices(self.frequencies.shape[0], k=1)
        c, s = cos_sin(X @ (self.frequencies[i] - self.frequencies[j]).T)
        pairs = self.weights[i, j]
        beats = c @ jnp.real(pairs) - s @ jnp.imag(pairs)
        envelope = jnp.exp(-2 * jnp.pi**2 * quadratic(self.sigma1, X))
        return envelope * (jnp.real(jnp.trace(self.weights)) + 2 * beats)

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """`sum_ij b_ij S_LSG(w - mu_i, xi - mu_j)`, of chirps if they are; a real process has also its mirror image,
        `conj S(-w, -xi)`.
        """
        density = self.one_sided_density(w, xi).astype(complex)
        return (density + jnp.conj(self.one_sided_density(-w, -xi))) / 2 if self.real else density

    def one_sided_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Inexact[Array, "m1 m2"]:
        """`S(w, xi)` of the complex kernel, without the mirror image; real where the weights are and nothing chirps."""
        left = (w[:, None, :] - self.frequencies)[:, None, :, None, :]
        right = (xi[:, None, :] - self.frequencies)[None, :, None, :, :]
        if self.rates is None:
            log_density = log_normal((left + right) / 2, self.sigma2) + log_normal(left - right, self.sigma1)
        else:
            both = jnp.concatenate(jnp.broadcast_arrays(left, right), axis=-1)
            log_density = log_normal(both, self._chirped_covariance())
        return jnp.einsum("abij,ij->ab", jnp.exp(log_density), self.weights)

    def _chirped_covariance(self) -> Complex[Array, "two_D two_D"]:
        """`[[A - i R / 2 pi, C], [C, A + i R / 2 pi]]`: `S_LSG` of a chirp is a normal density with this for a covariance. Its
        determinant is positive: conjugation swaps the blocks.
        """
        assert self.rates is not None
        V1, C = (V if V.ndim == 2 else jnp.diag(V) for V in (self.sigma1, self.lag))
        A, turn = V1 / 2 + C, 1j * jnp.diag(self.rates) / (2 * jnp.pi)
        return jnp.block([[A - turn, C], [C, A + turn]])

    def unchirped(self) -> Component:
        """The component that the chirp is a modulation of."""
        return Component(self.sigma1, self.lag, self.frequencies, self.weights, self.real)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """`exp(-2 pi^2 x' Sigma1 x) sum_ij N(w - (mu_i + mu_j) / 2 - R x | 0, Sigma2) Re[b_ij e^{2 pi i (mu_i - mu_j).x}]`."""
        mu = self.frequencies
        midpoints = ((mu[:, None] + mu[None, :]) / 2).reshape(-1, mu.shape[1])
        differences = (mu[:, None] - mu[None, :]).reshape(-1, mu.shape[1])
        beats = jnp.real(self.weights.reshape(-1) * cis(x @ differences.T))
        if self.rates is not None:
            midpoints = midpoints + (self.rates * x)[:, None, None, :]  # (n, 1, Q^2, D)
        peaks = normal(w[:, None] - midpoints, self.sigma2)
        if self.real:
            peaks = (peaks + normal(w[:, None] + midpoints, self.sigma2)) / 2
        envelope = jnp.exp(-2 * jnp.pi**2 * quadratic(self.sigma1, x))
        return envelope[:, None] * (beats @ peaks.T if self.rates is None else jnp.einsum("nq,nmq->nm", beats, peaks))

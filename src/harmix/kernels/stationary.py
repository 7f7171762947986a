"""Stationary kernels and their spectral densities."""

from __future__ import annotations

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from harmix.kernels.base import GAUSSIAN_REACH, Kernel, NoClosedFormError, Stationary
from harmix.linalg import normal
from harmix.parameters import nonnegative, parameter, positive, real, spread
from harmix.precision import entry_point
from harmix.waves import cis, cos_sin


def cosine_features(
    X: Float[Array, "n D"], frequencies: Float[Array, "Q D"]
) -> tuple[Float[Array, "n Q"], Float[Array, "n Q"]]:
    """`cos(2 pi w_q.x)` and `sin(2 pi w_q.x)`: the low-rank factors of every `cos(2 pi w_q.(x - x'))`."""
    return cos_sin(X @ frequencies.T)


def _both_signs(of: Float[Array, "Q m"], mirrored: Float[Array, "Q m"], weights: Float[Array, " Q"]) -> Array:
    """`sum_q a_q (s_q(w) + s_q(-w)) / 2`: what `cos` makes of a density centred at one frequency."""
    return weights @ (of + mirrored) / 2


class SquaredExponential(Stationary):
    """`k(x, x') = v exp(-sum_d (x_d - x'_d)^2 / (2 l_d^2))`, density `v prod_d sqrt(2 pi) l_d exp(-2 pi^2 l_d^2 w_d^2)`.

    Args:
        variance: `v`, a positive number.
        lengthscale: `l`, a positive number or one for each dimension `(D,)`.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.SquaredExponential(1.0, 0.5)
        >>> round(float(k(0.0 * jnp.ones(1), jnp.ones(1))[0, 0]), 6)
        0.135335
    """

    variance: Float[Array, ""] = parameter("variance", positive, "")
    lengthscale: Float[Array, "..."] = parameter("lengthscale", positive, "", "D")

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """Of a Gaussian of standard deviation `1 / (2 pi l)`."""
        return jnp.broadcast_to(GAUSSIAN_REACH / (2 * jnp.pi * self.lengthscale), (D,))

    def at_lag(self, tau: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """The covariance at a lag."""
        rate = jnp.broadcast_to(1 / self.lengthscale**2, tau.shape[-1:])
        return self.variance * jnp.exp(-0.5 * (tau**2 @ rate))  # a product, whose gradient is one; see `lags`

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """A Gaussian of standard deviation `1 / (2 pi l)`."""
        l = jnp.broadcast_to(self.lengthscale, w.shape[1:])
        return self.variance * normal(w, 1 / (2 * jnp.pi * l) ** 2)


class Matern(Stationary):
    """The Matern kernel with smoothness `nu` in {0.5, 1.5, 2.5}; `r = |(x - x') / l|`.

    `v e^{-r}`, `v (1 + sqrt(3) r) e^{-sqrt(3) r}`, `v (1 + sqrt(5) r + 5 r^2 / 3) e^{-sqrt(5) r}`; density

    `v 2^D pi^{D/2} Gamma(nu + D/2) (2 nu)^nu / Gamma(nu) prod_d l_d (2 nu + 4 pi^2 |l w|^2)^{-(nu + D/2)}`.

    Args:
        nu: 0.5, 1.5 or 2.5 (fixed, not learned).
        variance: `v`, a positive number.
        lengthscale: `l`, a positive number or one for each dimension `(D,)`.

    Example:
        >>> import harmix as hx
        >>> float(hx.kernels.Matern(1.5, 2.0, 0.3).diag([0.7])[0])
        2.0
    """

    nu: float = eqx.field(static=True)
    variance: Float[Array, ""] = parameter("variance", positive, "")
    lengthscale: Float[Array, "..."] = parameter("lengthscale", positive, "", "D")

    def __check_init__(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5, got {self.nu!r}.")

    def at_lag(self, tau: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """The covariance at a lag."""
        squared = 2 * self.nu * jnp.sum((tau / self.lengthscale) ** 2, axis=-1)
        # The square root has no derivative at zero lag, but the kernel has one there: keep zero out of the root.
        away = squared > 0
        r = jnp.where(away, jnp.sqrt(jnp.where(away, squared, 1.0)), 0.0)
        polynomial = {0.5: 1.0 + 0 * r, 1.5: 1 + r, 2.5: 1 + r + squared / 3}[self.nu]
        return self.variance * polynomial * jnp.exp(-r)

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """A Student-t shape, heavy-tailed: `|w|^{-2 nu - D}` far out."""
        D = w.shape[1]
        l = jnp.broadcast_to(self.lengthscale, (D,))
        constant = 2**D * math.pi ** (D / 2) * math.gamma(self.nu + D / 2) * (2 * self.nu) ** self.nu / math.gamma(self.nu)
        base = 2 * self.nu + 4 * jnp.pi**2 * jnp.sum((w * l) ** 2, axis=-1)
        return self.variance * constant * jnp.prod(l) * base ** -(self.nu + D / 2)


class SparseSpectrum(Stationary):
    """`k(x, x') = sum_q a_q cos(2 pi w_q.(x - x'))`: a spectrum of point masses, listed by `atoms`.

    Args:
        weights: `a`, `(Q,)`, not negative.
        frequencies: `w`, `(Q, D)`, cycles per input unit.

    Example:
        >>> import harmix as hx
        >>> hx.kernels.SparseSpectrum([1.0, 0.5], [[1.0], [3.0]]).atoms()[1]
        array([0.5 , 0.25, 0.5 , 0.25])
    """

    weights: Float[Array, " Q"] = parameter("weights", nonnegative, "Q")
    frequencies: Float[Array, "Q D"] = parameter("frequencies", real, "Q D")

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """The highest frequency."""
        return jnp.max(jnp.abs(self.frequencies), axis=0)

    def at_lag(self, tau: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """The covariance at a lag."""
        return cos_sin(tau @ self.frequencies.T)[0] @ self.weights

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """The product of the cosine and sine features: rank 2Q, so no Q arrays of size n1 x n2."""
        (c1, s1), (c2, s2) = cosine_features(X1, self.frequencies), cosine_features(X2, self.frequencies)
        return (c1 * self.weights) @ c2.T + (s1 * self.weights) @ s2.T

    @entry_point
    def atoms(self) -> tuple[Float[Array, "twoQ D"], Float[Array, " twoQ"]]:
        """Where the point masses of the spectrum sit, `(2Q, D)`, and how heavy each is, `(2Q,)`."""
        return (
            jnp.concatenate([self.frequencies, -self.frequencies]),
            jnp.concatenate([self.weights, self.weights]) / 2,
        )

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """Refused: point masses have no density."""
        raise NoClosedFormError(
            f"SparseSpectrum has no density: its spectrum is {2 * len(self.weights)} point masses, a_q / 2 at +w_q and "
            "-w_q (its Wigner distribution the same at every x); k.atoms() lists them. For a picture use "
            "harmix.spectral.numeric, which sees the kernel through a window."
        )


class SpectralMixture(Stationary):
    """`k(x, x') = sum_q a_q exp(-2 pi^2 t' V_q t) cos(2 pi mu_q.t)`, `t = x - x'` (Wilson & Adams, 2013).

    Density: `sum_q a_q (N(w | mu_q, V_q) + N(w | -mu_q, V_q)) / 2`.

    Args:
        weights: `a`, `(Q,)`, not negative.
        frequencies: `mu`, `(Q, D)`, cycles per input unit.
        scales: `(Q, D)`, the standard deviations of each spectral Gaussian; or `(Q, D, D)`, its full covariances `V_q`.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.SpectralMixture([1.0, 0.5], [[1.0], [3.0]], [[0.1], [0.2]])
        >>> hx.spectral.density(k, [0.0, 1.0]).shape
        (2,)
    """

    weights: Float[Array, " Q"] = parameter("weights", nonnegative, "Q")
    frequencies: Float[Array, "Q D"] = parameter("frequencies", real, "Q D")
    scales: Float[Array, "Q D *full"] = parameter("scales", spread, "Q D", "Q D D")

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """Of the outermost Gaussian."""
        scales = self.scales if self.scales.ndim == 2 else jnp.sqrt(jnp.diagonal(self.scales, axis1=1, axis2=2))
        return jnp.max(jnp.abs(self.frequencies) + GAUSSIAN_REACH * scales, axis=0)

    def at_lag(self, tau: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """The covariance at a lag."""
        if self.scales.ndim == 2:
            squared = jnp.sum((tau[..., None, :] * self.scales) ** 2, axis=-1)
        else:
            squared = jnp.einsum("...i,qij,...j->...q", tau, self.scales, tau)
        waves = jnp.exp(-2 * jnp.pi**2 * squared) * cos_sin(tau @ self.frequencies.T)[0]
        return jnp.sum(waves * self.weights, axis=-1)

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """A mixture of Gaussians at `+mu_q` and `-mu_q`."""
        V = self.scales**2 if self.scales.ndim == 2 else self.scales
        plus, minus = jax.vmap(lambda mu, V_q: (normal(w - mu, V_q), normal(w + mu, V_q)))(self.frequencies, V)
        return _both_signs(plus, minus, self.weights)


class SpectralMixtureProduct(Stationary):
    """`k(x, x') = prod_d sum_q a_qd exp(-2 pi^2 s_qd^2 t_d^2) cos(2 pi mu_qd t_d)`: a spectral mixture in each dimension.

    Q^D peaks from Q D parameters. The density is the product of the one-dimensional densities.

    Args:
        weights: `a`, `(Q, D)`, or `(Q,)` when every dimension has the same; not negative.
        frequencies: `mu`, `(Q, D)`, cycles per input unit.
        scales: `s`, `(Q, D)`, standard deviations of the spectral Gaussians.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.SpectralMixtureProduct([1.0], [[1.0, 2.0]], [[0.1, 0.2]])
        >>> k(jnp.zeros((3, 2))).shape
        (3, 3)
    """

    weights: Float[Array, "Q *D"] = parameter("weights", nonnegative, "Q", "Q D")
    frequencies: Float[Array, "Q D"] = parameter("frequencies", real, "Q D")
    scales: Float[Array, "Q D"] = parameter("scales", positive, "Q D")

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """Of the outermost Gaussian in each dimension."""
        return jnp.max(jnp.abs(self.frequencies) + GAUSSIAN_REACH * self.scales, axis=0)

    def _weights(self) -> Float[Array, "Q D"]:
        return self.weights[:, None] * jnp.ones_like(self.scales) if self.weights.ndim == 1 else self.weights

    def at_lag(self, tau: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
        """The covariance at a lag."""
        t = tau[..., None, :]
        waves = jnp.exp(-2 * jnp.pi**2 * (t * self.scales) ** 2) * cos_sin(t * self.frequencies)[0]
        return jnp.prod(jnp.sum(self._weights() * waves, axis=-2), axis=-1)

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The product over dimensions of the one-dimensional densities."""
        peak = lambda v: jnp.exp(-0.5 * (v / self.scales) ** 2) / (jnp.sqrt(2 * jnp.pi) * self.scales)
        v = w[:, None, :]
        sides = (peak(v - self.frequencies) + peak(v + self.frequencies)) / 2
        return jnp.prod(jnp.sum(self._weights() * sides, axis=1), axis=-1)


class StationaryGeneralizedSpectral(Stationary):
    """Theorem 2: `k(x, x') = sum_q a_q h(t o g_q) cos(2 pi mu_q.t)`, `t = x - x'`, `o` elementwise.

    Dense in the stationary kernels for any integrable continuous `h`, and as smooth as `h` (Samo & Roberts, 2015). With
    `real=False`, `exp(2 pi i mu_q.t)` in place of the cosine: a complex process.

    Density: `sum_q a_q (h^((w - mu_q) / g_q) + h^((w + mu_q) / g_q)) / (2 prod_d g_qd)`, `h^` the density of `h`.

    Args:
        base: `h`, a stationary kernel such as `Matern(1.5, 1.0, 1.0)`.
        weights: `a`, `(Q,)`, not negative.
        frequencies: `mu`, `(Q, D)`, cycles per input unit.
        scalings: `g`, `(Q, D)`, positive.
        real: whether the process is real.

    Example:
        >>> import harmix as hx
        >>> h = hx.kernels.Matern(1.5, 1.0, 1.0)
        >>> k = hx.kernels.StationaryGeneralizedSpectral(h, [1.0], [[2.0]], [[0.5]])
        >>> hx.spectral.density(k, [2.0]).shape
        (1,)
    """

    base: Stationary
    weights: Float[Array, " Q"] = parameter("weights", nonnegative, "Q")
    frequencies: Float[Array, "Q D"] = parameter("frequencies", real, "Q D")
    scalings: Float[Array, "Q D"] = parameter("scalings", positive, "Q D")
    real: bool = eqx.field(static=True, default=True, kw_only=True)

    def __check_init__(self) -> None:
        if not isinstance(self.base, Stationary) or not self.base.is_real:
            raise TypeError(f"base must be a real stationary kernel, got {self.base!r}.")
        require_dim("base", self.base, self.frequencies.shape[1])

    @property
    def is_real(self) -> bool:
        """The flag given at construction."""
        return self.real

    def bandwidth(self, D: int) -> Float[Array, " D"] | None:
        """That of the base, stretched and shifted."""
        band = self.base.bandwidth(D)
        return None if band is None else jnp.max(jnp.abs(self.frequencies) + self.scalings * band, axis=0)

    def at_lag(self, tau: Float[Array, "*batch D"]) -> Inexact[Array, "*batch"]:
        """The covariance at a lag."""
        phase = tau @ self.frequencies.T
        waves = cos_sin(phase)[0] if self.real else cis(phase)
        envelope = self.base.at_lag(tau[..., None, :] * self.scalings)
        return jnp.sum(self.weights * envelope * waves, axis=-1)

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The density of `h`, shifted, stretched and added up."""

        def peaks(mu: Array, g: Array) -> tuple[Array, Array]:
            volume = jnp.prod(g)
            plus = self.base.density((w - mu) / g) / volume
            return plus, self.base.density((w + mu) / g) / volume if self.real else plus

        plus, minus = jax.vmap(peaks)(self.frequencies, self.scalings)
        return _both_signs(plus, minus, self.weights)


def require_dim(name: str, kernel: Kernel, input_dim: int) -> None:
    """Refuse a base kernel whose parameters fix another number of dimensions."""
    if kernel.input_dim not in (None, input_dim):
        raise ValueError(f"{name} has {kernel.input_dim} input dimension(s), but frequencies have D = {input_dim}.")

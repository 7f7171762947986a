"""Fourier features through a window, for stationary kernels (Lazaro-Gredilla & Figueiras-Vidal, 2009)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from harmix.features.base import Features, safe_sqrt
from harmix.features.fourier import real_prior, transform_covariance, transform_variance
from harmix.kernels.base import Kernel, Scaled, Sum
from harmix.kernels.component import Component
from harmix.kernels.stationary import SpectralMixture, SquaredExponential
from harmix.linalg import Blocks
from harmix.parameters import parameter, positive, real


class WindowedFourier(Features):
    """`L(w) = int h(x) f(x) exp(-2 pi i w.(x - c)) dx`, `h(x) = exp(-sum_d (x_d - c_d)^2 / (2 width_d^2))`, cosine and sine part.

    For stationary kernels whose spectrum is a mixture of Gaussians: squared exponential, spectral mixture, their sums and
    scalings. They are the Fourier features of the windowed process `h f`, a harmonizable mixture, divided by the window:
    `cov(L(w), f(x)) = cov((h f)^(w), (h f)(x)) / h(x)`.

    Args:
        frequencies: `(M, D)`, cycles per input unit.
        center: `c`, `(D,)`.
        width: standard deviation of the window, `(D,)`.

    Example:
        >>> import harmix as hx
        >>> u = hx.features.WindowedFourier([[0.0], [0.5], [1.0]], [0.0], [2.0])
        >>> hx.features.kuf(u, hx.kernels.SquaredExponential(1.0, 0.3), [0.0, 1.0]).shape
        (6, 2)
    """

    frequencies: Float[Array, "M D"] = parameter("frequencies", real, "M D")
    center: Float[Array, " D"] = parameter("center", real, "D")
    width: Float[Array, " D"] = parameter("width", positive, "D")

    def _windowed(self, kernel: Kernel) -> list[Component]:
        """The windowed process as components: `h(x) = exp(-x' W^-2 x / 4)` with `W^2 = width^2 / 2`, in centred coordinates."""
        sigma1 = 1 / (2 * jnp.pi**2 * self.width**2)
        waves = gaussian_waves(kernel, self.center.shape[0])
        return [
            Component(sigma1 if lag.ndim == 1 else jnp.diag(sigma1), lag, mu[None], jnp.reshape(a, (1, 1)), real=True)
            for a, mu, lag in waves
        ]

    def kuu(self, kernel: Kernel) -> Blocks:
        """The sum over spectral Gaussians; cosines and sines are uncorrelated."""
        return Blocks(jnp.sum(jnp.stack([real_prior(c, self.frequencies) for c in self._windowed(kernel)]), axis=0))

    def kuf(self, kernel: Kernel, X: Float[Array, "n D"]) -> Float[Array, "M n"]:
        """Cosine features, then sine features."""
        x = X - self.center
        rows = [
            jnp.concatenate(transform_covariance(c, self.frequencies, x, divided_by_window=True))
            for c in self._windowed(kernel)
        ]
        return jnp.sum(jnp.stack(rows), axis=0)

    def scale(self, kernel: Kernel, kuu: Blocks) -> Float[Array, " M"]:
        """The standard deviation of the complex coefficient, for cosine and sine alike."""
        variances = [transform_variance(c, self.frequencies) for c in self._windowed(kernel)]
        return jnp.tile(safe_sqrt(jnp.sum(jnp.stack(variances), axis=0)), 2)


def gaussian_waves(kernel: Kernel, D: int) -> list[tuple[Array, Array, Array]]:
    """A stationary kernel as `sum a exp(-2 pi^2 t' V t) cos(2 pi mu.t)`: the list of `(a, mu, V)`."""
    match kernel:
        case SquaredExponential(variance=a, lengthscale=l):
            return [(a, jnp.zeros(D), jnp.broadcast_to(1 / (2 * jnp.pi * l) ** 2, (D,)))]
        case SpectralMixture(weights=a, frequencies=mu, scales=s):
            V = s**2 if s.ndim == 2 else s
            return [(a[q], mu[q], V[q]) for q in range(a.shape[0])]
        case Scaled(factor=factor, kernel=inner):
            return [(factor * a, mu, V) for a, mu, V in gaussian_waves(inner, D)]
        case Sum(kernels=terms):
            return [wave for term in terms for wave in gaussian_waves(term, D)]
    raise TypeError(
        "WindowedFourier needs a stationary kernel whose spectrum is made of Gaussians (SquaredExponential, SpectralMixture, sums "
        f"and scalings of them), got {type(kernel).__name__}; use InducingPoints for any kernel."
    )

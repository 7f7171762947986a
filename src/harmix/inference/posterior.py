"""Conditioning on data: one `Posterior`, whatever inference it came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact

from harmix.arguments import points, positive_number
from harmix.features.base import Basis, Features, make_basis
from harmix.features.points import InducingPoints
from harmix.inference.collapsed import CHUNK, Diagnostics, collapse, require_finite, require_resolved
from harmix.inference.exact import factorise
from harmix.inference.power import Coefficients, Spectrogram, probability, spectrogram_of
from harmix.kernels.base import Kernel
from harmix.linalg import cholesky, dense
from harmix.precision import entry_point, in_float64
from harmix.summary import Summary, as_summary, observations

# Joint samples need the full covariance of the points asked for.
LARGEST_JOINT = 10_000


def positive_count(name: str, value: Any) -> int:
    """A whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return value


class Posterior(eqx.Module):
    """The process given data: `f(x) = A(x)^H u + rest`, `u ~ N(mean_weights, root root^H)`.

    Exact inference is the case in which `A` whitens the observations and u is known.

    Attributes:
        basis: `A`, with the kernel.
        mean_weights: `(M,)`.
        root: `(M, M)`, lower triangular or not; None where u is known without error.
        noise_variance: of the observations, where the likelihood is Gaussian.
    """

    basis: Basis
    mean_weights: Inexact[Array, " M"]
    root: Inexact[Array, "M M"] | None
    noise_variance: Float[Array, ""] | None

    @property
    def kernel(self) -> Kernel:
        """The prior."""
        return self.basis.kernel

    @entry_point
    def mean(self, X: Any) -> Inexact[Array, " n"]:
        """`E[f(x) | y]` at the rows of X, `(n, D)` or `(n,)`; computed in chunks, so X may be long.

        Example:
            >>> import harmix as hx
            >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
            >>> post.mean([0.0, 0.5, 1.0]).shape
            (3,)
        """
        return self._in_chunks(_mean, X)

    @entry_point
    def variance(self, X: Any, *, noise: bool = False) -> Float[Array, " n"]:
        """`Var[f(x) | y]` at the rows of X, in chunks; with `noise=True`, of a new observation there."""
        return self._in_chunks(_variance, X) + (self._noise() if noise else 0.0)

    @entry_point
    def covariance(self, X1: Any, X2: Any = None) -> Inexact[Array, "n1 n2"]:
        """`Cov[f(x), f(x') | y]` between the rows of X1 and X2 (of X1 with itself when X2 is left out)."""
        X1 = points("X1", X1, self.kernel.input_dim)
        return _covariance(self, X1, X1 if X2 is None else points("X2", X2, X1.shape[1]))

    @entry_point
    def sample(self, key: Any, X: Any, n: int = 1, *, noise: bool = False) -> Inexact[Array, "n points"]:
        """n joint samples of `f` at the rows of X; with `noise=True`, of new observations.

        Args:
            key: a `jax.random` key, or an integer seed.
            X: `(points, D)` or `(points,)`, at most 10,000 of them.
            n: how many samples.
            noise: add observation noise.

        Example:
            >>> import harmix as hx
            >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
            >>> post.sample(0, [0.0, 0.5, 1.0], n=5).shape
            (5, 3)
        """
        X = points("X", X, self.kernel.input_dim)
        if X.shape[0] > LARGEST_JOINT:
            raise ValueError(
                f"X has {X.shape[0]} points, and joint samples need their full covariance: give at most {LARGEST_JOINT}, "
                "or use mean and variance, which work in chunks."
            )
        n = positive_count("n", n)
        key = jax.random.key(key) if isinstance(key, int) else key
        samples, jitter = _sample(self, key, X, n, self._noise() if noise else jnp.zeros(()))
        require_finite("Posterior.sample", samples, jitter)
        return samples

    @entry_point
    def spectrogram(self, times: Any, frequencies: Any, width: Any, *, level: float = 0.9) -> Spectrogram:
        """The power `|G|^2` of the windowed Fourier coefficient `G(x, w) = int f(s) h(s - x) exp(-2 pi i w s) ds`, given the data.

        `h(s) = exp(-s^2 / (2 width^2))`, not normalised: a sine of amplitude 1 has the power `pi width^2 / 2`, a stationary
        process of spectral density S about `sqrt(pi) width S(w)`. The credible band is exact, and widens inside gaps.

        Args:
            times: `x`, `(T,)`; the process must have one input dimension.
            frequencies: `w`, `(F,)`, cycles per input unit.
            width: the standard deviation of the window; frequencies are resolved to about `1 / (2 pi width)`.
            level: the probability that the band holds at each time and frequency.

        Returns:
            A `Spectrogram`: arrays `mean`, `lower` and `upper`, `(T, F)`, with `times`, `frequencies` and `level`.

        Example:
            >>> import harmix as hx
            >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
            >>> power = post.spectrogram([0.0, 0.5, 1.0], [0.1, 0.2], 0.5)
            >>> bool((power.lower < power.mean).all() and (power.mean < power.upper).all())
            True
        """
        from harmix.inference import timefrequency  # which needs this module

        level = probability("level", level)
        moments = timefrequency.coefficients(self, times, frequencies, width)
        stacked = Coefficients(*(part[None] for part in moments))
        return spectrogram_of(stacked, [1.0], times, frequencies, level=level)

    @entry_point
    def wigner(self, times: Any, frequencies: Any) -> Float[Array | np.ndarray, "T F"]:
        """The expected Wigner-Ville distribution `int E[f(x + t / 2) conj f(x - t / 2) | y] exp(-2 pi i w t) dt`.

        Args:
            times: `x`, `(T,)`; the process must have one input dimension, and a Wigner distribution under the prior.
            frequencies: `w`, `(F,)`, cycles per input unit.

        Returns:
            `(T, F)` real, not necessarily positive; its integral over all frequencies is `E[|f(x)|^2 | y]`.

        Example:
            >>> import harmix as hx
            >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
            >>> post.wigner([0.0, 0.5, 1.0], [0.1, 0.2]).shape
            (3, 2)
        """
        from harmix.inference import timefrequency

        return jnp.asarray(timefrequency.wigner(self, times, frequencies))

    def update(self, data: Any) -> Posterior:
        """The posterior given further observations, hyperparameters unchanged; the old data are not needed.

        The same as `condition` on all data at once: sums over the data add, `S'^-1 = S^-1 + sum_n v_n A(x_n) A(x_n)^H / s2` (with
        features; an exact posterior grows by the new rows).

        Args:
            data: `(X, y)`, `(X, y, weights)` or a `harmix.Summary`, as for `harmix.condition`.

        Example:
            >>> import harmix as hx
            >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
            >>> post = hx.condition(k, u, 0.1, ([0.0, 0.5], [1.0, 1.5])).update(([1.0], [2.0]))
            >>> both = hx.condition(k, u, 0.1, ([0.0, 0.5, 1.0], [1.0, 1.5, 2.0]))
            >>> bool(abs(post.mean([0.7]) - both.mean([0.7])) < 1e-9)
            True
        """
        from harmix.inference.update import updated  # which needs this module

        return updated(self, data)[0]

    def _noise(self) -> Float[Array, ""]:
        if self.noise_variance is None:
            raise ValueError("noise=True needs a Gaussian likelihood; use likelihood.predict(mean, variance) instead.")
        return self.noise_variance

    def _in_chunks(self, fn: Callable[[Posterior, Array], Array], X: Any) -> Array:
        """`fn` on rows of X, `CHUNK` at a time, padded to few different shapes so that compiled code is used again."""
        X = points("X", X, self.kernel.input_dim)
        n = X.shape[0]
        size = min(CHUNK, 1 << (n - 1).bit_length())
        padded = jnp.concatenate([X, jnp.broadcast_to(X[-1:], (-n % size, X.shape[1]))])
        parts = [fn(self, padded[start : start + size]) for start in range(0, padded.shape[0], size)]
        return jnp.concatenate(parts)[:n]


@eqx.filter_jit
def _mean(posterior: Posterior, X: Array) -> Array:
    return jnp.conj(posterior.basis.project(X)).T @ posterior.mean_weights


@eqx.filter_jit
def _variance(posterior: Posterior, X: Array) -> Array:
    A = posterior.basis.project(X)
    variance = posterior.kernel.diagonal(X) - jnp.sum(jnp.abs(A) ** 2, axis=0)
    if posterior.root is not None:
        variance = variance + jnp.sum(jnp.abs(jnp.conj(posterior.root).T @ A) ** 2, axis=0)
    return jnp.maximum(variance, 0.0)  # a difference of nearly equal numbers where the data say almost everything


@eqx.filter_jit
def _covariance(posterior: Posterior, X1: Array, X2: Array) -> Array:
    A1, A2 = posterior.basis.project(X1), posterior.basis.project(X2)
    covariance = posterior.kernel.gram(X1, X2) - jnp.conj(A1).T @ A2
    if posterior.root is not None:
        R1, R2 = (jnp.conj(posterior.root).T @ A for A in (A1, A2))
        covariance = covariance + jnp.conj(R1).T @ R2
    return covariance


@eqx.filter_jit
def _sample(posterior: Posterior, key: Array, X: Array, n: int, noise: Array) -> tuple[Array, Array]:
    mean = _mean(posterior, X)
    factor = cholesky(dense(_covariance(posterior, X, X) + noise * jnp.eye(X.shape[0])))
    white = jax.random.normal(key, (X.shape[0], n), dtype=factor.lower.dtype)  # complex normals have unit variance
    return mean + (factor.lower[0] @ white).T, factor.jitter


@eqx.filter_jit
def _condition_sparse(
    kernel: Kernel, features: Features, noise_variance: Array, summary: Summary
) -> tuple[Posterior, Diagnostics]:
    basis = make_basis(kernel, features)
    result = collapse(basis, noise_variance, summary)
    root = jnp.conj(result.factor.inverse[0]).T
    return Posterior(basis, result.mean, root, noise_variance), result.diagnostics


@eqx.filter_jit
def _condition_exact(kernel: Kernel, noise_variance: Array, X: Array, y: Array, v: Array) -> Posterior:
    factor = factorise(kernel, noise_variance, X, v)
    basis = Basis(kernel, InducingPoints(X), jnp.ones(X.shape[0]), factor)
    return Posterior(basis, factor.solve_lower(y), None, noise_variance)


@in_float64
def condition(kernel: Kernel, features: Features | None, noise_variance: Any, data: Any) -> Posterior:
    """The posterior of `f` under Gaussian noise.

    Args:
        kernel: the prior.
        features: inducing features: the posterior of the collapsed bound. None: exact inference, cubic in the number of data.
        noise_variance: positive.
        data: `(X, y)`, `(X, y, weights)`, or a `harmix.Summary` (with features only).

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> hx.condition(k, u, 0.1, ([0.0, 0.5, 1.0], [1.0, 1.5, 2.0])).variance([0.0, 5.0]).shape
        (2,)
    """
    noise_variance = positive_number("noise_variance", noise_variance)
    if features is None:
        if not isinstance(data, tuple) or len(data) not in (2, 3):
            raise TypeError(f"exact inference needs data as (X, y) or (X, y, weights), got {type(data).__name__}.")
        X, y, v = observations(*data)
        points("X", X, kernel.input_dim)
        posterior = _condition_exact(kernel, noise_variance, X, y, v)
    else:
        summary = as_summary(data)
        points("the nodes of the data", summary.nodes, kernel.input_dim)
        posterior, diagnostics = _condition_sparse(kernel, features, noise_variance, summary)
        posterior = require_resolved(summary, posterior, diagnostics)
    require_finite("condition", posterior.mean_weights, posterior.basis.jitter)
    return posterior

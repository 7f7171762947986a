"""The stochastic variational bound: any likelihood, minibatches, dense or block-diagonal q(u) (MATH.md section 5)."""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from harmix.arguments import points
from harmix.features.base import Basis, Features, as_blocks, make_basis
from harmix.inference.collapsed import require_finite
from harmix.inference.posterior import Posterior
from harmix.kernels.base import Kernel
from harmix.likelihoods import Gaussian, Likelihood
from harmix.precision import entry_point, in_float64
from harmix.summary import observations


class VariationalGaussian(eqx.Module):
    """`q(u) = N(mean, R R^H)` over whitened features, real or circular complex; it starts at the prior, `N(0, I)`.

    Args:
        features: the inducing features.
        kernel: the prior; complex kernels have complex q.
        n_latent: how many independent processes a likelihood needs (classes of a softmax).
        structure: "dense", or "block": q factorises over the blocks of Kuu (components).

    Attributes:
        mean: `(C, M)`.
        root: `R`, `(C, B, m, m)`, lower triangular (what lies above the diagonal is not looked at); B = 1 for a dense q.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> hx.VariationalGaussian(u, k).mean.shape
        (1, 2)
    """

    mean: Inexact[Array, "C M"]
    root: Inexact[Array, "C B m m"]

    @in_float64
    def __init__(
        self,
        features: Features,
        kernel: Kernel,
        *,
        n_latent: int = 1,
        structure: Literal["dense", "block"] = "dense",
    ):
        if structure not in ("dense", "block"):
            raise ValueError(f'structure must be "dense" or "block", got {structure!r}.')
        if not isinstance(n_latent, int) or n_latent < 1:
            raise ValueError(f"n_latent must be a positive integer, got {n_latent!r}.")
        prior = jax.eval_shape(lambda: as_blocks(features.kuu(kernel)).blocks)
        B, m = prior.shape[:2] if structure == "block" else (1, prior.shape[0] * prior.shape[1])
        self.mean = jnp.zeros((n_latent, B * m), prior.dtype)
        self.root = jnp.broadcast_to(jnp.eye(m, dtype=prior.dtype), (n_latent, B, m, m))

    @property
    def is_complex(self) -> bool:
        """Whether u is complex."""
        return jnp.iscomplexobj(self.mean)

    @property
    def lower(self) -> Inexact[Array, "C B m m"]:
        """`R` without what an optimiser may have left above the diagonal."""
        return jnp.tril(self.root)

    @entry_point
    def dense_root(self, latent: int = 0) -> Inexact[Array, "M M"]:
        """R of one latent process as a full matrix."""
        return jax.scipy.linalg.block_diag(*self.lower[latent])


def marginals(
    basis: Basis, q: VariationalGaussian, X: Float[Array, "n D"]
) -> tuple[Inexact[Array, "n C"], Float[Array, "n C"], Inexact[Array, "M n"]]:
    """Mean and variance of `f(x)` under q, and `A(x)`."""
    A = basis.project(X)
    mean = jnp.conj(A).T @ q.mean.T
    root = q.lower
    blocks = A.reshape(*root.shape[1:3], -1)
    explained = jnp.sum(jnp.abs(A) ** 2, axis=0)
    spread = jnp.sum(jnp.abs(jnp.einsum("cbji,bjn->cbin", jnp.conj(root), blocks)) ** 2, axis=(1, 2))
    rest = jnp.maximum(basis.kernel.diagonal(X) - explained, 0.0)  # not negative but for rounding
    return mean, (rest + spread).T, A


def expected_log_likelihood(
    likelihood: Likelihood, y: Array, mean: Inexact[Array, "n C"], variance: Float[Array, "n C"]
) -> Float[Array, " n"]:
    """`E_q log p(y_n | f_n)`; single-latent likelihoods take `(n,)` arrays."""
    if likelihood.n_latent == 1:
        mean, variance = mean[:, 0], variance[:, 0]
    return likelihood.expected_log_prob(y, mean, variance)


def kl_divergence(q: VariationalGaussian) -> Float[Array, ""]:
    """`KL[q || N(0, I)] = h (tr S + |m|^2 - M - log|S|)`, h = 1/2 for real and 1 for circular complex Gaussians."""
    root = q.lower
    diagonal = jnp.abs(jnp.diagonal(root, axis1=-2, axis2=-1))
    total = jnp.sum(jnp.abs(root) ** 2) + jnp.sum(jnp.abs(q.mean) ** 2) - q.mean.size - 2 * jnp.sum(jnp.log(diagonal))
    return total if q.is_complex else total / 2


def bound(
    kernel: Kernel, features: Features, likelihood: Likelihood, q: VariationalGaussian, X: Array, y: Array, n_total: Any
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The bound on trusted arguments, and the jitter it needed."""
    basis = make_basis(kernel, features)
    mean, variance, _ = marginals(basis, q, X)
    data = jnp.sum(expected_log_likelihood(likelihood, y, mean, variance))
    return data * (n_total / X.shape[0]) - kl_divergence(q), basis.jitter


_bound = eqx.filter_jit(bound)


@entry_point
def elbo(
    kernel: Kernel,
    features: Features,
    likelihood: Likelihood,
    q: VariationalGaussian,
    X: Any,
    y: Any,
    *,
    n_total: int | None = None,
) -> Float[Array, ""]:
    """`sum_n E_q[log p(y_n | f_n)] - KL[q(u) || p(u)]`, a lower bound on the log evidence.

    Args:
        kernel: the prior.
        features: inducing features.
        likelihood: one of `harmix.likelihoods`.
        q: the variational distribution of the whitened features.
        X: `(n, D)` or `(n,)`; the data, or a minibatch of them.
        y: `(n,)`, as the likelihood takes them.
        n_total: how many data a minibatch stands for; its expectation over minibatches is then the bound.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> q = hx.VariationalGaussian(u, k)
        >>> bool(hx.elbo(k, u, hx.likelihoods.Gaussian(0.1), q, [0.0, 1.0], [0.1, 0.2]) < 0)
        True
    """
    X, y = checked_data(kernel, likelihood, q, X, y)
    value, jitter = _bound(kernel, features, likelihood, q, X, y, batch_total(n_total, X.shape[0]))
    require_finite("elbo", value, jitter)
    return value


def checked_data(
    kernel: Kernel, likelihood: Likelihood, q: VariationalGaussian, X: Any, y: Any
) -> tuple[Float[Array, "n D"], Array]:
    """What the public entry points of stochastic inference require of their arguments."""
    X, y, _ = observations(X, y)
    points("X", X, kernel.input_dim)
    likelihood.validate(y)
    if q.mean.shape[0] != likelihood.n_latent:
        raise ValueError(
            f"q has {q.mean.shape[0]} latent process(es), but {type(likelihood).__name__} needs {likelihood.n_latent}: make it "
            f"with VariationalGaussian(features, kernel, n_latent={likelihood.n_latent})."
        )
    if not kernel.is_real and not isinstance(likelihood, Gaussian):
        raise TypeError(f"a complex kernel needs a Gaussian likelihood, got {type(likelihood).__name__}.")
    return X, y


def batch_total(n_total: Any, n: int) -> float:
    """How many data a batch of n stands for: itself, unless told otherwise."""
    if n_total is None:
        return float(n)
    if isinstance(n_total, bool) or not isinstance(n_total, int | float) or n_total < n:
        raise ValueError(f"n_total must be a number of data not below the {n} in this batch, got {n_total!r}.")
    return float(n_total)


@eqx.filter_jit
def _posterior(kernel: Kernel, features: Features, q: VariationalGaussian, latent: int, noise: Array | None) -> Posterior:
    return Posterior(make_basis(kernel, features), q.mean[latent], q.dense_root(latent), noise)


@in_float64
def posterior(
    kernel: Kernel, features: Features, q: VariationalGaussian, likelihood: Likelihood | None = None, *, latent: int = 0
) -> Posterior:
    """The posterior of `f` that a variational q(u) stands for.

    Args:
        kernel: the prior.
        features: inducing features.
        q: the variational distribution.
        likelihood: a Gaussian one lets the posterior predict noisy observations; others are not needed here.
        latent: which of several independent processes.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> hx.posterior(k, u, hx.VariationalGaussian(u, k)).mean([0.5]).shape
        (1,)
    """
    noise = likelihood.variance if isinstance(likelihood, Gaussian) else None
    result = _posterior(kernel, features, q, latent, noise)
    require_finite("posterior", result.mean_weights, result.basis.jitter)
    return result

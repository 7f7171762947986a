"""What an inducing feature is: two functions, `kuu` and `kuf`. Everything that infers is built on these."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from harmix.arguments import points
from harmix.kernels.base import Kernel
from harmix.linalg import Blocks, Cholesky, blockwise, cholesky, dense
from harmix.parameters import check_shapes
from harmix.precision import entry_point, in_float64

# Features whose prior variance is below this are treated as having none (squares of it must not underflow).
_NO_VARIANCE = 1e-250


class Features(eqx.Module):
    """Inducing variables `u`: linear functionals of the process `f`, given by their covariances.

    To add a feature, subclass and write `kuu` and `kuf`; it then works in every bound, in natural gradients and in
    prediction. `kuu` may return a plain `(M, M)` matrix, or `harmix.linalg.Blocks` when it knows its structure.

    Example:
        >>> import harmix as hx, jax.numpy as jnp
        >>> class Sums(hx.features.Features):  # u_m = f(z_m) + f(z_m + 1)
        ...     z: jnp.ndarray
        ...     def kuf(self, kernel, X):
        ...         return kernel.gram(self.z, X) + kernel.gram(self.z + 1, X)
        ...     def kuu(self, kernel):
        ...         return self.kuf(kernel, self.z) + self.kuf(kernel, self.z + 1)
    """

    def __check_init__(self) -> None:
        check_shapes(self)

    @abc.abstractmethod
    def kuu(self, kernel: Kernel) -> Blocks | Inexact[Array, "M M"]:
        """`cov(u, u)`."""

    @abc.abstractmethod
    def kuf(self, kernel: Kernel, X: Float[Array, "n D"]) -> Inexact[Array, "M n"]:
        """`cov(u, f(x))` for every row of X."""

    def scale(self, kernel: Kernel, kuu: Blocks) -> Float[Array, " M"]:
        """The natural standard deviation of each feature: what it is divided by before factorising, and what jitter is
        relative to. By default its prior standard deviation.
        """
        return safe_sqrt(kuu.diagonal())


def safe_sqrt(variance: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A square root that features may be divided by, with a zero derivative where there is no variance."""
    return jnp.sqrt(jnp.maximum(variance, _NO_VARIANCE))


class Basis(eqx.Module):
    """Features made orthonormal under the prior: `A(x) = L^-1 cov(u, f(x))`, so that `Q(x, x') = A(x)^H A(x')`.

    Attributes:
        kernel: the prior.
        features: what is orthonormalised.
        inverse_scale: what brings each feature to unit scale, `(M,)`.
        factor: the Cholesky factor, with the jitter it needed.
    """

    kernel: Kernel
    features: Features
    inverse_scale: Float[Array, " M"]
    factor: Cholesky

    @property
    def size(self) -> int:
        """M."""
        return self.factor.size

    @property
    def jitter(self) -> Float[Array, ""]:
        """What was added to the prior covariance of the unit-scaled features."""
        return self.factor.jitter

    @property
    def whitening(self) -> Inexact[Array, "B m m"]:
        """What makes `A(x)` of `cov(u, f(x))`: `L^-1`, with the scales in it, blockwise."""
        return self.factor.inverse * self.inverse_scale.reshape(self.factor.inverse.shape[0], 1, -1)

    @property
    def coloring(self) -> Inexact[Array, "B m m"]:
        """The inverse of `whitening`."""
        return self.factor.lower / self.inverse_scale.reshape(self.factor.lower.shape[0], -1, 1)

    def project(self, X: Float[Array, "n D"]) -> Inexact[Array, "M n"]:
        """`A(x)` for every row of X."""
        return blockwise(self.whitening, self.features.kuf(self.kernel, X))


def make_basis(kernel: Kernel, features: Features) -> Basis:
    """Scales and factorises the prior covariance of the features, block by block."""
    prior = as_blocks(features.kuu(kernel))
    inverse_scale = 1 / features.scale(kernel, prior)
    factor = cholesky(prior.scaled(inverse_scale), unit=1.0)
    return Basis(kernel, features, inverse_scale, factor)


def as_blocks(kuu: Blocks | Array) -> Blocks:
    """A plain matrix as one block."""
    return kuu if isinstance(kuu, Blocks) else dense(kuu)


def _checked(features: Any, kernel: Any) -> None:
    if not isinstance(features, Features):
        raise TypeError(f"features must be made of harmix.features.Features, got {features!r}.")
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel must be a harmix kernel, got {kernel!r}.")


@in_float64
def kuu(features: Features, kernel: Kernel) -> Blocks:
    """Prior covariance of the inducing variables, with its structure; `.to_dense()` is the `(M, M)` matrix.

    Example:
        >>> import harmix as hx
        >>> u = hx.features.InducingPoints([[0.0], [1.0]])
        >>> hx.features.kuu(u, hx.kernels.SquaredExponential(1.0, 1.0)).to_dense().shape
        (2, 2)
    """
    _checked(features, kernel)
    return _kuu(features, kernel)


@entry_point
def kuf(features: Features, kernel: Kernel, X: Any) -> Inexact[Array, "M n"]:
    """Covariance `(M, n)` of the inducing variables with the process at the rows of X, `(n, D)` or `(n,)`.

    Example:
        >>> import harmix as hx
        >>> u = hx.features.InducingPoints([[0.0], [1.0]])
        >>> hx.features.kuf(u, hx.kernels.SquaredExponential(1.0, 1.0), [0.0, 0.5, 2.0]).shape
        (2, 3)
    """
    _checked(features, kernel)
    return _kuf(features, kernel, points("X", X, kernel.input_dim))


@eqx.filter_jit
def _kuu(features: Features, kernel: Kernel) -> Blocks:
    return as_blocks(features.kuu(kernel))


@eqx.filter_jit
def _kuf(features: Features, kernel: Kernel, X: Array) -> Array:
    return features.kuf(kernel, X)

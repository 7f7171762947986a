"""What every kernel is: a covariance function that knows its spectrum, and sums, products and scalings of them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from harmix.arguments import points
from harmix.linalg import lags
from harmix.parameters import check_shapes, nonnegative, parameter
from harmix.precision import entry_point

# Where a product of two Gaussian spectra has fallen to 1e-9: sqrt(2 log 1e9) deviations of sqrt(2) s, halved between them.
GAUSSIAN_REACH = 4.6


class NoClosedFormError(TypeError):
    """A spectrum was asked for that this kernel does not have in closed form, or not as a density."""


class Kernel(eqx.Module):
    """A positive semidefinite covariance function, an immutable pytree of its parameters.

    Call it: `k(X1, X2)` is the `(n1, n2)` covariance, `k(X)` the `(n, n)` one, `k.diag(X)` its diagonal; `X` is `(n, D)`
    or, in one dimension, `(n,)`. Kernels combine: `k1 + k2`, `k1 * k2`, `2.0 * k`.

    To write one, subclass and give `gram` and `diagonal`, or subclass `Pointwise` (a function of two points) or
    `Stationary` (a function of the lag); add whichever spectra it has in closed form. Inside these methods arrays are
    float64 and of shape `(n, D)`: the entry points have seen to it.
    """

    # Lets `numpy_scalar * kernel` reach __rmul__ instead of making an object array.
    __array_ufunc__: ClassVar[None] = None

    def __check_init__(self) -> None:
        check_shapes(self)

    # --- what a kernel author writes -------------------------------------------------------------------------------

    @abc.abstractmethod
    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The matrix of covariances between two sets of points."""

    @abc.abstractmethod
    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The variances `k(x, x)`."""

    @property
    def input_dim(self) -> int | None:
        """D where the parameters fix it, None where any D will do."""
        return check_shapes(self).get("D")

    @property
    def is_real(self) -> bool:
        """Whether the process is real (a complex kernel is Hermitian: `k(x', x) = conj k(x, x')`)."""
        return True

    def bandwidth(self, D: int) -> Float[Array, " D"] | None:
        """How far the spectrum of `x -> k(z, x)` reaches in each dimension, in cycles; None where nobody says.

        Compressed data are made for a band (`harmix.summarize`), and only kernels that state theirs can be used with them.
        A Gaussian of standard deviation s reaches `GAUSSIAN_REACH * s`.
        """
        return None

    def check_points(self, X: Float[Array, "n D"]) -> None:
        """Refuses points where the kernel does not exist; for kernels that do not exist everywhere."""

    def check_generalized_density(self) -> None:
        """Refuses where `generalized_density` exists for some values of the parameters but not for these."""

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """Spectral density of a stationary kernel; see `harmix.spectral.density`."""
        raise NoClosedFormError(
            f"{type(self).__name__} has no spectral density in closed form; a spectral density belongs to stationary "
            "kernels. Try harmix.spectral.wigner, or harmix.spectral.numeric."
        )

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """Generalised spectral density; see `harmix.spectral.generalized_density`."""
        raise NoClosedFormError(
            f"{type(self).__name__} has no generalised spectral density in closed form; "
            "use harmix.spectral.numeric.generalized_density(k, w, xi, domain=(lo, hi))."
        )

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """Wigner distribution; see `harmix.spectral.wigner`."""
        raise NoClosedFormError(
            f"{type(self).__name__} has no Wigner distribution in closed form; "
            "use harmix.spectral.numeric.wigner(k, x, w, domain=(lo, hi))."
        )

    # --- what everybody calls --------------------------------------------------------------------------------------

    @entry_point
    def __call__(self, X1: Any, X2: Any = None) -> Inexact[Array, "n1 n2"]:
        """Covariances `(n1, n2)` between the rows of `X1` and `X2` (of `X1` with itself when `X2` is left out).

        Example:
            >>> import harmix as hx
            >>> hx.kernels.SquaredExponential(2.0, 0.5)([0.0, 1.0]).shape
            (2, 2)
        """
        first = points("X1", X1, self.input_dim)
        second = first if X2 is None else points("X2", X2, first.shape[1])
        for part in parts(self):
            part.check_points(first)
            part.check_points(second)
        return _gram(self, first, second)

    @entry_point
    def diag(self, X: Any) -> Float[Array, " n"]:
        """Variances `(n,)` at the rows of `X`."""
        X = points("X", X, self.input_dim)
        for part in parts(self):
            part.check_points(X)
        return _diagonal(self, X)

    def __add__(self, other: Kernel) -> Sum:
        return Sum((self, other)) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        return Product((self, other)) if isinstance(other, Kernel) else Scaled(other, self)

    def __rmul__(self, other: Any) -> Kernel:
        return Scaled(other, self)


def parts(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel itself and every kernel that it is made of."""
    yield kernel
    fields = [getattr(kernel, field.name) for field in dataclasses.fields(kernel)]
    for inner in jax.tree.leaves(fields, is_leaf=lambda node: isinstance(node, Kernel)):
        if isinstance(inner, Kernel):
            yield from parts(inner)


@eqx.filter_jit
def _gram(kernel: Kernel, X1: Array, X2: Array) -> Array:
    return kernel.gram(X1, X2)


@eqx.filter_jit
def _diagonal(kernel: Kernel, X: Array) -> Array:
    return kernel.diagonal(X)


class Pointwise(Kernel):
    """A kernel written as a function of two points; the base class vectorises it."""

    @abc.abstractmethod
    def evaluate(self, x1: Float[Array, " D"], x2: Float[Array, " D"]) -> Inexact[Array, ""]:
        """The covariance of two points."""

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """All pairs by `vmap`."""
        return jax.vmap(lambda x1: jax.vmap(lambda x2: self.evaluate(x1, x2))(X2))(X1)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """Each point with itself."""
        return jnp.real(jax.vmap(lambda x: self.evaluate(x, x))(X))


class Stationary(Kernel):
    """A kernel of the lag alone, `k(x, x') = h(x - x')`.

    Its Wigner distribution is the spectral density at every x. It has no generalised spectral density: the mass lies on
    the diagonal `w = xi`.
    """

    @abc.abstractmethod
    def at_lag(self, tau: Float[Array, "*batch D"]) -> Inexact[Array, "*batch"]:
        """The covariance at the lags `tau = x - x'`."""

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """`h(x - x')` over all pairs."""
        return self.at_lag(lags(X1, X2))

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The constant `h(0)`."""
        return jnp.broadcast_to(jnp.real(self.at_lag(jnp.zeros(X.shape[1]))), X.shape[:1])

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """Refused: a stationary kernel has no density in the plane of `w` and `xi`."""
        raise NoClosedFormError(
            f"{type(self).__name__} is stationary: its generalised spectral measure lies on the diagonal w = xi and has "
            "no density in the plane. Use harmix.spectral.density(k, w) or harmix.spectral.wigner(k, x, w); for the "
            "kernel seen through a window use harmix.spectral.numeric.generalized_density."
        )

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The spectral density, the same at every x."""
        return jnp.broadcast_to(self.density(w), (x.shape[0], w.shape[0]))


def is_stationary(kernel: Kernel) -> bool:
    """Whether the kernel depends on the lag alone (sums, products and scalings are looked into)."""
    match kernel:
        case Scaled(kernel=inner):
            return is_stationary(inner)
        case Sum(kernels=terms) | Product(kernels=terms):
            return all(map(is_stationary, terms))
    return isinstance(kernel, Stationary)


class Sum(Kernel):
    """`k1 + k2 + ...`, the covariance of independent processes added up; spectra add too."""

    kernels: tuple[Kernel, ...]

    def __init__(self, kernels: tuple[Kernel, ...]):
        self.kernels = sum((k.kernels if isinstance(k, Sum) else (k,) for k in kernels), ())

    def __check_init__(self) -> None:
        _require_kernels(*self.kernels)
        common_input_dim(self.kernels)

    @property
    def input_dim(self) -> int | None:
        """D where a term fixes it."""
        return common_input_dim(self.kernels)

    @property
    def is_real(self) -> bool:
        """Whether every term is real."""
        return all(k.is_real for k in self.kernels)

    def bandwidth(self, D: int) -> Float[Array, " D"] | None:
        """The widest of the terms."""
        bands = _bandwidths(self.kernels, D)
        return None if bands is None else jnp.max(bands, axis=0)

    def _add(self, of: Callable[[Kernel], Array]) -> Array:
        total = of(self.kernels[0])
        for kernel in self.kernels[1:]:
            total = total + of(kernel)
        return total

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The sum of the Gram matrices."""
        return self._add(lambda k: k.gram(X1, X2))

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The sum of the variances."""
        return self._add(lambda k: k.diagonal(X))

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The sum of the densities."""
        return self._add(lambda k: k.density(w))

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """The sum of the generalised densities."""
        return self._add(lambda k: k.generalized_density(w, xi))

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The sum of the Wigner distributions."""
        return self._add(lambda k: k.wigner(x, w))


class Product(Kernel):
    """`k1 * k2 * ...`, elementwise. Its spectra are convolutions, in closed form for none: use `spectral.numeric`."""

    kernels: tuple[Kernel, ...]

    def __init__(self, kernels: tuple[Kernel, ...]):
        self.kernels = sum((k.kernels if isinstance(k, Product) else (k,) for k in kernels), ())

    def __check_init__(self) -> None:
        _require_kernels(*self.kernels)
        common_input_dim(self.kernels)

    @property
    def input_dim(self) -> int | None:
        """D where a factor fixes it."""
        return common_input_dim(self.kernels)

    @property
    def is_real(self) -> bool:
        """Whether every factor is real."""
        return all(k.is_real for k in self.kernels)

    def bandwidth(self, D: int) -> Float[Array, " D"] | None:
        """Spectra of products are convolutions: bands add."""
        bands = _bandwidths(self.kernels, D)
        return None if bands is None else jnp.sum(bands, axis=0)

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The elementwise product of the Gram matrices (positive semidefinite by Schur)."""
        result = self.kernels[0].gram(X1, X2)
        for kernel in self.kernels[1:]:
            result = result * kernel.gram(X1, X2)
        return result

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The product of the variances."""
        result = self.kernels[0].diagonal(X)
        for kernel in self.kernels[1:]:
            result = result * kernel.diagonal(X)
        return result


class Scaled(Kernel):
    """`factor * k` with a factor that is not negative."""

    factor: Float[Array, ""] = parameter("factor", nonnegative, "")
    kernel: Kernel  # type: ignore[misc]  # Equinox fields with a converter have no default, which mypy does not see

    def __check_init__(self) -> None:
        _require_kernels(self.kernel)

    @property
    def input_dim(self) -> int | None:
        """D of the scaled kernel."""
        return self.kernel.input_dim

    @property
    def is_real(self) -> bool:
        """As the scaled kernel."""
        return self.kernel.is_real

    def bandwidth(self, D: int) -> Float[Array, " D"] | None:
        """As the scaled kernel."""
        return self.kernel.bandwidth(D)

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The scaled Gram matrix."""
        return self.factor * self.kernel.gram(X1, X2)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The scaled variances."""
        return self.factor * self.kernel.diagonal(X)

    def density(self, w: Float[Array, "m D"]) -> Float[Array, " m"]:
        """The scaled density."""
        return self.factor * self.kernel.density(w)

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """The scaled generalised density."""
        return self.factor * self.kernel.generalized_density(w, xi)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """The scaled Wigner distribution."""
        return self.factor * self.kernel.wigner(x, w)


def _require_kernels(*kernels: Any) -> None:
    if not kernels:
        raise ValueError("kernels is empty; give at least one.")
    for kernel in kernels:
        if not isinstance(kernel, Kernel):
            raise TypeError(f"only kernels can be combined, got {kernel!r}.")


def _bandwidths(kernels: tuple[Kernel, ...], D: int) -> Float[Array, "k D"] | None:
    """Of several kernels; None where one does not say."""
    bands = [b for k in kernels if (b := k.bandwidth(D)) is not None]
    return jnp.stack(bands) if len(bands) == len(kernels) else None


def common_input_dim(kernels: tuple[Kernel, ...]) -> int | None:
    """The D that several kernels agree on; None when none of them fixes it; ValueError when they differ."""
    dims = {k.input_dim for k in kernels} - {None}
    if len(dims) > 1:
        raise ValueError(f"kernels of different input dimensions cannot be combined: {sorted(dims)}.")  # type: ignore[type-var]
    return next(iter(dims), None)

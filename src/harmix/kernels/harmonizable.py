"""Locally stationary Gaussian kernels and harmonizable mixtures of them, with every spectrum in closed form.

The mathematics is that of one `Component` in its own centred coordinates (`harmix.kernels.component`); a mixture shifts and
adds components.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact

from harmix.arguments import is_concrete, numeric_array, show
from harmix.kernels.base import Kernel, NoClosedFormError
from harmix.kernels.component import Component
from harmix.linalg import inverse, lags, scale_both_sides
from harmix.parameters import ROUNDING, hermitian, nonnegative_or_psd, parameter, real, spread
from harmix.precision import in_float64
from harmix.waves import cis

# A Sigma1 or 4 Sigma2 - Sigma1 that vanishes in some direction is a window or lengthscale without end there; one that is
# 1e7 times the other scale is the same to rounding and keeps every quantity finite. In full matrices that leave only
# some directions without end it must be 1e4 times: they are inverted, and that amplifies rounding by the ratio squared.
_ENDLESS, _ENDLESS_DIRECTION = 1e-14, 1e-8


class LocallyStationaryGaussian(Kernel):
    """`k(x, x') = exp(-2 pi^2 c' Sigma1 c) exp(-2 pi^2 t' Sigma2 t)`, `c = (x + x') / 2`, `t = x - x'`.

    Positive semidefinite if and only if `0 <= Sigma1 <= 4 Sigma2`; anything else is refused. `Sigma1 = 0` is stationary.

    Args:
        sigma1: a number, `(D,)` or `(D, D)`; how fast the variance falls away from the origin (cycles^2).
        sigma2: likewise; the width of the spectrum (cycles^2).

    Example:
        >>> import harmix as hx
        >>> hx.kernels.LocallyStationaryGaussian(0.1, 0.3)([0.0, 1.0]).shape
        (2, 2)
    """

    sigma1: Float[Array, "..."] = parameter("sigma1", nonnegative_or_psd, "", "D", "D D")
    lag: Float[Array, "..."] = parameter("lag", nonnegative_or_psd, "", "D", "D D")

    @in_float64
    def __init__(self, sigma1: Any, sigma2: Any):
        self.sigma1, self.lag = _split("sigma1", sigma1, "sigma2", sigma2)

    @property
    @in_float64
    def sigma2(self) -> Float[Array, "..."]:
        """`Sigma2 = Sigma1 / 4 + C`; the field that is kept is `lag`, C."""
        return self.sigma1 / 4 + self.lag

    def check_generalized_density(self) -> None:
        """Refuses a window without end: then the kernel does not fall off along x = x' (in some direction)."""
        if not (is_concrete(self.sigma1) and is_concrete(self.lag)):
            return
        if np.min(_eigenvalues(self.sigma1, np.sqrt(_diagonal(self.sigma2)))) <= _ENDLESS:
            raise NoClosedFormError(
                f"LocallyStationaryGaussian with sigma1 = {show(self.sigma1)} does not fall off in every direction: "
                "there its generalised spectral measure lies on the diagonal w = xi and has no density in the plane. "
                "Use harmix.spectral.wigner, or harmix.spectral.numeric, which sees the kernel through a window."
            )

    def _component(self, D: int) -> Component:
        widen = lambda V: jnp.broadcast_to(V, (D,)) if V.ndim == 0 else V
        return Component(widen(self.sigma1), widen(self.lag), jnp.zeros((1, D)), jnp.ones((1, 1)), real=True)

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """Of the only component."""
        return self._component(D).bandwidth()

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """The covariance matrix."""
        return self._component(X1.shape[1]).gram(X1, X2)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`exp(-2 pi^2 x' Sigma1 x)`."""
        return self._component(X.shape[1]).diagonal(X)

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """`N((w + xi) / 2 | 0, Sigma2) N(w - xi | 0, Sigma1)`."""
        return self._component(w.shape[1]).generalized_density(w, xi)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """`N(w | 0, Sigma2) exp(-2 pi^2 x' Sigma1 x)`."""
        return self._component(w.shape[1]).wigner(x, w)


class HarmonizableMixture(Kernel):
    """The harmonizable mixture kernel (HMK): P windows in time or space, each with its own coupled frequencies.

    `k(x, x') = sum_p E_p(x - x_p) E_p(x' - x_p) exp(-t' l_p^-2 t / 2) sum_ij b_pij exp(2 pi i (phi_pi(x - x_p) - phi_pj(x' - x_p)))`,

    `E_p(x) = exp(-x' W_p^-2 x / 4)`, `t = x - x'`, `phi_pi(x) = mu_pi.x`; for a real process the real part. The variance envelope
    of component p has the standard deviation `W_p`; `W -> inf` is a stationary spectral mixture. With `rates` the frequencies of a
    window change along it, `phi_pi(x) = mu_pi.x + x' diag(r_p) x / 2`: a chirp.

    Args:
        centers: `x_p`, `(P, D)`.
        windows: `W_p`, `(P, D)`; or `(P, D, D)`, the covariance matrices `W_p^2` of the variance envelopes.
        lengthscales: `l_p`, `(P, D)`; or `(P, D, D)`, the squared lengthscales `l_p^2` as matrices.
        frequencies: `mu_pi`, `(P, Q, D)`, cycles per input unit.
        weights: `B_p`, `(P, Q, Q)`, real symmetric or Hermitian, positive semidefinite.
        real: a real process (default) or a complex one.
        rates: `r_p`, `(P, D)`, cycles per input unit squared: how fast the frequencies change along each axis. None (default): they
            do not.

    Every argument but `centers` may have size 1 in place of P: shared by all components.

    Example:
        >>> import harmix as hx, numpy as np
        >>> k = hx.kernels.HarmonizableMixture([[0.0], [3.0]], [[1.0]], [[0.5]], [[[1.0]], [[2.0]]], np.ones((1, 1, 1)))
        >>> k([0.0, 1.0, 2.0]).shape
        (3, 3)
    """

    centers: Float[Array, "P D"] = parameter("centers", real, "P D")
    windows: Float[Array, "_ D *full"] = parameter("windows", spread, "P|1 D", "P|1 D D")
    lengthscales: Float[Array, "_ D *full"] = parameter("lengthscales", spread, "P|1 D", "P|1 D D")
    frequencies: Float[Array, "_ Q D"] = parameter("frequencies", real, "P|1 Q D")
    weights: Inexact[Array, "_ Q Q"] = parameter("weights", hermitian, "P|1 Q Q")
    rates: Float[Array, "_ D"] | None = parameter("rates", real, "P|1 D", optional=True)
    real: bool = eqx.field(static=True, default=True, kw_only=True)

    @classmethod
    @in_float64
    def from_spectral(
        cls,
        centers: Any,
        scalings: Any,
        frequencies: Any,
        weights: Any,
        sigma1: Any,
        sigma2: Any,
        *,
        real: bool = True,
    ) -> HarmonizableMixture:
        """The same kernel from the paper's parameters, refused when they do not make a covariance.

        Args:
            centers: `x_p`, `(P, D)`.
            scalings: `gamma_p`, `(P, D)` or `(1, D)`, positive: `Sigma <- diag(gamma) Sigma diag(gamma)`.
            frequencies: `mu_pi`, `(P, Q, D)`.
            weights: `B_p`, `(P, Q, Q)`, Hermitian positive semidefinite.
            sigma1: a number, `(D,)` or `(D, D)`; must satisfy `0 <= Sigma1 <= 4 Sigma2`.
            sigma2: likewise.
            real: a real process (default) or a complex one.

        Example:
            >>> import harmix as hx, numpy as np
            >>> k = hx.kernels.HarmonizableMixture.from_spectral([[0.0]], [[2.0]], [[[1.0]]], np.ones((1, 1, 1)), 0.1, 0.3)
            >>> k.windows.shape
            (1, 1)
        """
        x, g = (
            numeric_array(name, value, allow_boolean=False) for name, value in (("centers", centers), ("scalings", scalings))
        )
        if x.ndim != 2 or g.ndim != 2 or g.shape[0] not in (1, x.shape[0]) or g.shape[1] != x.shape[1]:
            raise ValueError(
                f"centers must have shape (P, D) and scalings (P, D) or (1, D), got shapes {x.shape} and {g.shape}."
            )
        D = g.shape[-1]
        if is_concrete(g) and not np.all(np.asarray(g) > 0):
            raise ValueError(f"scalings must be positive, got {show(g)}.")
        both = _split("sigma1", sigma1, "sigma2", sigma2)
        if any(V.shape not in ((), (D,), (D, D)) for V in both):
            raise ValueError(
                f"sigma1 and sigma2 must be numbers, ({D},) or ({D}, {D}), since centers have D = {D}, got shapes "
                f"{np.shape(sigma1)} and {np.shape(sigma2)}."
            )
        if is_concrete(both[0]) and is_concrete(both[1]) and not np.all(_diagonal(both[0] / 4 + both[1]) > 0):
            raise ValueError(f"sigma2 must not be zero in any dimension, got {show(sigma2)}.")
        full = max(V.ndim for V in both) == 2
        V1, C = (V if full else jnp.broadcast_to(V, (D,)) for V in both)
        unit = jnp.sqrt(_diagonal(V1 / 4 + C))
        V1, C = (jax.vmap(scale_both_sides, in_axes=(None, 0))(_lift(V, unit), g) for V in (V1, C))
        # MATH.md section 2: Sigma1 = 1 / (4 pi^2 W^2), C = 1 / (4 pi^2 l^2).
        windows, lengthscales = (jax.vmap(inverse)(4 * jnp.pi**2 * V) for V in (V1, C))
        if not full:
            windows, lengthscales = jnp.sqrt(windows), jnp.sqrt(lengthscales)
        return cls(centers, windows, lengthscales, frequencies, weights, real=real)

    def __check_init__(self) -> None:
        if self.windows.ndim != self.lengthscales.ndim:
            raise ValueError(
                f"windows (shape {self.windows.shape}) and lengthscales (shape {self.lengthscales.shape}) must both be "
                "(P, D), or both be matrices (P, D, D)."
            )

    @property
    def is_real(self) -> bool:
        """The flag given at construction."""
        return self.real

    @property
    @in_float64
    def components(self) -> Component:
        """All components as one batched `Component`: every array has a leading P."""
        P = self.centers.shape[0]
        spectral = lambda V: jax.vmap(inverse)(V**2 if V.ndim == 2 else V) / (4 * jnp.pi**2)
        parts = (spectral(self.windows), spectral(self.lengthscales), self.frequencies, self.weights, self.rates)
        batched = jax.tree.map(lambda a: jnp.broadcast_to(a, (P, *a.shape[1:])), parts)
        return jax.vmap(lambda V1, C, mu, B, r: Component(V1, C, mu, B, self.real, r))(*batched)

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """Of the widest component."""
        return jnp.max(jax.vmap(lambda c: c.bandwidth())(self.components), axis=0)

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The covariance matrix, from factors of rank 2Q in each component."""
        if self.lengthscales.shape[0] == 1:  # one stationary factor serves all components
            left, right = jax.vmap(lambda c, x: c.waves(X1 - x, X2 - x))(self.components, self.centers)
            stack = lambda F: jnp.moveaxis(F, 0, 1).reshape(F.shape[1], -1)
            shared = jax.tree.map(lambda a: a[0], self.components)
            return shared.stationary_factor(X1, X2) * (stack(left) @ stack(right).T)
        components = self.components
        total = jnp.zeros(())
        for p in range(self.centers.shape[0]):
            component = jax.tree.map(lambda a: a[p], components)
            total = total + component.gram(X1 - self.centers[p], X2 - self.centers[p])
        return total

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The variances."""
        # A product with ones, not `sum`: XLA fuses the exponentials into a sum, and computes them one by one there.
        terms = jax.vmap(lambda c, x: c.diagonal(lags(X, x[None])[:, 0]))(self.components, self.centers)
        return jnp.ones(terms.shape[0]) @ terms

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """`sum_p exp(-2 pi i x_p.(w - xi)) S_p(w, xi)`."""

        def shifted(component: Component, x: Array) -> Array:
            left, right = (cis(-v @ x) for v in (w, xi))
            return left[:, None] * component.generalized_density(w, xi) * jnp.conj(right)[None, :]

        return jnp.sum(jax.vmap(shifted)(self.components, self.centers), axis=0)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """`sum_p W_p(x - x_p, w)`."""
        return jnp.sum(jax.vmap(lambda c, center: c.wigner(x - center, w))(self.components, self.centers), axis=0)


class HarmonizableMixtureProduct(Kernel):
    """`k(x, x') = prod_d k_d(x_d, x'_d)`, a one-dimensional harmonizable mixture in each dimension.

    P^D windows and (P Q)^D frequencies from P Q D parameters; the generalised spectral density and the Wigner distribution
    are products too.

    Args:
        centers: `(P, D)`.
        windows: `(P, D)` or `(1, D)`.
        lengthscales: `(P, D)` or `(1, D)`.
        frequencies: `(P, Q, D)` or `(1, Q, D)`.
        weights: `(P, Q, Q, D)`, or `(P, Q, Q)` when every dimension has the same; size 1 in place of P is shared.
        real: a real process (default) or a complex one.

    Example:
        >>> import harmix as hx, numpy as np
        >>> args = np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2)), np.ones((1, 1, 2)), np.ones((1, 1, 1))
        >>> hx.kernels.HarmonizableMixtureProduct(*args)(np.zeros((4, 2))).shape
        (4, 4)
    """

    factors: tuple[HarmonizableMixture, ...]

    @in_float64
    def __init__(self, centers: Any, windows: Any, lengthscales: Any, frequencies: Any, weights: Any, *, real: bool = True):
        names = ("centers", "windows", "lengthscales", "frequencies")
        given = (centers, windows, lengthscales, frequencies)
        arrays = [numeric_array(n, a, allow_boolean=False) for n, a in zip(names, given, strict=True)]
        for name, array, ndim in zip(names, arrays, (2, 2, 2, 3), strict=True):
            if array.ndim != ndim or array.shape[-1] != arrays[0].shape[-1]:
                raise ValueError(
                    f"{name} must have {ndim} axes, the last of size D as in centers {arrays[0].shape}, got {array.shape}."
                )
        D = arrays[0].shape[-1]
        B = numeric_array("weights", weights, allow_complex=True, allow_boolean=False)
        if B.ndim not in (3, 4) or (B.ndim == 4 and B.shape[-1] != D):
            raise ValueError(f"weights must have shape (P, Q, Q) or (P, Q, Q, D) with D = {D}, got {B.shape}.")

        def factor(d: int) -> HarmonizableMixture:
            x, W, l, mu = (a[..., d : d + 1] for a in arrays)
            return HarmonizableMixture(x, W, l, mu, B if B.ndim == 3 else B[..., d], real=real)

        self.factors = tuple(map(factor, range(D)))

    @property
    def input_dim(self) -> int | None:
        """The number of factors."""
        return len(self.factors)

    @property
    def is_real(self) -> bool:
        """As the factors."""
        return self.factors[0].is_real

    def bandwidth(self, D: int) -> Float[Array, " D"]:
        """Of the factor in each dimension."""
        return jnp.concatenate([factor.bandwidth(1) for factor in self.factors])

    def _multiply(self, of: Any, *arrays: Array) -> Array:
        result = of(self.factors[0], *(a[:, :1] for a in arrays))
        for d, factor in enumerate(self.factors[1:], start=1):
            result = result * of(factor, *(a[:, d : d + 1] for a in arrays))
        return result

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Inexact[Array, "n1 n2"]:
        """The product over dimensions of the Gram matrices."""
        return self._multiply(HarmonizableMixture.gram, X1, X2)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """The product over dimensions of the variances."""
        return self._multiply(HarmonizableMixture.diagonal, X)

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """`prod_d S_d(w_d, xi_d)`."""
        return self._multiply(HarmonizableMixture.generalized_density, w, xi)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """`prod_d W_d(x_d, w_d)`."""
        return self._multiply(HarmonizableMixture.wigner, x, w)


def _diagonal(V: Array) -> Array:
    return jnp.diagonal(V) if V.ndim == 2 else V


def _lift(V: Float[Array, "D *full"], unit: Float[Array, " D"]) -> Float[Array, "D *full"]:
    """V, made invertible where it is not: by a little in each dimension, in its own `unit`."""
    if V.ndim == 1:
        return V + jax.lax.stop_gradient(jnp.maximum(_ENDLESS * unit**2 - V, 0.0))
    eigenvalues = jnp.linalg.eigvalsh(jax.lax.stop_gradient(scale_both_sides(V, 1 / unit)))
    lowest = jnp.maximum(_ENDLESS, _ENDLESS_DIRECTION * eigenvalues[-1])
    return V + jnp.diag(jax.lax.stop_gradient(jnp.maximum(lowest - eigenvalues[0], 0.0) * unit**2))


def _split(name1: str, sigma1: Any, name2: str, sigma2: Any) -> tuple[Array, Array]:
    """`Sigma1` and `C = Sigma2 - Sigma1 / 4` in a common structure, refused unless `0 <= Sigma1 <= 4 Sigma2`."""
    V1, V2 = (numeric_array(n, V, allow_boolean=False) for n, V in ((name1, sigma1), (name2, sigma2)))
    ndim = max(V1.ndim, V2.ndim)
    if ndim > 2 or len({size for V in (V1, V2) for size in V.shape}) > 1:
        raise ValueError(
            f"{name1} and {name2} must be numbers, (D,) or (D, D) with the same D, got shapes {V1.shape} and {V2.shape}."
        )
    if ndim == 2:
        D = (V1 if V1.ndim == 2 else V2).shape[-1]
        V1, V2 = (V if V.ndim == 2 else V * jnp.eye(D) for V in (V1, V2))
    if ndim == 1:
        V1, V2 = jnp.broadcast_arrays(V1, V2)
    lag = V2 - V1 / 4
    if not (is_concrete(V1) and is_concrete(V2)):
        return V1, lag if ndim == 2 else jnp.maximum(lag, 0.0)
    # Rounding is judged in each dimension's own unit: one may be measured in seconds, another in years.
    unit = np.sqrt(np.abs(_diagonal(V2)))
    unit = np.where(unit > 0, unit, 1.0)
    for name, V in ((name1, V1), (f"4 {name2} - {name1}", 4 * lag)):
        if ndim == 2 and not np.allclose(V, V.T, rtol=0, atol=ROUNDING * np.max(np.abs(V))):
            raise ValueError(f"{name} must be symmetric, got {np.asarray(V).tolist()}.")
        if np.min(_eigenvalues(V, unit)) < -ROUNDING:
            raise ValueError(
                f"{name} must be positive semidefinite for the kernel to be a covariance, but has the eigenvalue "
                f"{np.min(_eigenvalues(V)):.6g} ({name1} = {np.asarray(V1).tolist()}, {name2} = {np.asarray(V2).tolist()})."
            )
    # What is left of negative eigenvalues is rounding.
    excess1, excess = (np.maximum(-np.min(_eigenvalues(V, unit)), 0.0) * unit**2 for V in (V1, lag))
    if ndim == 2:
        return V1 + np.diag(excess1), lag + np.diag(excess)
    return jnp.maximum(V1, 0.0), jnp.maximum(lag, 0.0)


def _eigenvalues(V: Any, unit: Any = 1.0) -> np.ndarray:
    """Of a diagonal or a full matrix, with dimensions in the given units."""
    V = np.atleast_1d(V)
    return np.linalg.eigvalsh(V / np.multiply.outer(unit, unit)) if V.ndim == 2 else V / unit**2

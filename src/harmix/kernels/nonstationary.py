"""Non-stationary kernels from the literature, the family members and rivals of the harmonizable mixture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from harmix.arguments import is_concrete
from harmix.kernels.base import Kernel, Stationary
from harmix.kernels.stationary import cosine_features, require_dim
from harmix.parameters import nonnegative, parameter, positive, real, unit_interval


class Function(eqx.Module):
    """A plain Python function as part of a pytree: compared by identity, never traced through as data.

    A callable `equinox.Module` needs no such wrapping and keeps its own parameters learnable.
    """

    fn: Callable[[Array], Any] = eqx.field(static=True)

    def __call__(self, x: Array) -> Any:
        """The function itself."""
        return self.fn(x)


def _function(name: str) -> Any:
    def convert(fn: Any) -> eqx.Module:
        if not callable(fn):
            raise TypeError(f"{name} must be a function of one point x of shape (D,), got {fn!r}.")
        return fn if isinstance(fn, eqx.Module) else Function(fn)

    return eqx.field(converter=convert)


def _functions(name: str) -> Any:
    def convert(fns: Any) -> tuple[eqx.Module, ...]:
        if not isinstance(fns, Sequence) or len(fns) == 0 or not all(map(callable, fns)):
            raise TypeError(f"{name} must be a non-empty list of functions of one point x of shape (D,), got {fns!r}.")
        return tuple(fn if isinstance(fn, eqx.Module) else Function(fn) for fn in fns)

    return eqx.field(converter=convert)


def _values(name: str, fn: Callable[[Array], Any], X: Float[Array, "n D"], *sizes: int) -> Float[Array, "n size"]:
    """`fn` at every row of X as `(n, size)`, with one of the admissible sizes."""
    try:
        result = jax.vmap(lambda x: jnp.asarray(fn(x), dtype=float).reshape(-1))(X)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
        raise TypeError(
            f"{name} must be written with jax.numpy, not numpy, float() or if, so that JAX can vectorise it."
        ) from None
    if result.shape[1] not in sizes:
        wanted = " or ".join(map(str, sorted(set(sizes))))
        raise ValueError(f"{name} must return {wanted} value(s) for one point x of shape {X.shape[1:]}, got {result.shape[1]}.")
    return result


def _gibbs(X1: Array, X2: Array, l1: Float[Array, "n1 _"], l2: Float[Array, "n2 _"]) -> Float[Array, "n1 n2"]:
    """`prod_d sqrt(2 l_d l'_d / (l_d^2 + l'_d^2)) exp(-(x_d - x'_d)^2 / (l_d^2 + l'_d^2))`."""
    l1, l2 = jnp.broadcast_to(l1, X1.shape)[:, None, :], jnp.broadcast_to(l2, X2.shape)[None, :, :]
    squares = l1**2 + l2**2
    scale = jnp.prod(2 * l1 * l2 / squares, axis=-1)
    return jnp.sqrt(scale) * jnp.exp(-jnp.sum((X1[:, None, :] - X2[None, :, :]) ** 2 / squares, axis=-1))


class GeneralizedSpectral(Kernel):
    """GSK (Samo & Roberts, 2015): `k(x, x') = sum_q a_q h(x o g_q, x' o g_q) Psi_q(x).Psi_q(x')`,

    `Psi_q(x) = (cos 2 pi w_q1.x + cos 2 pi w_q2.x, sin 2 pi w_q1.x + sin 2 pi w_q2.x)`, `o` elementwise: two frequencies
    that beat. Its spectra are those of the base `h`, shifted and stretched; they exist wherever the base has them.

    Args:
        base: `h`, a real kernel.
        weights: `a`, `(Q,)`, not negative.
        frequencies: `w`, `(Q, 2, D)`.
        scalings: `g`, `(Q, D)`, positive.

    Example:
        >>> import harmix as hx
        >>> h = hx.kernels.SquaredExponential(1.0, 1.0)
        >>> hx.kernels.GeneralizedSpectral(h, [1.0], [[[1.0], [1.5]]], [[1.0]])([0.0, 1.0]).shape
        (2, 2)
    """

    base: Kernel
    weights: Float[Array, " Q"] = parameter("weights", nonnegative, "Q")
    frequencies: Float[Array, "Q 2 D"] = parameter("frequencies", real, "Q pair D")
    scalings: Float[Array, "Q D"] = parameter("scalings", positive, "Q D")

    def __check_init__(self) -> None:
        if not isinstance(self.base, Kernel) or not self.base.is_real:
            raise TypeError(f"base must be a real kernel, got {self.base!r}.")
        if self.frequencies.shape[1] != 2:
            raise ValueError(f"frequencies must come in pairs, shape (Q, 2, D), got {self.frequencies.shape}.")
        require_dim("base", self.base, self.frequencies.shape[-1])

    def bandwidth(self, D: int) -> Float[Array, " D"] | None:
        """That of the base, stretched and shifted."""
        band = self.base.bandwidth(D)
        if band is None:
            return None
        return jnp.max(jnp.max(jnp.abs(self.frequencies), axis=1) + self.scalings * band, axis=0)

    def _sum(self, term: Callable[[Array, Array, Array], Array]) -> Array:
        """`sum_q term(a_q, (w_q1, w_q2), g_q)`, vectorised over q."""
        return jnp.sum(jax.vmap(term)(self.weights, self.frequencies, self.scalings), axis=0)

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """Base Gram matrices times products of rank two."""

        def term(a: Array, w: Array, g: Array) -> Array:
            (c1, s1), (c2, s2) = ([jnp.sum(f, axis=1) for f in cosine_features(X, w)] for X in (X1, X2))
            return a * self.base.gram(X1 * g, X2 * g) * (c1[:, None] * c2 + s1[:, None] * s2)

        return self._sum(term)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`|Psi(x)|^2 = 2 + 2 cos 2 pi (w_q1 - w_q2).x`."""
        return self._sum(lambda a, w, g: a * self.base.diagonal(X * g) * (2 + 2 * jnp.cos(2 * jnp.pi * X @ (w[0] - w[1]))))

    def generalized_density(self, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
        """`sum_q a_q sum_ij (S_h((w - w_qi) / g, (xi - w_qj) / g) + S_h((w + w_qi) / g, (xi + w_qj) / g)) / (2 prod g^2)`."""

        def term(a: Array, mu: Array, g: Array) -> Array:
            total = sum(
                self.base.generalized_density((w + sign * mu[i]) / g, (xi + sign * mu[j]) / g)
                for i in (0, 1)
                for j in (0, 1)
                for sign in (-1, 1)
            )
            return a * total / (2 * jnp.prod(g) ** 2)

        return self._sum(term)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """`sum_q a_q / prod g sum_ij cos(2 pi (w_qi - w_qj).x) W_h(x o g, (w -+ (w_qi + w_qj) / 2) / g) / 2`."""

        def term(a: Array, mu: Array, g: Array) -> Array:
            total = jnp.zeros((x.shape[0], w.shape[0]))
            for i, j, beat in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, 2 * jnp.cos(2 * jnp.pi * x @ (mu[0] - mu[1])))):
                middle = (mu[i] + mu[j]) / 2
                sides = self.base.wigner(x * g, (w - middle) / g) + self.base.wigner(x * g, (w + middle) / g)
                total = total + jnp.broadcast_to(beat, x.shape[:1])[:, None] * sides
            return a * total / (2 * jnp.prod(g))

        return self._sum(term)


class Gibbs(Kernel):
    """`k(x, x') = prod_d sqrt(2 l_d(x) l_d(x') / s_d) exp(-(x_d - x'_d)^2 / s_d)`, `s_d = l_d(x)^2 + l_d(x')^2`.

    Args:
        lengthscale_fn: from a point `(D,)` to a positive number, or to one for each dimension, written with `jax.numpy`.
            Give a callable `equinox.Module` to make its parameters learnable.

    Example:
        >>> import harmix as hx
        >>> hx.kernels.Gibbs(lambda x: 0.1 + x**2).diag([0.0, 1.0])
        array([1., 1.])
    """

    lengthscale_fn: Callable[[Array], Any] = _function("lengthscale_fn")

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """The covariance matrix."""
        l1, l2 = (_values("lengthscale_fn", self.lengthscale_fn, X, 1, X.shape[1]) for X in (X1, X2))
        return _gibbs(X1, X2, l1, l2)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """One everywhere."""
        return jnp.ones(X.shape[0])


class GeneralizedSpectralMixture(Kernel):
    """GSM (Remes et al., 2017): a spectral mixture whose weights, frequencies and lengthscales are functions of x.

    `k(x, x') = sum_q a_q(x) a_q(x') k_Gibbs,q(x, x') cos(2 pi (mu_q(x).x - mu_q(x').x'))`. Note that the frequency of the
    oscillation near x is the derivative of the phase, `d(mu(x) x)/dx`, not the nominal `mu(x)`.

    Args:
        weight_fns: Q functions from a point `(D,)` to a number: the amplitude.
        frequency_fns: Q functions to a number or `(D,)` values (a number counts for every dimension).
        lengthscale_fns: Q functions to a positive number or `(D,)` values.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.GeneralizedSpectralMixture([lambda x: 1.0], [lambda x: 1 + x], [lambda x: 0.5])
        >>> k([0.0, 1.0]).shape
        (2, 2)
    """

    weight_fns: tuple[Callable[[Array], Any], ...] = _functions("weight_fns")
    frequency_fns: tuple[Callable[[Array], Any], ...] = _functions("frequency_fns")
    lengthscale_fns: tuple[Callable[[Array], Any], ...] = _functions("lengthscale_fns")

    def __check_init__(self) -> None:
        counts = len(self.weight_fns), len(self.frequency_fns), len(self.lengthscale_fns)
        if len(set(counts)) > 1:
            raise ValueError(
                "weight_fns, frequency_fns and lengthscale_fns must have the same length Q, got {}, {} and {}.".format(*counts)
            )

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """The covariance matrix."""
        total = jnp.zeros((X1.shape[0], X2.shape[0]))
        for weight, frequency, lengthscale in zip(self.weight_fns, self.frequency_fns, self.lengthscale_fns, strict=True):
            l1, l2 = (_values("lengthscale_fns", lengthscale, X, 1, X.shape[1]) for X in (X1, X2))
            (c1, s1), (c2, s2) = (self._waves(weight, frequency, X) for X in (X1, X2))
            total = total + _gibbs(X1, X2, l1, l2) * (c1[:, None] * c2 + s1[:, None] * s2)
        return total

    @staticmethod
    def _waves(weight: Callable, frequency: Callable, X: Array) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        a = _values("weight_fns", weight, X, 1)[:, 0]
        phase = 2 * jnp.pi * jnp.sum(_values("frequency_fns", frequency, X, 1, X.shape[1]) * X, axis=1)
        return a * jnp.cos(phase), a * jnp.sin(phase)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`sum_q a_q(x)^2`."""
        return jnp.sum(jnp.stack([_values("weight_fns", fn, X, 1)[:, 0] ** 2 for fn in self.weight_fns]), axis=0)


class FrequencyWarped(Kernel):
    """`k(x, x') = cos(g(x) - g(x'))`: one oscillation whose phase is `g`, in radians.

    Its instantaneous frequency is `g'(x) / (2 pi)` cycles per input unit.

    Args:
        phase_fn: `g`, from a point `(D,)` to a number, written with `jax.numpy`.

    Example:
        >>> import harmix as hx
        >>> chirp = hx.kernels.FrequencyWarped(lambda x: 2 * jnp.pi * (x + 0.5 * x**2))
        >>> chirp([0.0, 1.0]).shape
        (2, 2)
    """

    phase_fn: Callable[[Array], Any] = _function("phase_fn")

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """`cos g cos g' + sin g sin g'`."""
        g1, g2 = (_values("phase_fn", self.phase_fn, X, 1) for X in (X1, X2))
        return jnp.cos(g1) @ jnp.cos(g2).T + jnp.sin(g1) @ jnp.sin(g2).T

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """One everywhere."""
        return jnp.ones(X.shape[0])


class InvertedFractionalBrownian(Kernel):
    """Fractional Brownian motion run backwards through `x / |x|^2`: `f(x) = B_h(x / |x|^2)`, x away from 0.

    `k(x, x') = (|u|^{2h} + |u'|^{2h} - |u - u'|^{2h}) / 2`, `u = x / |x|^2` (in one dimension `u = 1 / x`).

    Args:
        hurst: `h`, strictly between 0 and 1.

    Example:
        >>> import harmix as hx
        >>> hx.kernels.InvertedFractionalBrownian(0.5).diag([0.25])
        array([4.])
    """

    hurst: Float[Array, ""] = parameter("hurst", unit_interval, "")

    def check_points(self, X: Float[Array, "n D"]) -> None:
        """Refuses x = 0."""
        if is_concrete(X) and not np.all(np.any(np.asarray(X) != 0, axis=1)):
            raise ValueError("X has a point at 0, where InvertedFractionalBrownian is infinite; keep away from it.")

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """The covariance matrix, by `|u - u'| = |x - x'| / (|x| |x'|)`."""
        # Not from u - u' itself: where x = x' that is rounding, and the power h makes much of it (1e-32^0.05 = 0.03).
        square1, square2 = (jnp.sum(X**2, axis=1) for X in (X1, X2))
        gap = jnp.sum((X1[:, None, :] - X2[None, :, :]) ** 2, axis=-1) / (square1[:, None] * square2)
        # At x = x' the derivative in h is 0, which the power itself does not know.
        apart = gap > 0
        power = jnp.where(apart, jnp.where(apart, gap, 1.0) ** self.hurst, 0.0)
        return (square1[:, None] ** -self.hurst + square2**-self.hurst - power) / 2

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`|x|^{-2h}`."""
        return jnp.sum(X**2, axis=1) ** -self.hurst


class LocallyStationary(Kernel):
    """Silverman's (1957) `k(x, x') = s((x + x') / 2) h(x - x')`, `h` stationary.

    Whether this is positive semidefinite depends on the pair and is for the caller to know; for Gaussian `s` and `h`
    `LocallyStationaryGaussian` has the condition and checks it.

    Args:
        envelope_fn: `s`, from a point `(D,)` to a number that is not negative, written with `jax.numpy`.
        stationary: `h`, a stationary kernel.

    Example:
        >>> import harmix as hx
        >>> h = hx.kernels.SquaredExponential(1.0, 0.5)
        >>> hx.kernels.LocallyStationary(lambda x: jnp.exp(-(x**2) / 2), h)([0.0, 1.0]).shape
        (2, 2)
    """

    envelope_fn: Callable[[Array], Any] = _function("envelope_fn")
    stationary: Stationary  # type: ignore[misc]  # a field with a converter has no default, which mypy does not see

    def __check_init__(self) -> None:
        if not isinstance(self.stationary, Stationary):
            raise TypeError(f"stationary must be a stationary kernel, got {self.stationary!r}.")

    @property
    def input_dim(self) -> int | None:
        """As the stationary factor."""
        return self.stationary.input_dim

    @property
    def is_real(self) -> bool:
        """As the stationary factor."""
        return self.stationary.is_real

    def gram(self, X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2"]:
        """The covariance matrix."""
        middles = ((X1[:, None, :] + X2[None, :, :]) / 2).reshape(-1, X1.shape[1])
        envelope = _values("envelope_fn", self.envelope_fn, middles, 1).reshape(X1.shape[0], X2.shape[0])
        return envelope * self.stationary.gram(X1, X2)

    def diagonal(self, X: Float[Array, "n D"]) -> Float[Array, " n"]:
        """`s(x) h(0)`."""
        return _values("envelope_fn", self.envelope_fn, X, 1)[:, 0] * self.stationary.diagonal(X)

    def wigner(self, x: Float[Array, "n D"], w: Float[Array, "m D"]) -> Float[Array, "n m"]:
        """`s(x)` times the density of `h`."""
        return _values("envelope_fn", self.envelope_fn, x, 1) * self.stationary.density(w)[None, :]

"""Likelihoods with one latent: Gaussian, Student-t, Bernoulli, Poisson."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, Inexact

from harmix.likelihoods.base import Likelihood, entry, first_bad
from harmix.likelihoods.probit import log_ndtr
from harmix.likelihoods.quadrature import nonnegative
from harmix.parameters import parameter, positive


class Gaussian(Likelihood):
    """`y = f + e`, `e ~ N(0, s2)`; for complex y or f the noise is circular, `e ~ CN(0, s2)`, `E|e|^2 = s2`.

    `log N(y | f, s2) = -log(2 pi s2) / 2 - (y - f)^2 / (2 s2)`, `log CN(y | f, s2) = -log(pi s2) - |y - f|^2
    / s2`. The latent's variance is `E|f - mean|^2` in both cases. Everything is in closed form.

    Args:
        variance: `s2`, a positive number.

    Example:
        >>> import harmix as hx
        >>> noise = hx.likelihoods.Gaussian(0.1)
        >>> noise.predict([0.0, 1.0], [0.5, 0.2])[1]
        array([0.6, 0.3])
    """

    allow_complex: ClassVar[bool] = True

    variance: Float[Array, ""] = parameter("variance", positive, "")

    @entry
    def log_prob(self, y: Inexact[Array, "*#n"], f: Inexact[Array, "*#n"]) -> Float[Array, "*n"]:
        """`log N(y | f, s2)` or `log CN(y | f, s2)`."""
        return _log_gaussian(y, f, self.variance)

    @entry
    def moments(self, f: Inexact[Array, "*n"]) -> tuple[Inexact[Array, "*n"], Float[Array, "*n"]]:
        """f itself and `s2`."""
        return f, self.variance + jnp.zeros_like(f.real)

    @entry
    def expected_log_prob(
        self, y: Inexact[Array, "*#n"], mean: Inexact[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """`log_prob` at the mean, minus `variance / (2 s2)` (real) or `variance / s2` (complex)."""
        halves = 1 if _is_complex(y, mean) else 2
        return _log_gaussian(y, mean, self.variance) - variance / (halves * self.variance)

    @entry
    def log_density(
        self, y: Inexact[Array, "*#n"], mean: Inexact[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """The variances add."""
        return _log_gaussian(y, mean, variance + self.variance)

    @entry
    def predict(
        self, mean: Inexact[Array, "*n"], variance: Float[Array, "*n"]
    ) -> tuple[Inexact[Array, "*n"], Float[Array, "*n"]]:
        """The mean itself; the variances add."""
        return mean, variance + self.variance


def _is_complex(*arrays: Array) -> bool:
    return any(map(jnp.iscomplexobj, arrays))


def _log_gaussian(y: Array, mean: Array, variance: Array) -> Array:
    r = y - mean
    if _is_complex(r):
        return -jnp.log(jnp.pi * variance) - (r.real**2 + r.imag**2) / variance
    return -0.5 * (jnp.log(2 * jnp.pi * variance) + r**2 / variance)


class StudentT(Likelihood):
    """`y = f + s e`, `e` Student-t with `df` degrees of freedom: robust, indifferent to a few outliers.

    `p(y | f) = Gamma((df + 1)/2) / (Gamma(df/2) sqrt(pi df) s) (1 + (y - f)^2 / (df s^2))^{-(df + 1)/2}`. The
    noise has variance `s^2 df / (df - 2)` for `df > 2` and an infinite one otherwise, which is what `predict`
    returns; its mean exists for `df > 1`, and `predict` returns the median, which is the same where both
    exist.

    Args:
        df: degrees of freedom, positive; large values approach a Gaussian.
        scale: `s`, a positive number in the units of y.

    Example:
        >>> import harmix as hx
        >>> float(hx.likelihoods.StudentT(4.0, 1.0).predict([0.0], [1.0])[1][0])
        3.0
    """

    df: Float[Array, ""] = parameter("df", positive, "")
    scale: Float[Array, ""] = parameter("scale", positive, "")

    @entry
    def log_prob(self, y: Float[Array, "*#n"], f: Float[Array, "*#n"]) -> Float[Array, "*n"]:
        """The log density of a scaled and shifted Student-t."""
        constant = gammaln((self.df + 1) / 2) - gammaln(self.df / 2) - 0.5 * jnp.log(jnp.pi * self.df * self.scale**2)
        return constant - 0.5 * (self.df + 1) * jnp.log1p((y - f) ** 2 / (self.df * self.scale**2))

    def bend(self, y: Float[Array, "*n"]) -> tuple[Any, Any]:
        """The zeros of `1 + (y - f)^2 / (df s^2)`."""
        return y, self.scale * jnp.sqrt(self.df)

    @entry
    def moments(self, f: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """f itself (the median, for `df <= 1`) and the variance of the noise (infinite for `df <= 2`)."""
        finite = self.df > 2
        excess = jnp.where(finite, self.df - 2, 1.0)
        return f, jnp.where(finite, self.scale**2 * self.df / excess, jnp.inf) + jnp.zeros_like(f)

    @entry
    def predict(self, mean: Float[Array, "*n"], variance: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """The mean (the median, for `df <= 1`) and the sum of the variances (infinite for `df <= 2`)."""
        return mean, variance + self.moments(mean)[1]

    @entry
    def log_density(
        self, y: Float[Array, "*#n"], mean: Float[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """A Student-t is a Gaussian of random precision `L / s^2`, `L ~ Gamma(df/2, df/2)`. With `u = log L`:

        `int N(y | mean, variance + s^2 e^{-u}) Gamma(e^u) e^u du`: positive, and smooth at any scale of f.
        """
        y, mean, variance = jnp.broadcast_arrays(y, mean, variance)

        def log_integrand(df: Array, s2: Array, y: Array, mean: Array, variance: Array, u: Array) -> Array:
            a = df / 2
            log_gamma = a * jnp.log(a) - gammaln(a) + a * (u - jnp.exp(u))
            return log_gamma + _log_gaussian(y[..., None], mean[..., None], variance[..., None] + s2 * jnp.exp(-u))

        args = (self.df, self.scale**2, y, mean, nonnegative(variance))
        df, s2, *_ = stopped = jax.lax.stop_gradient(args)
        # Gamma's tails, as x - log(1 + x) >= t and w - (1 - e^{-w}) >= t for x = w = t + sqrt(2 t); to the left of
        # -log(1 + (v + r^2)/s2) the integrand is that of df + 1.
        end = lambda df: 2 * _FALL / df + jnp.sqrt(4 * _FALL / df)
        spread = (stopped[4] + (stopped[2] - stopped[3]) ** 2) / s2
        right, left = jnp.log1p(end(df)) + jnp.zeros_like(y), -jnp.log1p(spread) - end(df + 1)

        # Narrow down to where the integrand is: for a large df a peak of width sqrt(2/df) in a long range.
        for _ in range(3):
            u = left[..., None] + (right - left)[..., None] * np.linspace(0, 1, 64)
            value = log_integrand(*stopped, u)
            seen = value > jnp.max(value, axis=-1, keepdims=True) - _FALL
            step = (right - left) / 63
            left = jnp.maximum(left, jnp.min(jnp.where(seen, u, jnp.inf), axis=-1) - step)
            right = jnp.minimum(right, jnp.max(jnp.where(seen, u, -jnp.inf), axis=-1) + step)
        u = left[..., None] + (right - left)[..., None] * np.linspace(0, 1, 200)
        return jax.nn.logsumexp(log_integrand(*args, u), axis=-1) + jnp.log((right - left) / 199)


_FALL = 45.0  # exp(-45) = 3e-20 of the integrand's peak is where it may be cut


class Bernoulli(Likelihood):
    """y in {0, 1}: `p(y = 1 | f) = Phi(f)` (probit) or `1 / (1 + e^{-f})` (logit).

    Probit predictions are in closed form, `Phi(mean / sqrt(1 + variance))`; the rest is quadrature.

    Args:
        link: `"probit"` or `"logit"`.

    Example:
        >>> import harmix as hx
        >>> round(float(hx.likelihoods.Bernoulli("probit").predict([0.0], [3.0])[0][0]), 12)
        0.5
    """

    link: str = eqx.field(static=True, default="probit")

    def __check_init__(self) -> None:
        if self.link not in ("probit", "logit"):
            raise ValueError(f"link must be 'probit' or 'logit', got {self.link!r}.")

    @entry
    def log_prob(self, y: Float[Array, "*#n"], f: Float[Array, "*#n"]) -> Float[Array, "*n"]:
        """`log Phi(+-f)` or `log sigmoid(+-f)`."""
        signed = (2 * y - 1) * f
        return log_ndtr(signed) if self.link == "probit" else jax.nn.log_sigmoid(signed)

    @entry
    def moments(self, f: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """`p = p(y = 1 | f)` and `p (1 - p)`."""
        log_p = self.log_prob(jnp.ones_like(f), f)
        return jnp.exp(log_p), -jnp.exp(log_p) * jnp.expm1(log_p)

    def bend(self, y: Float[Array, "*n"]) -> tuple[Any, Any]:
        """The zeros nearest to the real line: of Phi at 1.92 +- 2.82i, of `1 + e^{-f}` at +- pi i."""
        return ((2 * y - 1) * 1.916, 2.816) if self.link == "probit" else (jnp.zeros_like(y), math.pi)

    @entry
    def log_density(
        self, y: Float[Array, "*#n"], mean: Float[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """`log Phi(+-mean / sqrt(1 + variance))` for probit."""
        if self.link == "probit":
            return log_ndtr((2 * y - 1) * mean / jnp.sqrt(1 + variance))
        return super().log_density(y, mean, variance)

    @entry
    def predict(
        self, mean: Float[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """`p = p(y = 1)` and `p (1 - p)`."""
        log_p = self.log_density(jnp.ones_like(mean), mean, variance)
        return jnp.exp(log_p), -jnp.exp(log_p) * jnp.expm1(log_p)

    def validate(self, y: Any) -> Float[Array, " n"]:
        """Refuse whatever is not 0, 1, True or False."""
        return super().validate(numbers(y, "Bernoulli: y must be 0 or 1", "y = (y == the_positive_label)"))

    def refuse(self, y: np.ndarray) -> str | None:
        """Labels other than 0 and 1."""
        good = (y == 0) | (y == 1)
        remedy = "encode the positive class as 1 and the other as 0, as in y = (y == the_positive_label)"
        return None if good.all() else f"y must be 0 or 1, {first_bad(y, good)}; {remedy}"


def numbers(y: Any, must: str, remedy: str) -> Any:
    """`y`, refused with a remedy when its labels are strings or other objects."""
    if not isinstance(y, jax.Array) and np.asarray(y).dtype.kind in "OUS":
        raise ValueError(f"{must}, got the label {np.asarray(y).ravel()[0]!r}; encode it first: {remedy}.")
    return y


class Poisson(Likelihood):
    """Counts: `y ~ Poisson(exposure e^f)`.

    `log p(y | f) = y f - e^f - log y!` with `f + log(exposure)` for f. Its expectation and the predictive
    mean and variance are log-normal moments, in closed form; the predictive log density is quadrature.

    Args:
        exposure: what one observation covers, such as the width of a time bin: the rate is per unit of it.

    Example:
        >>> import harmix as hx
        >>> hx.likelihoods.Poisson().predict([0.0], [0.0])
        (array([1.]), array([1.]))
    """

    exposure: float = eqx.field(static=True, default=1.0)

    def __check_init__(self) -> None:
        if not (isinstance(self.exposure, int | float) and 0 < self.exposure < math.inf):
            raise ValueError(f"exposure must be a positive number, got {self.exposure!r}.")

    @entry
    def log_prob(self, y: Float[Array, "*#n"], f: Float[Array, "*#n"]) -> Float[Array, "*n"]:
        """`y f - e^f - log y!`."""
        g = f + math.log(self.exposure)
        return y * g - _exp(g) - gammaln(y + 1)

    @entry
    def moments(self, f: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """The rate, twice."""
        rate = _exp(f + math.log(self.exposure))
        return rate, rate

    @entry
    def expected_log_prob(
        self, y: Float[Array, "*#n"], mean: Float[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """`y mean - e^{mean + variance/2} - log y!`."""
        g = mean + math.log(self.exposure)
        return y * g - _exp(g + 0.5 * variance) - gammaln(y + 1)

    @entry
    def predict(
        self, mean: Float[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """`M = e^{mean + variance/2}` and `M + M^2 (e^variance - 1)`; capped where they overflow."""
        log_rate = jnp.minimum(mean + math.log(self.exposure) + 0.5 * variance, 300.0)
        rate = jnp.exp(log_rate)
        narrow = rate**2 * jnp.expm1(jnp.minimum(variance, 1.0))
        wide = jnp.exp(jnp.minimum(2 * log_rate + variance + jnp.log(-jnp.expm1(-jnp.maximum(variance, 1.0))), 700.0))
        return rate, rate + jnp.where(variance < 1, narrow, wide)

    def refuse(self, y: np.ndarray) -> str | None:
        """Labels that are not counts."""
        good = (y >= 0) & (y == np.floor(y))
        remedy = "pass raw counts, not rates or logarithms (unequal bins: Poisson(exposure=...))"
        return None if good.all() else f"y must be made of counts 0, 1, 2, ..., {first_bad(y, good)}; {remedy}"


def _exp(x: Array) -> Array:
    """`e^x`, continued by its tangent above 300: no overflow, and a slope that leads back."""
    return jnp.exp(jnp.minimum(x, 300.0)) * (1 + jnp.maximum(x - 300.0, 0.0))

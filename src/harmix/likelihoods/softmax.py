"""The multi-class likelihood, by one-dimensional integrals whatever the number of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from harmix.likelihoods.base import Likelihood, entry, first_bad
from harmix.likelihoods.quadrature import bent_rule, expectation
from harmix.likelihoods.scalar import numbers

# Nodes in u and inside `phi`. Measured, for 2 to 5 classes and means in [-10, 10], as the worst absolute error of the
# expected log-probability: 64 x 32 nodes give 1e-11 for variances up to 1, 4e-9 up to 10, 1e-7 at 100, the variances equal
# or within a factor of ten; 3e-6 if they lie anywhere between 1e-4 and 100. 160 x 48 gain two to three more digits.
TRAINING_NODES = (64, 32)
PREDICTION_NODES = (160, 48)


class Softmax(Likelihood):
    """y in {0, ..., C-1}: `p(y = c | f) = e^{f_c} / S`, `S = sum_k e^{f_k}`, with C independent latents.

    With `t = e^u` in `log S = int_0^inf (e^{-t} - e^{-t S}) dt / t` and in `1/S = int_0^inf e^{-t S} dt`, expectations
    factorise over the classes, and C-dimensional integrals become one-dimensional ones of

        phi_k(u) = E exp(-e^{u + f_k}),    psi_k(u) = E e^{u + f_k} exp(-e^{u + f_k}) = -phi_k'(u)

    which are themselves expectations over one Gaussian:

        E log p(y = c | f) = -int phi_c (1 - prod_{k != c} phi_k) du,    E p(y = c | f) = int psi_c prod_{k != c} phi_k du

    (the first is `E f_c = int (e^{-e^u} - phi_c) du`, minus the same for `log S`). `phi_k` is the chance that `f_k` plus a
    standard Gumbel variable stays below -u, so the second says that class c has the largest of C such sums.

    Means and variances are `(n, C)`, labels `(n,)`.

    Args:
        n_classes: C, at least 2.

    Example:
        >>> import harmix as hx
        >>> import jax.numpy as jnp
        >>> p, _ = hx.likelihoods.Softmax(3).predict(jnp.zeros((1, 3)), jnp.ones((1, 3)))
        >>> p.round(9)
        Array([[0.33333333, 0.33333333, 0.33333333]], dtype=float64)
    """

    n_classes: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        if not (isinstance(self.n_classes, int) and self.n_classes >= 2):
            raise ValueError(f"n_classes must be an integer of at least 2, got {self.n_classes!r}.")

    @property
    def n_latent(self) -> int:
        """One latent a class."""
        return self.n_classes

    @entry
    def log_prob(self, y: Float[Array, "*n"], f: Float[Array, "*n C"]) -> Float[Array, "*n"]:
        """`f_y - log S`."""
        return _pick(f, y) - jax.nn.logsumexp(f, axis=-1)

    @entry
    def expected_log_prob(
        self, y: Float[Array, " n"], mean: Float[Array, "n C"], variance: Float[Array, "n C"]
    ) -> Float[Array, " n"]:
        """`-int phi_y (1 - prod_{k != y} phi_k) du`."""
        self._check(mean, variance)
        return _by_point(_expected_log_prob, TRAINING_NODES, mean, variance, y)

    @entry
    def predict(
        self, mean: Float[Array, "n C"], variance: Float[Array, "n C"]
    ) -> tuple[Float[Array, "n C"], Float[Array, "n C"]]:
        """`p_c = E p(y = c | f)` for every class, `(n, C)`, and `p_c (1 - p_c)`: mean and variance of the one-hot label."""
        self._check(mean, variance)
        p = _by_point(_probabilities, PREDICTION_NODES, mean, variance)
        return p, p * (1 - p)

    @entry
    def log_density(
        self, y: Float[Array, " n"], mean: Float[Array, "n C"], variance: Float[Array, "n C"]
    ) -> Float[Array, " n"]:
        """`log E p(y | f)`, with small relative errors in small probabilities.

        Under `e^{f_y - f_t}` times the Gaussian, which is Gaussian again, a hopeless label y counts as much as the
        most likely one t: `E p(y | f) = e^{m_y - m_t + (v_y + v_t)/2} E p(t | f)`, the latter with means `m_y + v_y` and
        `m_t - v_t`.
        """
        self._check(mean, variance)
        label = y.astype(int)
        top = jnp.argmax(mean, axis=-1)
        m_y, m_t, v_y, v_t = _pick(mean, label), _pick(mean, top), _pick(variance, label), _pick(variance, top)
        tilt = m_t - m_y > v_y + v_t
        one_hot = lambda c: jax.nn.one_hot(c, self.n_classes, dtype=mean.dtype)
        moved = mean + jnp.where(tilt[:, None], variance * (one_hot(label) - one_hot(top)), 0.0)
        p = _by_point(_probabilities, PREDICTION_NODES, moved, variance)
        gained = jnp.where(tilt, m_y - m_t + 0.5 * (v_y + v_t), 0.0)
        return gained + jnp.log(_pick(p, jnp.where(tilt, top, label)))

    def validate(self, y: Any) -> Float[Array, " n"]:
        """Refuse whatever is not an integer from 0 to C-1."""
        must = f"Softmax: y must be an integer from 0 to {self.n_classes - 1}"
        return super().validate(numbers(y, must, _REMEDY))

    def refuse(self, y: np.ndarray) -> str | None:
        """Labels that number no class."""
        good = (y == np.floor(y)) & (y >= 0) & (y < self.n_classes)
        must = f"y must be an integer from 0 to {self.n_classes - 1} (n_classes={self.n_classes})"
        return None if good.all() else f"{must}, {first_bad(y, good)}; number the classes from 0: {_REMEDY}"

    def _check(self, mean: Array, variance: Array) -> None:
        for name, value in (("mean", mean), ("variance", variance)):
            if value.ndim != 2 or value.shape[1] != self.n_classes:
                raise ValueError(f"{name} must have shape (n, {self.n_classes}), got shape {value.shape}.")


_REMEDY = "classes, y = np.unique(labels, return_inverse=True)"


def _pick(values: Float[Array, "*n C"], label: Array) -> Float[Array, "*n"]:
    return jnp.take_along_axis(values, label.astype(int)[..., None], axis=-1)[..., 0]


_BLOCK = 2**17  # 1 MB of nodes at a time stays in the cache, and is twice as fast as all at once


def _by_point(rule: Callable[..., Array], nodes: tuple[int, int], mean: Array, variance: Array, *y: Array) -> Array:
    """`rule` for every point, as many points at a time as keep its arrays of nodes below `_BLOCK` entries."""
    block = max(1, _BLOCK // (mean.shape[1] * math.prod(nodes)))
    return jax.lax.map(lambda point: rule(nodes, *point), (mean, jnp.maximum(variance, 0.0), *y), batch_size=block)


def _expected_log_prob(nodes: tuple[int, int], mean: Float[Array, " C"], variance: Float[Array, " C"], y: Array) -> Array:
    mine = jnp.arange(mean.size) == y.astype(int)
    m, v = jax.lax.stop_gradient(mean), jax.lax.stop_gradient(variance)
    others = jnp.where(mine, -jnp.inf, m)
    rival = jnp.argmax(others)
    first = -jnp.max(jnp.where(mine, -jnp.inf, m + _tail_above(v)))
    last = jnp.sum(jnp.where(mine, _tail_below(v) - m, 0.0))
    narrow = jnp.minimum(jnp.sum(jnp.where(mine, v, 0.0)), v[rival])
    u, weights = _outer_rule(first, last, -m[rival], narrow, nodes[0])

    complement = _complement(u, mean, variance, nodes[1])
    own = 1 - jnp.sum(jnp.where(mine[:, None], complement, 0.0), axis=0)
    rest = jnp.where(mine[:, None], 0.0, complement)
    # 1 - prod(1 - q_k) without cancellation: q_1 + (1 - q_1) q_2 + ...
    anyone = jnp.sum(rest * _product_before(1 - rest), axis=0)
    return -jnp.sum(weights * own * anyone)


def _probabilities(nodes: tuple[int, int], mean: Float[Array, " C"], variance: Float[Array, " C"]) -> Float[Array, " C"]:
    m, v = jax.lax.stop_gradient(mean), jax.lax.stop_gradient(variance)
    first, last = -jnp.max(m + _tail_above(v)), jnp.min(_tail_below(v) - m)
    u, weights = _outer_rule(first, last, -jnp.max(m), jnp.min(v), nodes[0])
    phi = 1 - _complement(u, mean, variance, nodes[1])
    psi = _expect(_gumbel_density, u, mean, variance, nodes[1])
    others = _product_before(phi) * _product_before(phi[::-1])[::-1]
    return jnp.sum(weights * psi * others, axis=-1)


def _product_before(x: Float[Array, "C J"]) -> Float[Array, "C J"]:
    """The product of the rows before each row."""
    return jnp.concatenate([jnp.ones_like(x[:1]), jnp.cumprod(x[:-1], axis=0)])


def _gumbel_tail(args: Any, x: Array) -> Array:
    return -jnp.expm1(-jnp.exp(jnp.minimum(x, 40.0)))


def _gumbel_density(args: Any, x: Array) -> Array:
    x = jnp.minimum(x, 40.0)
    return jnp.exp(x - jnp.exp(x))


def _complement(u: Float[Array, " J"], mean: Float[Array, " C"], variance: Float[Array, " C"], count: int) -> Array:
    """`1 - phi_k(u)`, `(C, J)`."""
    return _expect(_gumbel_tail, u, mean, variance, count)


def _expect(fn: Callable[[Any, Array], Array], u: Array, mean: Array, variance: Array, count: int) -> Array:
    """`E fn(u + f_k)`, `(C, J)`. Beyond `Im x = pi/2`, `exp(-e^x)` grows: that is the width of its bend at 0."""
    x = u + mean[:, None]
    v = jnp.broadcast_to(variance[:, None], x.shape)
    rule = bent_rule(x, v, jnp.zeros_like(x), jnp.full_like(x, jnp.pi / 2), count, reach=7.0, blend=2.0)
    return expectation(fn, (), x, v, rule)


# --- the outer integral --------------------------------------------------------------------------------------------

_LOST = 28.0  # exp(-28) = 7e-13 is what the ends of the outer integral leave out


def _tail_above(v: Array) -> Array:
    """How far below -m the step `1 - phi(u)` dies out: `E min(1, e^x) <= exp(s mu + s^2 v/2)` for all `0 <= s <= 1`."""
    return jnp.where(v <= 2 * _LOST, _LOST + 0.5 * v, jnp.sqrt(2 * _LOST * v))


def _tail_below(v: Array) -> Array:
    """How far above -m `phi(u)` dies out: doubly exponentially beyond the Gaussian's own tail."""
    return math.log(_LOST) + jnp.sqrt(2 * _LOST * v)


def _outer_rule(first: Array, last: Array, step: Array, variance: Array, count: int) -> tuple[Array, Array]:
    """Trapezoidal rule from `first` to `last` for a function that falls off exponentially to the left of `step`.

    In `u = a + L (s - e^{-s})` it falls off doubly exponentially, which takes half as many nodes. The scale L follows the
    variance that smooths the sharpest step, and a puts that step where the map is nearly linear.
    """
    L = jnp.sqrt(1 + 0.25 * variance)
    a = step - 2 * L
    s_of = lambda u: (u - a) / L + _wright_omega((a - u) / L)
    low, high = s_of(first), s_of(jnp.maximum(last, first + 1.0))
    s = low + (high - low) * (np.arange(count) + 0.5) / count
    return a + L * (s - jnp.exp(-s)), L * (1 + jnp.exp(-s)) * (high - low) / count


def _wright_omega(x: Array) -> Array:
    """The solution of `w + log w = x`, by Newton's method for log w from the right, where it converges monotonically."""
    y = jnp.where(x > 1, jnp.log(jnp.maximum(x, 1.0)), x)
    for _ in range(7):
        y = y - (y + jnp.exp(y) - x) / (1 + jnp.exp(y))
    return jnp.exp(y)

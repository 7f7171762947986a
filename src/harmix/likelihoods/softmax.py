"""The multi-class likelihood, by one-dimensional integrals whatever the number of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from harmix.likelihoods.base import Likelihood, entry, first_bad
from harmix.likelihoods.quadrature import bent_rule, crowded, expectation, nonnegative
from harmix.likelihoods.scalar import numbers

# Nodes in u and inside `phi`. Worst absolute error over means in [-10, 10], 2 to 6 classes, of the
#
#                                      expected log-probability, its gradient    predictive probabilities
#     all variances 1                                    3e-11            3e-8                       7e-13
#                   10                                   2e-9             6e-8                       4e-11
#                   100                                  2e-8             6e-7                       6e-9
#                   1e4                                  4e-7             5e-7                       3e-8
#     each anywhere in [0.01, 10]                        9e-9             5e-6                       1e-11
#     each anywhere in [1e-4, 100]                       3e-6             6e-4                       2e-7
TRAINING_NODES = (64, 32)
PREDICTION_NODES = (96, 48)


class Softmax(Likelihood):
    """y in {0, ..., C-1}: `p(y = c | f) = e^{f_c} / S`, `S = sum_k e^{f_k}`, with C independent latents.

    With `t = e^u` in `log S = int_0^inf (e^{-t} - e^{-t S}) dt / t` and in `1/S = int_0^inf e^{-t S} dt`,
    expectations factorise over the classes, and C-dimensional integrals become one-dimensional ones of

        phi_k(u) = E exp(-e^{u + f_k}),    psi_k(u) = E e^{u + f_k} exp(-e^{u + f_k}) = -phi_k'(u)

    which are themselves expectations over one Gaussian:

        E log p(y = c | f) = -int phi_c (1 - prod_{k != c} phi_k) du,    E p(y = c | f) = int psi_c prod_{k !=
        c} phi_k du

    (the first is `E f_c = int (e^{-e^u} - phi_c) du`, minus the same for `log S`). `phi_k` is the chance that
    `f_k` plus a standard Gumbel variable stays below -u, so the second says that class c has the largest of C
    such sums.

    Means and variances are `(n, C)`, labels `(n,)`.

    Args:
        n_classes: C, at least 2.

    Example:
        >>> import harmix as hx
        >>> p, _ = hx.likelihoods.Softmax(3).predict([[0.0, 0.0, 0.0]], [[1.0, 1.0, 1.0]])
        >>> p.round(9)
        array([[0.33333333, 0.33333333, 0.33333333]])
    """

    n_classes: int = eqx.field(static=True)
    training_nodes: ClassVar[tuple[int, int]] = TRAINING_NODES

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
    def moments(self, f: Float[Array, "*n C"]) -> tuple[Float[Array, "*n C"], Float[Array, "*n C"]]:
        """Mean and variance of the one-hot label: `p = e^f / S` and `p (1 - p)`."""
        p = jax.nn.softmax(f, axis=-1)
        return p, p * (1 - p)

    @entry
    def expected_log_prob(
        self, y: Float[Array, " n"], mean: Float[Array, "n C"], variance: Float[Array, "n C"]
    ) -> Float[Array, " n"]:
        """`m_y - m_t - int phi_t (1 - prod_{k != t} phi_k) du`, t the class of the highest mean.

        That is the formula for t and `E (f_y - f_t)`: the integrand has no plateau between the steps of y and t.
        """
        self._check(mean, variance)
        step = self._is(y) * 1.0 - _is_top(mean)
        return jnp.sum(step * mean, axis=1) + _by_point(_expected_log_prob_of_top, self.training_nodes, mean, variance)

    @entry
    def predict(
        self, mean: Float[Array, "n C"], variance: Float[Array, "n C"]
    ) -> tuple[Float[Array, "n C"], Float[Array, "n C"]]:
        """Mean and variance of the one-hot label, `(n, C)`: `p_c = E p(y = c | f)` and `p_c (1 - p_c)`."""
        self._check(mean, variance)
        p = _by_point(_probabilities, PREDICTION_NODES, mean, variance)
        return p, p * (1 - p)

    @entry
    def log_density(
        self, y: Float[Array, " n"], mean: Float[Array, "n C"], variance: Float[Array, "n C"]
    ) -> Float[Array, " n"]:
        """`log E p(y | f)`, with a small relative error in a small probability too.

        Let t be the likeliest class. With `e^{a (f_y - f_t)}` part of the Gaussians, which moves two means,

            E p(y | f) = e^{-a gap + a^2 (v_y + v_t)/2} int prod_k E e^{b_k (u + f_k)} exp(-e^{u + f_k}) du

        for any a, with `gap = m_t - m_y`, `b_y = 1 - a`, `b_t = a`, other b zero. `a = gap / (v_y + v_t)`
        moves the two means together (1 is enough), and the integral of a hopeless label is no longer small.
        """
        self._check(mean, variance)
        m, v = jax.lax.stop_gradient(mean), nonnegative(jax.lax.stop_gradient(variance))
        step = self._is(y) * 1.0 - _is_top(m)  # of one unit in y and against t, zero if they are the same
        gap, spread = -jnp.sum(step * m, axis=1), jnp.sum(step**2 * v, axis=1)
        a = jnp.where(gap < spread, gap / jnp.where(gap < spread, spread, 1.0), jnp.sign(gap))[:, None]

        exponents = self._is(y) - a * step
        integral = _by_point(_tilted_probability, PREDICTION_NODES, mean + a * step * variance, variance, exponents)
        moved = jnp.sum(a * step * mean + 0.5 * (a * step) ** 2 * variance, axis=1)
        return moved + jnp.log(jnp.maximum(integral, 1e-300))

    def validate(self, y: Any) -> Float[Array, " n"]:
        """Refuse whatever is not an integer from 0 to C-1."""
        must = f"Softmax: y must be an integer from 0 to {self.n_classes - 1}"
        return super().validate(numbers(y, must, _REMEDY))

    def refuse(self, y: np.ndarray) -> str | None:
        """Labels that number no class."""
        good = (y == np.floor(y)) & (y >= 0) & (y < self.n_classes)
        must = f"y must be an integer from 0 to {self.n_classes - 1} (n_classes={self.n_classes})"
        return None if good.all() else f"{must}, {first_bad(y, good)}; number the classes from 0: {_REMEDY}"

    def _is(self, y: Float[Array, " n"]) -> Array:
        return jnp.arange(self.n_classes) == y[:, None]

    def _check(self, mean: Array, variance: Array) -> None:
        for name, value in (("mean", mean), ("variance", variance)):
            if value.ndim != 2 or value.shape[1] != self.n_classes:
                raise ValueError(f"{name} must have shape (n, {self.n_classes}), got shape {value.shape}.")


_REMEDY = "classes, y = np.unique(labels, return_inverse=True)"


def _pick(values: Float[Array, "*n C"], label: Array) -> Float[Array, "*n"]:
    return jnp.take_along_axis(values, label.astype(int)[..., None], axis=-1)[..., 0]


_BLOCK = 2**17  # 1 MB of nodes at a time stays in the cache, and is twice as fast as all at once


def _is_top(mean: Float[Array, "*n C"]) -> Array:
    """The first class of highest mean (JAX cannot compile argmax inside what a 32-bit process compiles)."""
    classes = jnp.arange(mean.shape[-1])
    highest = mean == jnp.max(mean, axis=-1, keepdims=True)
    return classes == jnp.min(jnp.where(highest, classes, classes.size), axis=-1, keepdims=True)


def _by_point(rule: Callable[..., Array], nodes: tuple[int, int], mean: Array, variance: Array, *y: Array) -> Array:
    """`rule` for every point, in as few equal blocks as keep its arrays of nodes below `_BLOCK` entries.

    The last point is repeated to make them equal: a smaller block at the end would be compiled a second time.
    """
    n = mean.shape[0]
    count = max(1, math.ceil(mean.size * math.prod(nodes) / _BLOCK))
    size = math.ceil(n / count)
    rows = np.minimum(np.arange(count * size), n - 1).reshape(count, size)
    of_block = lambda block: jax.vmap(lambda *point: rule(nodes, *point))(*block)
    points = (mean, nonnegative(variance), *y)
    if count == 1:
        return of_block(points)
    values = jax.lax.map(of_block, jax.tree.map(lambda a: a[rows], points))
    return values.reshape(count * size, *values.shape[2:])[:n]


def _expected_log_prob_of_top(
    nodes: tuple[int, int], mean: Float[Array, " C"], variance: Float[Array, " C"]
) -> Float[Array, ""]:
    m, v = jax.lax.stop_gradient(mean), jax.lax.stop_gradient(variance)
    top = _is_top(m)
    rival = jnp.max(jnp.where(top, -jnp.inf, m))
    first = -jnp.max(jnp.where(top, -jnp.inf, m + _tail_above(v)))
    last = jnp.sum(jnp.where(top, _tail_below(v) - m, 0.0))
    u, weights = _outer_rule(first, last, rival, m, v, top | (m == rival), nodes[0])

    complement = _expect(_gumbel_tail, (), u, mean, variance, nodes[1])
    own = 1 - jnp.sum(jnp.where(top[:, None], complement, 0.0), axis=0)
    rest = jnp.where(top[:, None], 0.0, complement)
    # 1 - prod(1 - q_k) without cancellation: q_1 + (1 - q_1) q_2 + ...
    anyone = jnp.sum(rest * _product_before(1 - rest), axis=0)
    return -jnp.sum(weights * own * anyone)


def _probabilities(nodes: tuple[int, int], mean: Float[Array, " C"], variance: Float[Array, " C"]) -> Float[Array, " C"]:
    u, weights = _prediction_rule(mean, variance, nodes[0])
    phi = 1 - _expect(_gumbel_tail, (), u, mean, variance, nodes[1])
    psi = _expect(_tilted_gumbel, jnp.ones(()), u, mean, variance, nodes[1])
    others = _product_before(phi) * _product_before(phi[::-1])[::-1]
    return jnp.sum(weights * psi * others, axis=-1)


def _tilted_probability(
    nodes: tuple[int, int],
    mean: Float[Array, " C"],
    variance: Float[Array, " C"],
    exponents: Float[Array, " C"],
) -> Float[Array, ""]:
    u, weights = _prediction_rule(mean, variance, nodes[0])
    factors = _expect(_tilted_gumbel, exponents[:, None, None], u, mean, variance, nodes[1])
    return jnp.sum(weights * jnp.prod(factors, axis=0))


def _prediction_rule(mean: Array, variance: Array, count: int) -> tuple[Array, Array]:
    m, v = jax.lax.stop_gradient(mean), jax.lax.stop_gradient(variance)
    first, last = -jnp.max(m + _tail_above(v)), jnp.min(_tail_below(v) - m)
    return _outer_rule(first, last, jnp.max(m), m, v, jnp.ones_like(m, dtype=bool), count)


def _product_before(x: Float[Array, "C J"]) -> Float[Array, "C J"]:
    """The product of the rows before each row."""
    return jnp.concatenate([jnp.ones_like(x[:1]), jnp.cumprod(x[:-1], axis=0)])


def _gumbel_tail(args: Any, x: Array) -> Array:
    return -jnp.expm1(-jnp.exp(jnp.minimum(x, 40.0)))


def _tilted_gumbel(exponent: Array, x: Array) -> Array:
    x = jnp.minimum(x, 40.0)
    return jnp.exp(exponent * x - jnp.exp(x))


def _expect(fn: Callable[[Any, Array], Array], args: Any, u: Array, mean: Array, variance: Array, count: int) -> Array:
    """`E fn(args, u + f_k)`, `(C, J)`. The bend at 0 has the width pi/2: beyond it `exp(-e^x)` grows."""
    x = u + mean[:, None]
    v = jnp.broadcast_to(variance[:, None], x.shape)
    rule = bent_rule(x, v, jnp.zeros_like(x), jnp.full_like(x, jnp.pi / 2), count, reach=7.0, blend=2.0)
    return expectation(fn, args, x, v, rule)


# --- the outer integral -------------------------------------------------------------------------------------

_LOST = 28.0  # exp(-28) = 7e-13 is what the ends of the outer integral leave out


def _tail_above(v: Array) -> Array:
    """How far below -m `1 - phi(u)` dies out: `E min(1, e^x) <= exp(s mu + s^2 v/2)`, `0 <= s <= 1`."""
    return jnp.where(v <= 2 * _LOST, _LOST + 0.5 * v, jnp.sqrt(2 * _LOST * v))


def _tail_below(v: Array) -> Array:
    """How far above -m `phi(u)` dies out: doubly exponentially beyond the Gaussian's own tail."""
    return math.log(_LOST) + jnp.sqrt(2 * _LOST * v)


def _outer_rule(
    first: Array, last: Array, highest: Array, mean: Array, variance: Array, steps: Array, count: int
) -> tuple[Array, Array]:
    """Trapezoidal rule from `first` to `last` for a function of u that falls off as `e^u` to the left of `-highest`.

    In `u = a + L (s - e^{-s})` it falls off doubly exponentially, which takes half as many nodes. The scale L
    follows the widest of the `steps` to be resolved, and nodes crowd around the narrowest.
    """
    width = jnp.sqrt(1 + 0.25 * variance)
    narrow, L = jnp.min(jnp.where(steps, width, jnp.inf)), jnp.max(jnp.where(steps, width, 0.0))
    place = -jnp.max(jnp.where(steps & (width == narrow), mean, -jnp.inf))
    a = -highest - 2 * L
    s_of = lambda u: (u - a) / L + _wright_omega((a - u) / L)
    center = s_of(place)
    # du/ds = L (1 + e^{-s}), and the bend of a step is pi/2 wide at the least
    crowding = jnp.minimum(0.5 * jnp.pi * narrow / (2 * _BLEND * L * (1 + jnp.exp(-center))), 1.0)
    s, ds = crowded(s_of(first), s_of(jnp.maximum(last, first + 1.0)), center, crowding, count, _BLEND)
    return a + L * (s - jnp.exp(-s)), L * (1 + jnp.exp(-s)) * ds


_BLEND = 1.25


def _wright_omega(x: Array) -> Array:
    """The solution of `w + log w = x`, by Newton's method for log w from the right: it cannot overshoot."""
    start = jnp.where(x > 1, jnp.log(jnp.maximum(x, 1.0)), x)
    return jnp.exp(jax.lax.fori_loop(0, 7, lambda _, y: y - (y + jnp.exp(y) - x) / (1 + jnp.exp(y)), start))

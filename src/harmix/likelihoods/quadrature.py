"""Gaussian expectations of functions of one variable, at any variance, differentiable to any order.

A fixed Gauss-Hermite rule spaces its nodes by the Gaussian alone. It is wrong as soon as the function changes
over less than a standard deviation: a logistic likelihood under a variance of 100, a Student-t with a small
scale, a count of 50 under a vague latent. The two rules here look at the function as well:

* `bent_rule` for an expectation `E g(f)` where `g` bends at a known place: nodes crowd there and thin out
  geometrically.
* `peaked_rule` for `E exp(g(f))` with `g` concave: nodes cover the peak of `exp(g) N`, wherever it lies.

Arrays have any shape `(...,)`; a rule adds one axis of nodes at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LOG_SQRT_2PI = 0.5 * float(np.log(2 * np.pi))

# A function of parameters (any pytree) and of the latent `f`, whose last axis runs over the nodes.
Integrand = Callable[[Any, Float[Array, "*n K"]], Float[Array, "*n K"]]


class Rule(NamedTuple):
    """Nodes of `z` in `f = mean + sd z`, their weights (Gaussian density included), and the bend's width."""

    nodes: Float[Array, "*n K"]
    weights: Float[Array, "*n K"]
    width: Float[Array, "*#n"]


def nonnegative(variance: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """A variance below zero by rounding counts as zero (`maximum` would halve the derivative at zero)."""
    return jnp.where(variance < 0, 0.0, variance)


def standard_deviation(variance: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """The square root, for values only: its derivative is infinite at zero."""
    return jnp.sqrt(nonnegative(variance))


# --- the expectation and its derivatives --------------------------------------------------------------------


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def expectation(
    fn: Integrand, args: Any, mean: Float[Array, "*n"], variance: Float[Array, "*n"], rule: Rule
) -> Float[Array, "*n"]:
    """`E fn(args, f)`, `f ~ N(mean, variance)`, differentiable to any order in all three.

    The rule is a constant: differentiating its nodes would only differentiate its error, and `d sqrt(v)/dv`
    is infinite at zero. The derivatives are those of the expectation itself, either of

        d/dm E g = E g'  = E g (f - m) / v,      d/dv E g = E g'' / 2 = E g ((f - m)^2 / v - 1) / (2 v)

    The first form (Price's theorem) is exact down to `v = 0`; the second does not sharpen a function that is
    already narrow beside the Gaussian. The bend's width decides, point by point.
    """
    f = mean[..., None] + standard_deviation(variance)[..., None] * rule.nodes
    # A product with ones, not `sum`: XLA fuses what it can of the integrand into a sum, and is slow at it.
    return (rule.weights * fn(args, f)) @ jnp.ones(rule.weights.shape[-1])


@expectation.defjvp
def _expectation_jvp(fn: Integrand, primals: Any, tangents: Any) -> tuple[Array, Array]:
    args, mean, variance, rule = primals
    d_args, d_mean, d_variance, _ = tangents
    bundle = (args, mean, variance, rule.width)

    def of(*derivatives: Integrand) -> Callable[[], tuple[Array, ...]]:
        return lambda: tuple(expectation(derivative, bundle, mean, variance, rule) for derivative in derivatives)

    # As a rule no Gaussian is wide, and then the function itself need not be evaluated.
    any_wide = jnp.any(variance > rule.width**2)
    in_mean, in_variance = jax.lax.cond(
        any_wide, of(_in_mean(fn), _in_variance(fn)), of(_in_mean(fn, narrow=True), _in_variance(fn, narrow=True))
    )
    tangent = d_mean * in_mean + d_variance * in_variance
    if jax.tree.leaves(args):
        tangent += expectation(_in_args(fn), (args, d_args), mean, variance, rule)
    return expectation(fn, args, mean, variance, rule), tangent


def _slope(fn: Integrand, args: Any) -> Callable[[Array], Array]:
    return lambda f: jax.jvp(lambda x: fn(args, x), (f,), (jnp.ones_like(f),))[1]


def _in_args(fn: Integrand) -> Integrand:
    def derivative(bundle: Any, f: Array) -> Array:
        args, d_args = bundle
        return jax.jvp(lambda a: fn(a, f), (args,), (d_args,))[1]

    return derivative


def _in_mean(fn: Integrand, *, narrow: bool = False) -> Integrand:
    def derivative(bundle: Any, f: Array) -> Array:
        args, mean, variance, width = bundle
        if narrow:
            return _slope(fn, args)(f)
        wide, v = _wide(variance, width)
        return jnp.where(wide, fn(args, f) * (f - mean[..., None]) / v, _slope(fn, args)(f))

    return derivative


def _in_variance(fn: Integrand, *, narrow: bool = False) -> Integrand:
    def derivative(bundle: Any, f: Array) -> Array:
        args, mean, variance, width = bundle
        curvature = jax.jvp(_slope(fn, args), (f,), (jnp.ones_like(f),))[1]
        if narrow:
            return 0.5 * curvature
        wide, v = _wide(variance, width)
        return 0.5 * jnp.where(wide, fn(args, f) * ((f - mean[..., None]) ** 2 / v - 1) / v, curvature)

    return derivative


def _wide(variance: Array, width: Array) -> tuple[Array, Array]:
    """Where the Gaussian is wide beside the bend, and a variance that can be divided by."""
    wide = (variance > width**2)[..., None]
    return wide, jnp.where(wide, variance[..., None], 1.0)


# --- rules --------------------------------------------------------------------------------------------------


def bent_rule(
    mean: Float[Array, "*n"],
    variance: Float[Array, "*n"],
    location: Float[Array, "*#n"],
    width: Float[Array, "*#n"],
    count: int,
    *,
    reach: float = 8.0,
    blend: float = 1.5,
) -> Rule:
    """Nodes for a function that is smooth but for a bend: its singularities are at `location +- i width`.

    Nodes of `z = (f - mean) / sd` are `crowded` around the bend so that, there, `f = location + width sinh(t)`:
    the singularities lie at `t = +- i pi/2` whatever the variance, and the rule converges geometrically, at a
    rate that depends on `log(sd / width)` only. If nothing bends within a standard deviation, it is the plain
    trapezoidal rule in z.

    Args:
        mean: `(...,)`.
        variance: `(...,)`.
        location: where the function bends, `(...,)`.
        width: over what distance; `inf` for not at all.
        count: number of nodes.
        reach: standard deviations covered; 8 leave out 1e-15 of the mass.
        blend: `k`, standard deviations per unit of t away from the bend.
    """
    mean, variance, location, width = map(jax.lax.stop_gradient, (mean, variance, location, width))
    sd = jnp.maximum(standard_deviation(variance), 1e-150)
    z0 = jnp.clip((location - mean) / sd, -2 * reach, 2 * reach)
    crowding = jnp.minimum(width / (2 * blend * sd), 1.0)

    z, dz = crowded(-reach * jnp.ones_like(z0), reach * jnp.ones_like(z0), z0, crowding, count, blend)
    weights = dz * jnp.exp(-0.5 * z**2 - LOG_SQRT_2PI)
    return Rule(z, weights, jnp.broadcast_to(width, mean.shape))


def crowded(
    low: Float[Array, "*n"],
    high: Float[Array, "*n"],
    center: Float[Array, "*n"],
    crowding: Float[Array, "*n"],
    count: int,
    blend: float,
) -> tuple[Float[Array, "*n K"], Float[Array, "*n K"]]:
    """Trapezoidal rule from `low` to `high`, for functions negligible beyond, with nodes crowded around `center`.

    It is equally spaced in `t`, where, with `k = blend` and `e = crowding`,

        z = center + k (log(1 + e exp(t)) - log(1 + e exp(-t)))

    which is `center + 2 k e sinh(t)` near the center, `k t` plus a constant far from it, and linear for `e = 1`.

    Returns:
        Nodes and weights.
    """

    # sinh and exp overflow: beyond these limits their logarithms are straight lines.
    def t_of(z: Array) -> Array:
        half = (z - center) / (2 * blend)
        near = jnp.clip(half, -100.0, 100.0)
        return 2 * half - near + jnp.arcsinh(jnp.sinh(near) / crowding)

    first, last = t_of(low), t_of(high)
    step = ((last - first) / count)[..., None]
    t = first[..., None] + step * (np.arange(count) + 0.5)
    near = jnp.clip(t, -300.0, 300.0)
    growth = jnp.exp(near)
    rising, falling = crowding[..., None] * growth, crowding[..., None] / growth
    offset = jnp.sign(t) * jnp.log1p(jnp.abs(rising - falling) / (1 + jnp.minimum(rising, falling))) + t - near
    slope = rising / (1 + rising) + falling / (1 + falling)
    return center[..., None] + blend * offset, step * blend * slope


def peaked_rule(
    g: Callable[[Float[Array, "*n"]], Float[Array, "*n"]],
    mean: Float[Array, "*n"],
    variance: Float[Array, "*n"],
    count: int = 64,
) -> tuple[Float[Array, "*n K"], Float[Array, "*n K"]]:
    """Nodes of z and logarithms of their weights for `E exp(g(f))`, `g` concave (a log-concave likelihood).

    `h(z) = g(mean + sd z) - z^2 / 2` has `h'' <= -1`. So its mode lies between 0 and `h'(0)`, and it has
    fallen by `DROP` within `sqrt(2 DROP)` on either side: both are found by bisection, and so is the corner
    where `g'` has gone half its way. Between these four places stand Gauss-Legendre rules, whose nodes crowd
    at both ends: the three intervals may differ in length by a factor of a thousand.

    Args:
        g: the logarithm of the integrand, for arrays `(...,)`.
        mean: `(...,)`.
        variance: `(...,)`.
        count: nodes in each interval. 32, 48, 64 are good to 5e-11, 1e-13, 1e-13 for logit and Poisson at a
            variance of 100, and to 4e-6, 2e-8, 1e-10 at 1e4 (means in [-100, 100], counts 0 to 1e4).
    """
    mean, sd = jax.lax.stop_gradient(mean), standard_deviation(jax.lax.stop_gradient(variance))

    def h(z: Array) -> Array:
        return g(mean + sd * z) - 0.5 * z**2

    def slope(z: Array) -> Array:
        return jnp.clip(jax.jvp(h, (z,), (jnp.ones_like(z),))[1], -1e100, 1e100)

    # In s = asinh(z): the mode may be 1e-3 or 1e+20 standard deviations away.
    bound = jnp.arcsinh(slope(jnp.zeros_like(mean)))
    before = lambda s: slope(jnp.sinh(s)) > 0
    mode = jnp.sinh(_bisect(before, jnp.minimum(bound, 0.0), jnp.maximum(bound, 0.0), steps=50))
    peak = h(mode)

    def cut(side: float) -> Array:
        inside = lambda s: peak - h(mode + side * jnp.exp(s)) < DROP
        farthest = jnp.full_like(mode, 0.5 * np.log(2 * DROP))
        return mode + side * jnp.exp(_bisect(inside, farthest - 40.0, farthest, steps=25))

    low, high = cut(-1.0), cut(1.0)
    halfway = 0.5 * (slope(low) + low + slope(high) + high)
    corner = _bisect(lambda z: slope(z) + z > halfway, low, high, steps=30)

    breaks = jnp.stack([low, jnp.minimum(mode, corner), jnp.maximum(mode, corner), high], axis=-1)
    x, w = np.polynomial.legendre.leggauss(count)
    length = jnp.diff(breaks)[..., None]
    flat = (*mode.shape, 3 * count)
    z = jax.lax.stop_gradient(breaks[..., :-1, None] + length * (x + 1) / 2).reshape(flat)
    log_lengths = jnp.log(jnp.maximum(length, 1e-300))
    log_weights = jax.lax.stop_gradient(log_lengths + np.log(w / 2)).reshape(flat)
    return z, log_weights - 0.5 * z**2 - LOG_SQRT_2PI


# What is left out of a peak: exp(-40) = 4e-18 of its height.
DROP = 40.0


def _bisect(left_of: Callable[[Array], Array], low: Array, high: Array, steps: int) -> Array:
    """The point between `low` and `high` at which `left_of` turns from true to false."""

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        left = left_of(middle)
        return jnp.where(left, middle, low), jnp.where(left, high, middle)

    low, high = jax.lax.fori_loop(0, steps, halve, (low, high))
    return 0.5 * (low + high)

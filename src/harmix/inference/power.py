"""The power `|G|^2` of complex Gaussian coefficients, and of mixtures of them: mean and quantiles.

`G` is not circular in general: with mean m, variance `V = E|G - m|^2` and pseudo-variance `P = E(G - m)^2`, its real and
imaginary part, turned by `-arg(P) / 2`, are independent with variances `(V + |P|) / 2` and `(V - |P|) / 2`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Complex, Float

from harmix.arguments import is_concrete, numeric_array, points, show
from harmix.precision import entry_point
from harmix.waves import cos_sin

# A normal variable stays within so many deviations of its mean, up to 1e-9; nodes that resolve a product of two such ranges.
_REACH, _NODES = 6.0, 24
# Where a deviation is below this fraction of the coefficient it counts as this: no step is too steep for the quadrature. The
# search for quantiles starts from somewhat wider ones.
_SHARPEST, _WIDER = 1e-9, 1e-7
# Quantiles are found to this probability, in at most so many steps (each fourth one halves a bracket).
_PROBABILITY, _STEPS = 1e-8, 200
# Coefficients whose quantiles are sought at a time; they stop together.
_CELLS = 1024


class Coefficients(NamedTuple):
    """The first two moments of complex Gaussian coefficients `G` on a grid of times and frequencies.

    Attributes:
        mean: `E G`.
        variance: `E |G - E G|^2`.
        pseudo: `E (G - E G)^2`; 0 where G is circular.
    """

    mean: Complex[Array, "*K T F"]
    variance: Float[Array, "*K T F"]
    pseudo: Complex[Array, "*K T F"]


class Spectrogram(NamedTuple):
    """What is known of the power `|G|^2` at each time and frequency.

    Attributes:
        times: `(T,)`.
        frequencies: `(F,)`, cycles per input unit.
        mean: the posterior mean of the power, `(T, F)`.
        lower: the lower end of the credible band: the power is below with probability `(1 - level) / 2`.
        upper: its upper end.
        level: the probability of the band.
    """

    times: Float[Array, " T"]
    frequencies: Float[Array, " F"]
    mean: Float[Array, "T F"]
    lower: Float[Array, "T F"]
    upper: Float[Array, "T F"]
    level: float


@entry_point
def spectrogram_of(
    coefficients: Coefficients, weights: Any, times: Any, frequencies: Any, *, level: float = 0.9
) -> Spectrogram:
    """Mean power and credible band under a mixture of K Gaussian posteriors.

    Args:
        coefficients: the moments under each posterior, stacked: every array is `(K, T, F)`.
        weights: of the posteriors, `(K,)`, not negative; they are brought to the sum 1.
        times: `(T,)`.
        frequencies: `(F,)`, cycles per input unit.
        level: the probability of the band, between 0 and 1.

    Example:
        >>> import numpy as np
        >>> G = Coefficients(np.zeros((1, 1, 1), complex), np.ones((1, 1, 1)), np.zeros((1, 1, 1), complex))
        >>> power = spectrogram_of(G, [1.0], [0.0], [2.0], level=0.5)  # of a circular G, exponentially distributed
        >>> bool(abs(power.upper[0, 0] - np.log(4.0)) < 1e-8)
        True
    """
    level = probability("level", level)
    times, frequencies = (points(n, a, 1)[:, 0] for n, a in (("times", times), ("frequencies", frequencies)))
    weights = numeric_array("weights", weights)
    if weights.ndim != 1 or (is_concrete(weights) and not (np.all(weights >= 0) and np.any(weights > 0))):
        raise ValueError(f"weights must be (K,), not negative and not all 0, got {show(weights)}.")
    expected = (len(weights), len(times), len(frequencies))
    if np.shape(coefficients.mean) != expected:
        raise ValueError(f"coefficients must have shape (K, T, F) = {expected}, got {np.shape(coefficients.mean)}.")
    mean, variance, pseudo = map(jnp.asarray, coefficients)
    return Spectrogram(
        times, frequencies, *_band(mean, variance, pseudo, weights / jnp.sum(weights), jnp.asarray(level)), level
    )


def probability(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    number = numeric_array(name, value, allow_boolean=False)
    if number.ndim != 0 or not 0 < number < 1:
        raise ValueError(f"{name} must be a probability strictly between 0 and 1, got {show(value)}.")
    return float(number)


@eqx.filter_jit
def _band(mean: Array, variance: Array, pseudo: Array, weights: Array, level: Array) -> tuple[Array, Array, Array]:
    """Mean, lower and upper quantile of the power, `(T, F)` each."""
    power = jnp.tensordot(weights, jnp.abs(mean) ** 2 + variance, axes=1)
    turned = mean * jnp.exp(-0.5j * jnp.angle(pseudo))
    size = jnp.minimum(jnp.abs(pseudo), variance)  # beyond is rounding
    principal = jnp.abs(turned.real), jnp.abs(turned.imag), jnp.sqrt((variance + size) / 2), jnp.sqrt((variance - size) / 2)
    cells = tuple(jnp.moveaxis(part.reshape(part.shape[0], -1), 0, 1) for part in principal)
    n = cells[0].shape[0]
    chunks = tuple(_in_chunks(part) for part in cells)
    lower, upper = (
        jax.lax.map(lambda c: _quantile(target, weights, *c), chunks).reshape(-1)[:n].reshape(power.shape)
        for target in ((1 - level) / 2, (1 + level) / 2)
    )
    return power, lower, upper


def _in_chunks(cells: Float[Array, "n K"]) -> Float[Array, "chunks c K"]:
    n = cells.shape[0]
    size = min(_CELLS, n)
    return jnp.pad(cells, ((0, -n % size), (0, 0)), mode="edge").reshape(-1, size, cells.shape[1])


def _quantile(
    target: Array, weights: Float[Array, " K"], a: Float[Array, "c K"], b: Array, s: Array, t: Array
) -> Float[Array, " c"]:
    """Where the distribution function of the power reaches `target`: the secant method, kept inside a bracket.

    The bracket: `|G|` lies within `z s` of `|m|` but for a probability of `exp(-z^2 / 2)`, s being the larger deviation. The
    variable is the cube root of the power, which is nearly normal (Wilson & Hilferty, 1931), so that the normal quantile of the
    distribution function is nearly straight, with the slope and the start that the first two moments of the power give.
    """
    amplitude = jnp.hypot(a, b)
    reach = jnp.sqrt(-2 * jnp.log(jnp.minimum(target, 1 - target))) * s + _WIDER * (s + amplitude)
    low = jnp.cbrt(jnp.min(jnp.maximum(amplitude - reach, 0.0), axis=1) ** 2)
    high = jnp.cbrt(jnp.max(amplitude + reach, axis=1) ** 2)
    shift = ndtri(target)

    first = a**2 + b**2 + s**2 + t**2
    second = first**2 + 2 * (s**4 + t**4) + 4 * (a**2 * s**2 + b**2 * t**2)
    mean = jnp.maximum(first @ weights, 1e-150)  # its square must not underflow
    spread = jnp.sqrt(jnp.maximum((second @ weights) / mean**2 - 1, _WIDER**2) / 9)
    slope = 1 / (jnp.cbrt(mean) * spread)
    guess = jnp.clip(jnp.cbrt(mean) * (1 - spread**2 + shift * spread), low, high)

    def step(state: tuple) -> tuple:
        count, low, high, x, before, height, slope, _ = state
        reached = below(jnp.sqrt(x**3)[:, None], a, b, s, t) @ weights
        done = (jnp.abs(reached - target) <= _PROBABILITY) | (high - low <= 1e-13 * high)
        now = ndtri(jnp.clip(reached, 1e-15, 1 - 1e-15)) - shift
        low, high = jnp.where(now < 0, x, low), jnp.where(now > 0, x, high)
        run = x - before
        secant = jnp.where(run != 0, (now - height) / jnp.where(run != 0, run, 1.0), 0.0)
        slope = jnp.where((count > 0) & (secant > 0), secant, slope)
        new = x - now / slope
        # Now and then by halves: between the two peaks of a mixture the function is flat, and secants leap to and fro.
        new = jnp.where((new <= low) | (new >= high) | (count % 4 == 3), (low + high) / 2, new)
        return count + 1, low, high, jnp.where(done, x, new), jnp.where(done, before, x), now, slope, jnp.all(done)

    def unfinished(state: tuple) -> Array:
        return (state[0] < _STEPS) & ~state[-1]

    start = (jnp.zeros((), int), low, high, guess, guess, jnp.zeros_like(guess), slope, jnp.zeros((), bool))
    return jax.lax.while_loop(unfinished, step, start)[3] ** 3


def below(R: Float[Array, "*#c"], a: Float[Array, "*c"], b: Array, s: Array, t: Array) -> Float[Array, "*c"]:
    """`P(X^2 + Y^2 <= R^2)` for independent `X ~ N(a, s^2)`, `Y ~ N(b, t^2)`; `a, b >= 0`, `s >= t >= 0`.

    The distribution function of X is known, so one integral is left, over `Y = R sin v`, `X` within `+- R cos v`. It is split
    where the probability of that X begins to fall from 1 and where it has reached 0. Where it is 1, a normal distribution
    function remains; in between, on either side, both factors are monotone and cross a few deviations: Gauss-Legendre nodes.
    """
    floor = _SHARPEST * (s + jnp.hypot(a, b)) + 1e-150
    s, t, R = jnp.maximum(s, floor), jnp.maximum(t, floor), jnp.maximum(R, 1e-150)
    ndtr = lambda x: 0.5 * jax.lax.erfc(-x * np.sqrt(0.5))
    sure, never = (jnp.arccos(jnp.clip((a + sign * _REACH * s) / R, 0.0, 1.0)) for sign in (1, -1))
    widest = R * jnp.sin(sure)
    total = ndtr((widest - b) / t) - ndtr((-widest - b) / t)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    for mean in (b, -b):
        start, end = (
            jnp.clip(jnp.arcsin(jnp.clip((mean + sign * _REACH * t) / R, -1.0, 1.0)), sure, never) for sign in (-1, 1)
        )
        half = ((end - start) / 2)[..., None]
        cosine, sine = cos_sin(((start + end)[..., None] / 2 + half * nodes) / (2 * np.pi))
        across, along = R[..., None] * sine, R[..., None] * cosine
        a_, s_, t_ = a[..., None], s[..., None], t[..., None]
        inside = ndtr((along - a_) / s_) - ndtr((-along - a_) / s_)
        normal = jnp.exp(-0.5 * ((across - mean[..., None]) / t_) ** 2) / (t_ * np.sqrt(2 * np.pi))
        total = total + jnp.sum(weights * half * inside * normal * along, axis=-1)
    return total

"""`cos(2 pi z)` and `sin(2 pi z)` of phases in cycles: every oscillation in the library is written with these."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

# Taylor coefficients of sin and cos; on |angle| <= pi / 4 the first neglected terms are below 1e-17.
_SIN = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800, 1 / 6227020800, -1 / 1307674368000)
_COS = (1.0, -1 / 2, 1 / 24, -1 / 720, 1 / 40320, -1 / 3628800, 1 / 479001600, -1 / 87178291200, 1 / 20922789888000)


def horner(coefficients: tuple[float, ...], x: Array) -> Array:
    """The polynomial in x with these coefficients, the constant first."""
    result = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        result = result * x + c
    return result


@jax.custom_jvp
def cos_sin(z: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """`cos(2 pi z), sin(2 pi z)` together.

    In cycles the reduction to one period is exact, so large phases lose nothing; and the two polynomials vectorise, where
    XLA calls the C library once for every 64-bit sine: about three times faster on a CPU.

    Example:
        >>> import jax.numpy as jnp
        >>> [float(v) + 0.0 for v in cos_sin(jnp.asarray(0.25))]
        [0.0, 1.0]
    """
    z = z - jnp.round(z)
    quarter = jnp.round(4 * z)
    angle = (z - quarter / 4) * (2 * jnp.pi)
    squared = angle * angle
    sine, cosine = angle * horner(_SIN, squared), horner(_COS, squared)
    quarter = quarter.astype(jnp.int32)
    swap = (quarter & 1) == 1
    c, s = jnp.where(swap, sine, cosine), jnp.where(swap, cosine, sine)
    return jnp.where(((quarter + 1) & 2) != 0, -c, c), jnp.where((quarter & 2) != 0, -s, s)


@cos_sin.defjvp
def _cos_sin_jvp(primals: tuple, tangents: tuple) -> tuple:
    c, s = cos_sin(*primals)
    rate = 2 * jnp.pi * tangents[0]
    return (c, s), (-s * rate, c * rate)


def cis(z: Float[Array, "*shape"]) -> Complex[Array, "*shape"]:
    """`exp(2 pi i z)`."""
    return jax.lax.complex(*cos_sin(z))


@jax.custom_jvp
def turn_back(
    z: Float[Array, "*shape"], re: Float[Array, "*shape"], im: Float[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """`(re + i im) exp(-2 pi i z)`, real and imaginary part.

    Its derivative in z is `-2 pi i` times itself: written so, neither waves nor their derivatives are computed twice.
    """
    return _turn(*cos_sin(z), re, im)


def _turn(c: Array, s: Array, re: Array, im: Array) -> tuple[Array, Array]:
    return c * re + s * im, c * im - s * re


@turn_back.defjvp
def _turn_back_jvp(primals: tuple, tangents: tuple) -> tuple:
    z, re, im = primals
    dz, dre, dim = tangents
    # The barrier keeps XLA from computing the polynomials anew in every expression that uses them.
    c, s = jax.lax.optimization_barrier(cos_sin(z))
    out_re, out_im = jax.lax.optimization_barrier(_turn(c, s, re, im))
    turned_re, turned_im = _turn(c, s, dre, dim)
    rate = 2 * jnp.pi * dz
    return (out_re, out_im), (turned_re + out_im * rate, turned_im - out_re * rate)

"""Sines and cosines of phases in cycles: exact to rounding at any phase, with exact derivatives of every order."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harmix.waves import cis, cos_sin, turn_back

TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194989")
RNG = np.random.default_rng(0)
PHASES = {
    "tiny": np.concatenate([10.0 ** RNG.uniform(-300, -1, 40), -(10.0 ** RNG.uniform(-20, -1, 40)), [0.0]]),
    "within a few cycles": RNG.uniform(-3, 3, 200),
    "around multiples of an eighth": np.arange(-16, 17) / 8 + RNG.choice([0.0, 1e-17, -1e-12, 1e-9], (20, 33)),
    "thousands of cycles": RNG.uniform(-1e4, 1e4, 200),
    "nothing but whole and half cycles left": np.array([2.0**51 + 0.5, 2.0**52 + 1, -(2.0**51) - 0.5, 1e300]),
    "billions of cycles": RNG.uniform(-1e12, 1e12, 200),
}


def series(angle, start):
    """The Taylor series of cos (start = 0) or sin (start = 1)."""
    term, total, n = (Decimal(1), Decimal(0), 0) if start == 0 else (angle, Decimal(0), 1)
    while n < 80:
        total += term
        term *= -angle * angle / ((n + 1) * (n + 2))
        n += 2
    return total


def reference(z):
    """`cos(2 pi z)` and `sin(2 pi z)` of one float, with 60 digits."""
    with localcontext() as context:
        context.prec = 400  # 1e300 has 300 of them before the point
        remainder = Decimal(float(z)) % 1
        context.prec = 60
        angle = TWO_PI * (remainder - round(remainder))
        return float(series(angle, 0)), float(series(angle, 1))


def evaluate(fn, *args):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, fn(*(jnp.asarray(a) for a in args)))


@pytest.mark.parametrize("z", PHASES.values(), ids=list(PHASES))
def test_cos_and_sin_of_any_phase_are_right_to_the_last_digits(z):
    z = z.ravel()
    c, s = evaluate(cos_sin, z)
    expected = np.array([reference(v) for v in z])
    # Relative to the value itself, even next to a zero; 1e-30 is the cosine of the float nearest to a quarter.
    np.testing.assert_allclose(c, expected[:, 0], rtol=4e-16, atol=1e-30)
    np.testing.assert_allclose(s, expected[:, 1], rtol=4e-16, atol=1e-30)


def test_quarters_of_a_cycle_are_exact():
    c, s = evaluate(cos_sin, np.arange(-8, 9) / 4)
    assert np.array_equal(c, np.tile([1.0, 0.0, -1.0, 0.0], 5)[:17])
    assert np.array_equal(s, np.tile([0.0, 1.0, 0.0, -1.0], 5)[:17])


def test_cosines_are_even_sines_are_odd_and_cycles_repeat():
    z = RNG.integers(0, 2**40, 100) / 2.0**40  # so that z + 5 is exact
    (c, s), (c_minus, s_minus), (c_later, s_later) = (evaluate(cos_sin, v) for v in (z, -z, z + 5))
    assert np.array_equal(c, c_minus)
    assert np.array_equal(s, -s_minus)
    assert np.array_equal(c, c_later)
    assert np.array_equal(s, s_later)
    np.testing.assert_allclose(c**2 + s**2, 1, rtol=0, atol=5e-16)


def test_a_phase_that_is_not_finite_gives_nan():
    for value in evaluate(cos_sin, np.array([np.inf, -np.inf, np.nan])):
        assert np.all(np.isnan(value))


def test_cis_and_turn_back_are_complex_exponentials():
    z, re, im = RNG.uniform(-3, 3, 50), RNG.normal(size=50), RNG.normal(size=50)
    wave = np.array([complex(*reference(v)) for v in z])
    np.testing.assert_allclose(evaluate(cis, z), wave, rtol=0, atol=4e-16)
    turned_re, turned_im = evaluate(turn_back, z, re, im)
    expected = (re + 1j * im) * np.conj(wave)
    np.testing.assert_allclose(turned_re + 1j * turned_im, expected, rtol=0, atol=2e-15)


# --- derivatives ------------------------------------------------------------------------------------------------------


def derivatives(fn, z):
    """First, second and third derivative of a scalar function, by forward, reverse and mixed mode."""
    forward = lambda f: lambda x: jax.jvp(f, (x,), (jnp.ones_like(x),))[1]
    total = lambda f: lambda x: jnp.sum(f(x))
    reverse = lambda f: jax.grad(total(f))
    modes = (forward(fn), reverse(fn), forward(reverse(fn)), reverse(forward(fn)), reverse(reverse(forward(fn))))
    return [np.asarray(mode(z)) for mode in modes]


@pytest.mark.parametrize("part", [0, 1], ids=["cos", "sin"])
def test_derivatives_of_cos_and_sin_have_closed_forms(part):
    z = RNG.uniform(-1000, 1000, 20)
    c, s = np.array([reference(v) for v in z]).T
    first, second, third = ((-s, -c, s), (c, -s, -c))[part]
    with jax.enable_x64(True):
        found = derivatives(lambda x: cos_sin(x)[part], jnp.asarray(z))
    for value, expected, order in zip(found, (first, first, second, second, third), (1, 1, 2, 2, 3), strict=True):
        np.testing.assert_allclose(value, expected * (2 * np.pi) ** order, rtol=0, atol=1e-15 * (2 * np.pi) ** order)


def test_derivatives_of_turn_back_have_closed_forms():
    z, re, im, dz, dre, dim = RNG.uniform(-2, 2, (6, 15))
    amplitude, rate = re + 1j * im, -2j * np.pi
    wave = np.exp(rate * z)
    as_complex = lambda pair: np.asarray(pair[0]) + 1j * np.asarray(pair[1])
    with jax.enable_x64(True):
        primals, tangents = jax.tree.map(jnp.asarray, ((z, re, im), (dz, dre, dim)))
        value, tangent = jax.jvp(turn_back, primals, tangents)
        # The derivative of the derivative, along the same line.
        along = lambda t: turn_back(*(p + t * d for p, d in zip(primals, tangents, strict=True)))
        rate_of = lambda t: jax.jvp(along, (t,), (1.0,))[1]
        second = jax.jvp(rate_of, (0.0,), (1.0,))[1]
        mix = jnp.asarray(RNG.normal(size=(2, 15)))
        objective = lambda *p: sum(jnp.sum(m * v) for m, v in zip(mix, turn_back(*p), strict=True))
        gradient = jax.grad(objective, argnums=(0, 1, 2))(*primals)
        batched = jax.vmap(jax.grad(objective, argnums=0), in_axes=0)(*(jnp.stack([p, 2 * p]) for p in primals))

    change = (dre + 1j * dim) + amplitude * rate * dz
    twice = 2 * (dre + 1j * dim) * rate * dz + amplitude * (rate * dz) ** 2
    np.testing.assert_allclose(as_complex(value), amplitude * wave, atol=1e-14)
    np.testing.assert_allclose(as_complex(tangent), change * wave, atol=1e-13)
    np.testing.assert_allclose(as_complex(second), twice * wave, atol=1e-12)
    gradient, batched, mix = jax.tree.map(np.asarray, (gradient, batched, mix))
    weight = mix[0] - 1j * mix[1]  # d(objective) = Re(weight * d(value))
    np.testing.assert_allclose(gradient[0], np.real(weight * amplitude * rate * wave), atol=1e-13)
    np.testing.assert_allclose(gradient[1], np.real(weight * wave), atol=1e-14)
    np.testing.assert_allclose(gradient[2], np.real(weight * 1j * wave), atol=1e-14)
    np.testing.assert_allclose(batched[0], gradient[0], atol=1e-14)
    np.testing.assert_allclose(batched[1], 2 * np.real(weight * amplitude * rate * wave**2), atol=1e-12)

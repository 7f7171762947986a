"""`log Phi` and its derivatives, against 80 digits."""

from decimal import Decimal, localcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harmix.likelihoods.probit import log_ndtr

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
PLACES = np.concatenate([-(10 ** np.linspace(-6, 3, 40)), [-20.001, -19.999], 10 ** np.linspace(-6, 1, 30)])


def mills(x):
    """`(1 - Phi(x)) / N(x)`, x >= 0: by its series near 0, else by its continued fraction."""
    if x > Decimal("2.5"):
        value = Decimal(0)
        for k in range(1000, 0, -1):
            value = k / (x + value)
        return 1 / (x + value)
    term = total = x
    for k in range(1, 200):
        term *= x * x / (2 * k + 1)
        total += term
    return (x * x / 2).exp() * (PI / 2).sqrt() - total


def reference(x):
    """`log Phi`, its slope and its curvature."""
    with localcontext() as context:
        context.prec = 80
        x = Decimal(float(x))
        density, tail = (-x * x / 2).exp() / (2 * PI).sqrt(), mills(abs(x))
        cdf = density * tail if x < 0 else 1 - density * tail
        hazard = density / cdf
        return [float(cdf.ln()), float(hazard), float(-hazard * (x + hazard))]


@pytest.fixture(scope="module")
def computed():
    with jax.enable_x64(True):
        slope = jax.grad(log_ndtr)
        functions = (log_ndtr, slope, jax.grad(slope), jax.grad(jax.grad(slope)))
        return lambda x: [np.asarray(jax.vmap(f)(jnp.asarray(x))) for f in functions]


def in_float64(computed, x):
    with jax.enable_x64(True):
        return computed(x)


def test_value_slope_and_curvature_are_right_to_the_last_digits(computed):
    value, slope, curvature, _ = in_float64(computed, PLACES)
    expected = np.array([reference(x) for x in PLACES])
    np.testing.assert_allclose(value, expected[:, 0], rtol=2e-15, atol=0)
    np.testing.assert_allclose(slope, expected[:, 1], rtol=3e-14)
    np.testing.assert_allclose(curvature, expected[:, 2], rtol=2e-13)


def test_nothing_overflows_far_out(computed):
    value, slope, curvature, third = in_float64(computed, np.array([-1e150, -1e8, 0.0, 1e3]))
    np.testing.assert_allclose(value, [-5e299, -5e15, np.log(0.5), 0.0], rtol=1e-14)
    np.testing.assert_allclose(slope, [1e150, 1e8, np.sqrt(2 / np.pi), 0.0], rtol=1e-14)
    np.testing.assert_allclose(curvature, [-1, -1, -2 / np.pi, 0.0], rtol=1e-14)
    assert np.all(np.isfinite(third))


def test_nan_stays_nan(computed):
    assert all(np.isnan(v).all() for v in in_float64(computed, np.array([np.nan])))

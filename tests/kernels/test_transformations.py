"""Kernels work under `jit`, `grad` and `vmap`, in 64 bit whatever the precision of the process, and leave it alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.draws import LAST, LAST_IDS, points, stack

import harmix as hx

each_kernel = pytest.mark.parametrize(("family", "draw"), LAST, ids=LAST_IDS)


def case(draw):
    rng = np.random.default_rng(0)
    kernels = [draw(rng, 2) for _ in range(3)]
    # Points that 32 bits hold exactly, so that every process sees the same.
    return kernels, points(rng, 4, 2).astype(np.float32)


@eqx.filter_jit
def transformed(k, stacked, X):
    return {
        "jit": k(X),
        "vmap over points": jax.vmap(lambda x: k(x[None], X)[0])(X),
        "vmap over parameters": eqx.filter_vmap(lambda k: k(X))(stacked),
    }


@eqx.filter_jit
def gradients(k, X):
    # What is done with the values outside harmix is up to the process, and one of 32 bits has no 64-bit sum.
    value = lambda k, X: k(X)[0, 1] if k.is_real else k.diag(X)[0]
    in_parameters, in_points = eqx.filter_grad(lambda both: value(*both))((k, X))
    return jax.tree.leaves(in_parameters), in_points


@each_kernel
def test_a_32_bit_process_gets_64_bits_under_jit_and_vmap(family, draw):
    kernels, X = case(draw)
    k = kernels[0]
    settings = dict(jax.config.values)
    expected = k(X)
    results = transformed(k, stack(kernels), jnp.asarray(X))
    assert k.diag(X).dtype == np.float64
    assert dict(jax.config.values) == settings

    tolerance = {"rtol": 0, "atol": 1e-12 * np.max(np.abs(expected))}
    dtype = np.float64 if k.is_real else np.complex128
    assert {values.dtype for values in [expected, *results.values()]} == {np.dtype(dtype)}
    np.testing.assert_allclose(results["jit"], expected, **tolerance)
    np.testing.assert_allclose(results["vmap over points"], expected, **tolerance)
    for one, values in zip(kernels, results["vmap over parameters"], strict=True):
        np.testing.assert_allclose(values, one(X), **tolerance)


@each_kernel
def test_gradients_in_a_32_bit_process_are_those_of_a_64_bit_one(family, draw):
    kernels, X = case(draw)
    k = kernels[0]
    narrow, narrow_in_points = gradients(k, jnp.asarray(X))
    with jax.enable_x64(True):
        # Batched: derivatives, too, are for vmap.
        X = jnp.asarray(X, dtype=float)
        batch = eqx.filter_vmap(gradients, in_axes=(None, 0))(k, jnp.stack([X, X[::-1]]))
        wide, wide_in_points = jax.tree.map(lambda leaf: leaf[0], batch)
    assert narrow_in_points.dtype == np.float32
    assert wide_in_points.dtype == np.float64
    np.testing.assert_allclose(narrow_in_points, wide_in_points, rtol=1e-6, atol=1e-30)
    for parameter, exact, rounded in zip(jax.tree.leaves(k), wide, narrow, strict=True):
        assert exact.dtype == rounded.dtype == parameter.dtype
        assert np.all(np.isfinite(exact))
        np.testing.assert_allclose(rounded, exact, rtol=1e-11, atol=1e-13 * np.max(np.abs(exact)))


def test_a_function_may_close_over_what_is_differentiated():
    value = lambda a: hx.kernels.Gibbs(lambda x: a + x**2)([0.5, 1.0])[0, 1]
    narrow = jax.grad(value)(1.0)
    with jax.enable_x64(True):
        assert float(narrow) == pytest.approx(float(jax.grad(value)(1.0)), rel=1e-6)


def test_a_32_bit_process_stays_one():
    assert not jax.config.values["jax_enable_x64"]
    assert jnp.ones(1).dtype == np.float32

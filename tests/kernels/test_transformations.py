"""Kernels work under `jit`, `grad` and `vmap`, in 64 bit whatever the precision of the process, and leave it alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.draws import LAST, LAST_IDS, points, stack

each_kernel = pytest.mark.parametrize(("family", "draw"), LAST, ids=LAST_IDS)
# Outside harmix the process decides about precision. Also about the backward pass of a derivative taken there.
TRUNCATION = "ignore:Explicitly requested dtype (float64|complex128).*:UserWarning"


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
    entry = lambda k, X: k(X).real[0, 1]
    return jax.tree.leaves(eqx.filter_grad(entry)(k, X)), jax.grad(lambda X: entry(k, X))(X)


@each_kernel
def test_a_32_bit_process_gets_64_bits_under_jit_and_vmap(family, draw):
    kernels, X = case(draw)
    k = kernels[0]
    settings = dict(jax.config.values)
    expected = np.asarray(k(X))
    results = transformed(k, stack(kernels), jnp.asarray(X))
    assert k.diag(X).dtype == np.float64
    assert dict(jax.config.values) == settings

    tolerance = {"rtol": 0, "atol": 1e-12 * np.max(np.abs(expected))}
    dtype = np.float64 if k.is_real else np.complex128
    assert {values.dtype for values in [expected, *results.values()]} == {dtype}
    np.testing.assert_allclose(results["jit"], expected, **tolerance)
    np.testing.assert_allclose(results["vmap over points"], expected, **tolerance)
    for one, values in zip(kernels, results["vmap over parameters"], strict=True):
        np.testing.assert_allclose(values, one(X), **tolerance)


@pytest.mark.filterwarnings(TRUNCATION)
@each_kernel
def test_gradients_have_the_precision_of_the_process(family, draw):
    kernels, X = case(draw)
    k = kernels[0]
    narrow, narrow_in_points = gradients(k, jnp.asarray(X))
    with jax.enable_x64(True):
        wide, wide_in_points = gradients(k, jnp.asarray(X, dtype=float))
    assert narrow_in_points.dtype == np.float32
    assert wide_in_points.dtype == np.float64
    for parameter, exact, rounded in zip(jax.tree.leaves(k), wide, narrow, strict=True):
        assert exact.dtype == rounded.dtype == parameter.dtype
        assert np.all(np.isfinite(exact))
        np.testing.assert_allclose(rounded, exact, rtol=0, atol=1e-4 * np.max(np.abs(exact)) + 1e-30)
    assert np.all(np.isfinite(wide_in_points))


def test_a_32_bit_process_stays_one():
    assert not jax.config.values["jax_enable_x64"]
    assert jnp.ones(1).dtype == np.float32

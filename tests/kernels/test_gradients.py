"""Derivatives with respect to every parameter agree with finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.draws import VARIANT_IDS, VARIANTS, points

STEP = 1e-5


def direction(rng, leaf):
    """A random direction in the space of one parameter, as large as the parameter in every entry."""
    v = rng.normal(size=leaf.shape)
    if np.iscomplexobj(leaf):
        v = v + 1j * rng.normal(size=leaf.shape)
    if is_hermitian(leaf):  # move within the Hermitian matrices
        size = np.sqrt(np.abs(np.diagonal(leaf, axis1=-2, axis2=-1)))
        return (v + np.conj(np.swapaxes(v, -1, -2))) * size[..., :, None] * size[..., None, :]
    return v * np.abs(leaf)


def is_hermitian(leaf):
    square = leaf.ndim >= 2 and leaf.shape[-1] == leaf.shape[-2]
    return square and np.allclose(leaf, np.conj(np.swapaxes(leaf, -1, -2)), rtol=1e-9)


@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_gradients_agree_with_central_differences(family, name, draw):
    rng = np.random.default_rng(3)
    k = draw(rng, 2)
    X1, X2 = points(rng, 5, 2), points(rng, 4, 2)
    X2[0] = X1[0]  # kernels with a kink must be differentiable at zero lag too
    R = rng.normal(size=(5, 4)) + 1j * rng.normal(size=(5, 4))
    objective = lambda k: jnp.real(jnp.sum(R * k(X1, X2))) + jnp.sum(k.diag(X1))

    with jax.enable_x64(True):
        # One compilation for both values and derivatives.
        evaluate = eqx.filter_jit(eqx.filter_value_and_grad(objective))
        value, gradient = evaluate(k)
        leaves, structure = jax.tree.flatten(k)
        moved = lambda i, v: structure.unflatten([*leaves[:i], leaves[i] + v, *leaves[i + 1 :]])
        for i, derivative in enumerate(map(np.asarray, jax.tree.leaves(gradient))):
            for _ in range(3):
                v = direction(rng, np.asarray(leaves[i]))
                expected = (evaluate(moved(i, STEP * v))[0] - evaluate(moved(i, -STEP * v))[0]) / (2 * STEP)
                # JAX's derivative of a real function of complex z is d/dx - i d/dy: the change is Re(g dz).
                actual = np.sum(np.real(derivative * v))
                size = np.sum(np.abs(derivative * v)) + abs(value)
                assert abs(actual - expected) <= 1e-7 * size, f"parameter {i} of {k}"

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
    # Close points as well: Matern kernels must be differentiable at zero lag.
    X2[0] = X1[0]
    R = rng.normal(size=(5, 4)) + 1j * rng.normal(size=(5, 4))

    with jax.enable_x64(True):
        objective = eqx.filter_jit(lambda k: jnp.real(jnp.sum(R * k(X1, X2))) + jnp.sum(k.diag(X1)))
        gradient = eqx.filter_jit(eqx.filter_grad(objective))(k)
        leaves, structure = jax.tree.flatten(k)
        for i, (leaf, derivative) in enumerate(zip(leaves, jax.tree.leaves(gradient), strict=True)):
            for v in (direction(rng, np.asarray(leaf)) for _ in range(3)):
                at = lambda h: float(objective(structure.unflatten([*leaves[:i], leaf + h * v, *leaves[i + 1 :]])))
                expected = (at(STEP) - at(-STEP)) / (2 * STEP)
                # JAX's derivative of a real function of complex z is d/dx - i d/dy, so the change is Re(g dz).
                actual = float(np.sum(np.real(np.asarray(derivative) * v)))
                size = np.sum(np.abs(derivative) * np.abs(v)) + abs(at(0.0))
                assert actual == pytest.approx(expected, rel=1e-6, abs=1e-7 * size), f"parameter {i} of {k}"

"""Free coordinates: every model survives the trip there and back, and any point there is an admissible model."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from features.draws import FAMILIES as FEATURES
from kernels.draws import VARIANT_IDS, VARIANTS

import harmix as hx
from harmix.parameters import ROUNDING, declarations, from_free, to_free

LIKELIHOODS = [hx.likelihoods.Gaussian(0.3), hx.likelihoods.StudentT(4.0, 1e-3), hx.likelihoods.Softmax(3)]


def there(tree):
    with jax.enable_x64(True):
        return to_free(tree)


def back(tree):
    with jax.enable_x64(True):
        return from_free(tree)


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))]


def assert_same(tree, other, rtol):
    for a, b in zip(leaves(tree), leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.max(np.abs(b)))


def modules(tree):
    """Every module inside a tree."""
    found = []
    jax.tree.map(lambda node: found.append(node) if isinstance(node, eqx.Module) else None, tree, is_leaf=is_module)
    for module in list(found):
        for field in dataclasses.fields(module):
            found += modules(getattr(module, field.name))
    return found


def is_module(node):
    return isinstance(node, eqx.Module)


def assert_admissible(tree):
    for module in modules(tree):
        for name, declaration in declarations(module).items():
            if getattr(module, name) is None:
                continue
            value = np.asarray(getattr(module, name))
            assert np.all(np.isfinite(value)), name
            assert declaration.domain.refuse(value) is None, name


@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_a_kernel_survives_the_round_trip_and_is_admissible_wherever_an_optimiser_moves_it(family, name, draw):
    rng = np.random.default_rng(0)
    k = draw(rng, 2)
    free = there(k)
    assert type(free) is family
    assert all(np.isrealobj(leaf) for leaf in leaves(free))
    # Matrices are lifted by 1e-10 of their trace, which a nearly singular one feels in its small entries.
    assert_same(back(free), k, rtol=1e-9)

    with jax.enable_x64(True):
        moved = jax.tree.map(
            lambda leaf: leaf + jnp.asarray(rng.normal(size=leaf.shape)) if eqx.is_inexact_array(leaf) else leaf, free
        )
    assert_admissible(back(moved))
    assert_same(there(back(there(back(moved)))), there(back(moved)), rtol=1e-4)


@pytest.mark.parametrize("family", FEATURES, ids=lambda family: family.__name__)
def test_features_survive_the_round_trip(family):
    for draw in FEATURES[family].values():
        _, features = draw(np.random.default_rng(0), 2)
        assert_same(back(there(features)), features, rtol=1e-14)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=lambda likelihood: type(likelihood).__name__)
def test_likelihoods_survive_the_round_trip(likelihood):
    assert_same(back(there(likelihood)), likelihood, rtol=1e-14)


def test_a_model_of_several_modules_is_converted_leaf_by_leaf_and_everything_else_is_left_alone():
    k, noise = hx.kernels.SquaredExponential(2.0, [0.5, 3.0]), hx.likelihoods.Gaussian(0.1)
    with jax.enable_x64(True):
        undeclared = jnp.asarray([1.0, -2.0])
    free = there({"model": (k, noise), "name": "a", "raw": undeclared, "none": None})
    np.testing.assert_allclose(np.asarray(free["model"][0].variance), np.log(2.0))
    np.testing.assert_allclose(np.asarray(free["model"][0].lengthscale), np.log([0.5, 3.0]))
    np.testing.assert_allclose(np.asarray(free["model"][1].variance), np.log(0.1))
    assert (free["name"], free["none"]) == ("a", None)
    assert free["raw"] is undeclared


def mixture(weights, real=True):
    Q = np.shape(weights)[-1]
    return hx.kernels.HarmonizableMixture([[0.0]], [[1.0]], [[1.0]], np.arange(1.0, Q + 1)[None, :, None], weights, real=real)


@pytest.mark.parametrize(
    "weights",
    [
        np.ones((1, 2, 2)),
        np.array([[[1, 1j], [-1j, 1]]]),
        np.diag([1.0, 0.0])[None],
        np.zeros((1, 2, 2)),
        np.zeros((1, 2, 2), complex),
    ],
    ids=["rank one", "rank one Hermitian", "one of two", "none at all", "none at all, complex"],
)
def test_weights_on_the_edge_of_the_cone_have_finite_free_coordinates_with_finite_derivatives(weights):
    k = mixture(weights)
    free = there(k)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(free))
    np.testing.assert_allclose(np.asarray(back(free).weights), weights, rtol=0, atol=3 * ROUNDING)
    with jax.enable_x64(True):
        value = lambda free: jnp.sum(from_free(free).gram(jnp.ones((2, 1)), jnp.zeros((1, 1))))
        gradient = eqx.filter_grad(value)(free)
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(gradient))


def test_a_factor_of_zero_has_finite_free_coordinates():
    free = there(0.0 * mixture(np.ones((1, 1, 1))))
    assert all(np.all(np.isfinite(leaf)) for leaf in leaves(free))
    assert float(back(free).factor) == pytest.approx(0.0, abs=1e-9)


def test_learning_real_weights_keeps_them_real_and_complex_ones_complex():
    for weights, dtype in ((np.ones((1, 2, 2)), np.float64), (np.eye(2)[None] + 0j, np.complex128)):
        k = mixture(weights)
        assert there(k).weights.dtype == np.float64
        assert back(there(k)).weights.dtype == dtype

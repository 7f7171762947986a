"""Every kernel is a covariance function: positive semidefinite, Hermitian, with the diagonal it says it has."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.draws import FAMILIES, VARIANT_IDS, VARIANTS, points, stack

N_POINTS, N_DRAWS = 200, 200


@eqx.filter_jit
def grams(kernels, X):
    return eqx.filter_vmap(lambda k: k.gram(X, X))(kernels)


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_no_eigenvalue_of_any_draw_is_negative(family, name, draw, D):
    rng = np.random.default_rng([D, len(name)])
    # N_DRAWS a family, shared by its variants in both dimensions.
    count = -(-N_DRAWS // (2 * len(FAMILIES[family])))
    X = points(rng, N_POINTS, D)
    with jax.enable_x64(True):
        matrices = np.asarray(grams(stack([draw(rng, D) for _ in range(count)]), jnp.asarray(X)))
    assert len(matrices) == count
    scale = np.max(np.abs(matrices), axis=(1, 2), keepdims=True)
    assert np.all(np.abs(matrices - np.conj(np.swapaxes(matrices, 1, 2))) <= 1e-13 * scale)
    # The smallest eigenvalue is at least -1e-10 of the largest if and only if this factorises; it takes a tenth of the time of
    # the eigenvalues. A Rayleigh quotient is never above the largest.
    x = rng.normal(size=(N_POINTS, 1)) + 0 * matrices[:, :, :1]
    for _ in range(4):
        x = matrices @ x
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    largest = np.real(np.sum(np.conj(x) * (matrices @ x), axis=1, keepdims=True))
    assert np.all(largest > 0)
    np.linalg.cholesky(matrices + 1e-10 * largest * np.eye(N_POINTS))


@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_diag_is_the_real_diagonal_and_n_means_n_by_1(family, name, draw):
    rng = np.random.default_rng(0)
    k = draw(rng, 1)
    X = points(rng, 5, 1)
    K, variances = k(X), k.diag(X)
    assert variances.dtype == np.float64
    np.testing.assert_allclose(variances, np.diagonal(K), rtol=1e-12, atol=1e-14 * np.max(np.abs(K)))
    assert np.array_equal(k(X[:, 0]), K)
    assert np.array_equal(k(X[:, 0], X), K)
    assert np.array_equal(k.diag(X[:, 0]), variances)


@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_a_kernel_says_whether_it_is_real_and_what_dimension_it_needs(family, name, draw):
    rng = np.random.default_rng(0)
    for D in (1, 2):
        k = draw(rng, D)
        assert k.input_dim in (None, D)
        assert k.is_real == np.isrealobj(k(points(rng, 2, D)))

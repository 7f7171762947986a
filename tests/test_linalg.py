"""Structured matrices agree with their dense twins, gradients too; jitter is relative, escalates and is reported."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from harmix import linalg
from harmix.linalg import JITTER, MAX_JITTER, Blocks, cholesky

KINDS = ["real", "complex"]
# Both sides of the sizes at which the factorisation changes its method.
SIZES = [(1, 1), (3, 5), (2, 97)]


def positive_definite(rng, B, m, kind):
    F = rng.normal(size=(B, m, m)) + (1j * rng.normal(size=(B, m, m)) if kind == "complex" else 0)
    return F @ np.conj(np.swapaxes(F, 1, 2)) / m + 0.1 * np.eye(m)


def nearly_singular(m, kind, length=0.3):
    """Covariance of m close points: all but some ten eigenvalues are rounding."""
    x = np.linspace(0, 1, m)
    K = np.exp(-0.5 * ((x[:, None] - x) / length) ** 2)
    return K * np.exp(2j * np.pi * (x[:, None] - x)) if kind == "complex" else K


def rows(rng, M, kind):
    return rng.normal(size=(M, 4)) + (1j * rng.normal(size=(M, 4)) if kind == "complex" else 0)


def evaluate(fn, *args):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(fn)(*map(jnp.asarray, args)))


def factorised(K, jitter=JITTER):
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, _factorised(jnp.asarray(K), jitter))


@functools.partial(jax.jit, static_argnums=1)
def _factorised(K, jitter):
    return cholesky(Blocks(K), jitter=jitter)


def block_diagonal(blocks):
    B, m = blocks.shape[:2]
    result = np.zeros((B * m, B * m), blocks.dtype)
    for i, block in enumerate(blocks):
        result[i * m : (i + 1) * m, i * m : (i + 1) * m] = block
    return result


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("B", "m"), SIZES)
def test_blocks_do_what_their_dense_twin_does(B, m, kind):
    rng = np.random.default_rng(m)
    blocks, M = positive_definite(rng, B, m, kind), B * m
    full, s, other = block_diagonal(blocks), rng.uniform(1, 2, M), rows(rng, M, kind)
    inside = rng.normal(size=(M, M))
    dense, diagonal, scaled, split, restricted = evaluate(
        lambda K, s, v, W: (
            (B := Blocks(K)).to_dense(),
            B.diagonal(),
            B.scaled(s).to_dense(),
            B.split(v),
            B.restrict(W).to_dense(),
        ),
        blocks,
        s,
        other,
        inside,
    )
    assert np.array_equal(dense, full)
    assert diagonal.dtype == np.float64
    assert np.array_equal(diagonal, np.diagonal(full).real)
    np.testing.assert_allclose(scaled, s[:, None] * full * s, rtol=1e-14)
    assert np.array_equal(split.reshape(M, 4), other)
    assert np.array_equal(restricted, np.where(full != 0, inside, 0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("B", "m"), SIZES)
def test_cholesky_solves_and_determinants_agree_with_the_dense_twin(B, m, kind):
    rng = np.random.default_rng(m)
    blocks = positive_definite(rng, B, m, kind)
    full, v = block_diagonal(blocks), rows(rng, B * m, kind)
    factor, lower, white, adjoint, logdet = evaluate(
        lambda K, v: (
            (F := cholesky(Blocks(K), jitter=0.0)),
            Blocks(F.lower).to_dense(),
            F.solve_lower(v),
            F.solve_lower_adjoint(v),
            F.logdet(),
        ),
        blocks,
        v,
    )
    L = np.linalg.cholesky(full)
    assert factor.size == B * m
    assert factor.jitter == 0
    np.testing.assert_allclose(lower, L, rtol=0, atol=1e-13)
    np.testing.assert_allclose(white, np.linalg.solve(L, v), rtol=0, atol=1e-12)
    np.testing.assert_allclose(adjoint, np.linalg.solve(np.conj(L).T, v), rtol=0, atol=1e-12)
    np.testing.assert_allclose(logdet, np.linalg.slogdet(full)[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("m", "kind"), [(40, "complex"), (96, "real"), (150, "complex"), (300, "real")])
def test_solves_with_a_nearly_singular_matrix_are_as_good_as_substitution(m, kind):
    # Features explain no more than there is: k' (K + jitter)^-1 k <= k(x, x). Explicit inverses must not spoil this.
    K = nearly_singular(m, kind)
    jitter, lower, white = evaluate(lambda K: ((F := cholesky(Blocks(K[None]))).jitter, F.lower[0], F.solve_lower(K)), K)
    assert jitter == JITTER
    np.testing.assert_allclose(lower @ np.conj(lower).T, K + JITTER * np.eye(m), rtol=0, atol=3e-15)
    explained = np.sum(np.abs(white) ** 2, axis=0)
    assert np.all(explained <= 1 + 1e-9)
    assert np.all(explained >= 1 - 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_a_factorisation_agree_with_central_differences(kind):
    rng = np.random.default_rng(0)
    B, m = 2, 7
    blocks, v = positive_definite(rng, B, m, kind), rows(rng, B * m, kind)
    direction = 0.1 * positive_definite(rng, B, m, kind)

    def objective(t, v):
        F = cholesky(Blocks(blocks + t * direction), jitter=0.0)
        mixed = jnp.real(jnp.sum(F.lower * direction)) + jnp.real(jnp.sum(F.inverse * blocks))
        return jnp.sum(jnp.abs(F.solve_lower(v)) ** 2) + F.logdet() + mixed

    first, second, reverse = evaluate(
        lambda t, v: (
            jax.jvp(lambda t: objective(t, v), (t,), (1.0,))[1],
            jax.grad(jax.grad(objective))(t, v),
            jax.grad(objective)(t, v),
        ),
        0.0,
        v,
    )
    h = 1e-4
    low, middle, high = evaluate(jax.vmap(objective, in_axes=(0, None)), np.array([-h, 0.0, h]), v)
    assert first == pytest.approx((high - low) / (2 * h), rel=1e-6)
    assert reverse == pytest.approx(first, rel=1e-12)
    assert second == pytest.approx((high - 2 * middle + low) / h**2, rel=1e-5)


def test_derivatives_agree_with_those_of_the_dense_cholesky_beyond_the_size_at_which_the_method_changes():
    rng = np.random.default_rng(1)
    m = 130
    K, weights = positive_definite(rng, 1, m, "real")[0], np.tril(rng.normal(size=(m, m)))
    ours = lambda K: jnp.sum(cholesky(Blocks(K[None]), jitter=0.0).lower[0] * weights)
    theirs = lambda K: jnp.sum(jnp.linalg.cholesky(K) * weights)
    mine, other = evaluate(lambda K: (jax.grad(ours)(K), jax.grad(theirs)(K)), K)
    np.testing.assert_allclose(mine + mine.T, other + other.T, rtol=0, atol=1e-10 * np.max(np.abs(other)))


# --- jitter -----------------------------------------------------------------------------------------------------------


def with_smallest_eigenvalue(value, scale, kind="real"):
    """Two blocks: one well conditioned, one of size 12 with one negative eigenvalue `value * scale`, diagonal about `scale`."""
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(positive_definite(rng, 1, 12, kind)[0])[0]
    bad = (Q * np.concatenate([[value], np.linspace(0.5, 1.5, 11)])) @ np.conj(Q).T
    return scale * np.stack([np.eye(12), (bad + np.conj(bad).T) / 2])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("depth", [1e-13, 3e-9, 3e-5])
def test_jitter_grows_tenfold_until_it_suffices_whatever_the_scale_and_is_reported(depth, scale, kind):
    K = with_smallest_eigenvalue(-depth, scale, kind)
    factor = factorised(K)
    largest = np.max(np.abs(np.diagonal(K, axis1=1, axis2=2)))
    assert np.all(np.isfinite(factor.lower))
    steps = np.log10(factor.jitter / JITTER)
    assert steps == pytest.approx(round(float(steps)), abs=1e-9)
    assert depth * scale / largest < factor.jitter * 1.0001
    assert factor.jitter <= 20 * max(depth * scale / largest, JITTER)
    restored = factor.lower @ np.conj(np.swapaxes(factor.lower, 1, 2))
    np.testing.assert_allclose(restored, K + factor.jitter * largest * np.eye(12), rtol=0, atol=1e-14 * largest)


def test_jitter_zero_stays_zero_where_none_is_needed_and_grows_where_it_is():
    fine, needy = (factorised(with_smallest_eigenvalue(v, 1.0), jitter=0.0) for v in (0.1, -3e-9))
    assert fine.jitter == 0
    assert needy.jitter == pytest.approx(1e-8)


def test_the_gradient_goes_through_the_jitter_that_was_found():
    K = with_smallest_eigenvalue(-3e-9, 1.0)
    jitter, gradient = evaluate(lambda K: (cholesky(Blocks(K)).jitter, jax.grad(lambda K: cholesky(Blocks(K)).logdet())(K)), K)
    shifted = K + jitter * np.max(K) * np.eye(12)
    expected = np.linalg.inv(shifted)
    np.testing.assert_allclose(gradient + np.swapaxes(gradient, 1, 2), 2 * expected, rtol=1e-4, atol=1e-6 * np.max(expected))


@pytest.mark.parametrize("K", [-np.eye(3)[None], with_smallest_eigenvalue(-0.1, 1.0), np.full((1, 3, 3), np.nan)])
def test_a_hopeless_matrix_ends_in_nan_after_the_largest_jitter_and_never_loops_on(K):
    factor = factorised(K)
    assert np.any(np.isnan(factor.lower))
    assert factor.jitter <= MAX_JITTER * 10.001


# --- roots of precisions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("B", "m"), [(3, 5), (1, 120)])
def test_inverse_root_and_precision_of_root_invert_one_another(B, m, kind):
    precision = positive_definite(np.random.default_rng(0), B, m, kind)
    root, again = evaluate(lambda P: ((R := linalg.inverse_root(Blocks(P))), linalg.precision_of_root(R).blocks), precision)
    assert np.array_equal(root, np.tril(root))
    np.testing.assert_allclose(
        root @ np.conj(np.swapaxes(root, 1, 2)) @ precision, np.broadcast_to(np.eye(m), root.shape), atol=1e-11
    )
    np.testing.assert_allclose(again, precision, rtol=0, atol=1e-12 * np.max(np.abs(precision)))


def test_the_root_of_a_precision_that_is_not_positive_is_nan_and_not_a_jittered_one():
    root = evaluate(lambda P: linalg.inverse_root(Blocks(P)), with_smallest_eigenvalue(-1e-9, 1.0))
    assert np.any(np.isnan(root))


def test_psd_factor_takes_singular_matrices():
    V = np.array([[[4.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    F = evaluate(linalg.psd_factor, V)
    assert np.array_equal(F, np.tril(F))
    np.testing.assert_allclose(F @ np.swapaxes(F, 1, 2), V, rtol=0, atol=1e-9)


@pytest.mark.parametrize("full", [False, True], ids=["diagonal", "full"])
def test_small_covariances_in_both_structures_are_matrices(full):
    rng = np.random.default_rng(0)
    V, U = (positive_definite(rng, 1, 3, "real")[0] for _ in range(2))
    V, U = (V, U) if full else (np.diagonal(V).copy(), np.diagonal(U).copy())
    as_matrix = lambda A: np.asarray(A) if full else np.diag(A)
    v, g = rng.normal(size=(4, 2, 3)), rng.uniform(1, 2, 3)
    applied, quadratic, inverse, scaled, product, log_normal = evaluate(
        lambda V, U, v, g: (
            linalg.apply(V, v),
            linalg.quadratic(V, v),
            linalg.inverse(V),
            linalg.scale_both_sides(V, g),
            linalg.product(V, U, V),
            linalg.log_normal(v, V),
        ),
        V,
        U,
        v,
        g,
    )
    M, N = as_matrix(V), as_matrix(U)
    np.testing.assert_allclose(applied, v @ M.T, rtol=1e-12)
    expected = np.einsum("...i,ij,...j->...", v, M, v)
    np.testing.assert_allclose(quadratic, expected, rtol=1e-12)
    np.testing.assert_allclose(as_matrix(inverse), np.linalg.inv(M), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(as_matrix(scaled), np.diag(g) @ M @ np.diag(g), rtol=1e-12)
    np.testing.assert_allclose(as_matrix(product), M @ N @ M, rtol=1e-12, atol=1e-14)
    density = -0.5 * np.einsum("...i,ij,...j->...", v, np.linalg.inv(M), v) - 0.5 * np.linalg.slogdet(2 * np.pi * M)[1]
    np.testing.assert_allclose(log_normal, density, rtol=1e-12)


def test_programs_that_factorise_blocks_at_the_same_time_do_not_wait_for_one_another():
    # With the batched Cholesky of jaxlib 0.10 and two threads for XLA, four such programs stop within a second.
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 48, 48))
    blocks = root @ np.swapaxes(root, 1, 2) + 48 * np.eye(48)

    @jax.jit
    def total(blocks):
        return sum(jnp.sum(linalg.cholesky(linalg.Blocks(blocks * s), jitter=0.0).lower) for s in (1.0, 2.0, 3.0, 4.0))

    def work():
        with jax.enable_x64(True):
            for _ in range(100):
                total(blocks).block_until_ready()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)

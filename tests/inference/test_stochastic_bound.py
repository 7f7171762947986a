"""The stochastic bound is the textbook's for any q(u) and likelihood, and its optimum is the collapsed bound."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inference.problems import KINDS, M, N, P, problem
from references import inference as reference

import harmix as hx
from harmix.inference.stochastic import kl_divergence

each_kind = pytest.mark.parametrize("kind", KINDS)
each_structure = pytest.mark.parametrize("structure", ["dense", "block"])


def random_q(p, structure="dense", n_latent=1, seed=0):
    """A q(u) far from the prior."""
    rng = np.random.default_rng(seed)
    q = hx.VariationalGaussian(p.features, p.kernel, n_latent=n_latent, structure=structure)
    draw = lambda shape: rng.normal(size=shape) + (1j * rng.normal(size=shape) if q.is_complex else 0)
    m = q.root.shape[-1]
    root = np.tril(0.2 * draw(q.root.shape)) + np.eye(m) * rng.uniform(0.3, 1.0, (*q.root.shape[:-1], 1))
    with jax.enable_x64(True):
        return eqx.tree_at(lambda q: (q.mean, q.root), q, (jnp.asarray(draw(q.mean.shape)), jnp.asarray(root)))


def of_u(q, Kuu, latent=0):
    """Mean and covariance of u itself: q holds those of `L^-1 u`, `Kuu = L L^H`."""
    L = np.linalg.cholesky(Kuu)
    root = L @ np.asarray(q.dense_root(latent))
    return L @ np.asarray(q.mean[latent]), root @ np.conj(root).T


# --- values -----------------------------------------------------------------------------------------------------------


@each_structure
@each_kind
def test_the_bound_agrees_with_dense_algebra_for_gaussian_noise(kind, structure):
    p = problem(kind)
    q = random_q(p, structure)
    Kuu, Kuf, variances = p.covariances
    expected = reference.gaussian_elbo(Kuu, Kuf, variances, *of_u(q, Kuu), p.noise, p.y, p.is_complex)
    assert hx.elbo(*p.model, q, *p.data) == pytest.approx(expected, rel=1e-8)


LIKELIHOODS = {
    "logit": (hx.likelihoods.Bernoulli("logit"), lambda y: y > 0, lambda y, f: -np.logaddexp(0, -(2 * y - 1) * f)),
    "Poisson": (hx.likelihoods.Poisson(), lambda y: np.floor(np.abs(y)), None),
    "Student-t": (hx.likelihoods.StudentT(3.0, 0.5), lambda y: y, None),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_bound_agrees_with_quadrature_for_other_likelihoods(name):
    p = problem("real")
    likelihood, labels, log_prob = LIKELIHOODS[name]
    y = labels(p.y).astype(float)
    if log_prob is None:
        log_prob = lambda y, f: np.asarray(likelihood.log_prob(y + 0 * f, f))
    q = random_q(p)
    Kuu, Kuf, variances = p.covariances
    m, S = of_u(q, Kuu)
    marginals = reference.marginals(Kuu, Kuf, variances, m, S)
    data = np.sum(reference.expected(lambda n, f: log_prob(y[n], f), *marginals))
    expected = data - reference.kl(m, S, Kuu, complex_valued=False)
    assert hx.elbo(p.kernel, p.features, likelihood, q, p.X, y) == pytest.approx(expected, rel=1e-8)


def test_several_latent_processes_have_independent_priors_and_share_the_data():
    p = problem("real")
    likelihood, labels = hx.likelihoods.Softmax(3), np.arange(N) % 3.0
    q = random_q(p, n_latent=3)
    Kuu, Kuf, variances = p.covariances
    each = [of_u(q, Kuu, latent) for latent in range(3)]
    mean, variance = np.transpose([reference.marginals(Kuu, Kuf, variances, m, S) for m, S in each], (1, 2, 0))
    data = np.sum(np.asarray(likelihood.expected_log_prob(labels, mean, variance)))
    expected = data - sum(reference.kl(m, S, Kuu, complex_valued=False) for m, S in each)
    assert hx.elbo(p.kernel, p.features, likelihood, q, p.X, labels) == pytest.approx(expected, rel=1e-8)


def test_a_new_q_is_the_prior():
    for kind in KINDS:
        p = problem(kind)
        q = hx.VariationalGaussian(p.features, p.kernel)
        size = P * M * (1 if kind == "complex" else 2)
        assert q.mean.shape == (1, size)
        assert q.is_complex == (kind == "complex")
        with jax.enable_x64(True):
            assert float(kl_divergence(q)) == 0
        prior = hx.posterior(*p.model[:2], q)
        np.testing.assert_allclose(prior.covariance(p.X), p.kernel(p.X), rtol=0, atol=1e-10)
        assert np.max(np.abs(prior.mean(p.X))) == 0


@pytest.mark.parametrize(
    ("kind", "structure", "shape"),
    [
        ("real", "dense", (1, 1, 4 * M, 4 * M)),
        ("real", "block", (1, 2 * P, M, M)),
        ("Hermitian", "block", (1, P, 2 * M, 2 * M)),
        ("complex", "block", (1, P, M, M)),
    ],
)
def test_a_block_q_has_the_blocks_of_the_prior(kind, structure, shape):
    p = problem(kind)
    assert hx.VariationalGaussian(p.features, p.kernel, structure=structure).root.shape == shape


# --- Kullback-Leibler -------------------------------------------------------------------------------------------------


@each_structure
@each_kind
def test_the_divergence_agrees_with_the_dense_formula_and_with_monte_carlo(kind, structure):
    p = problem(kind)
    q = random_q(p, structure)
    with jax.enable_x64(True):
        found = float(kl_divergence(q))
    m, root = np.asarray(q.mean[0]), np.asarray(q.dense_root())
    S, eye = root @ np.conj(root).T, np.eye(len(m))
    assert found == pytest.approx(reference.kl(m, S, eye, q.is_complex), rel=1e-12)

    rng, count = np.random.default_rng(0), 20_000
    white = rng.normal(size=(len(m), count))
    if q.is_complex:
        white = (white + 1j * rng.normal(size=white.shape)) / np.sqrt(2)
    u = m[:, None] + root @ white
    log_q = -reference.half(q.is_complex) * np.sum(np.abs(white) ** 2, axis=0) - np.linalg.slogdet(root)[1]
    if not q.is_complex:
        log_ratio = log_q + 0.5 * np.sum(u**2, axis=0)
    else:
        log_ratio = log_q - np.linalg.slogdet(root)[1] + np.sum(np.abs(u) ** 2, axis=0)
    error = np.std(log_ratio) / np.sqrt(count)
    assert found == pytest.approx(np.mean(log_ratio), abs=5 * error)


def test_entries_above_the_diagonal_of_the_root_do_not_exist():
    # An optimiser that moves q.root freely must not leave the bound.
    p = problem("real")
    q = random_q(p)
    noise = np.triu(np.random.default_rng(1).normal(size=q.root.shape[-2:]), 1)
    moved = eqx.tree_at(lambda q: q.root, q, np.asarray(q.root) + noise)
    assert hx.elbo(*p.model, moved, *p.data) == pytest.approx(hx.elbo(*p.model, q, *p.data), rel=1e-12)
    assert hx.posterior(*p.model[:2], moved).variance(p.X) == pytest.approx(hx.posterior(*p.model[:2], q).variance(p.X))


# --- minibatches ------------------------------------------------------------------------------------------------------


@each_kind
def test_minibatches_of_a_partition_average_to_the_bound(kind):
    p = problem(kind)
    q = random_q(p)
    batches = np.random.default_rng(0).permutation(N).reshape(5, N // 5)
    values = [hx.elbo(*p.model, q, p.X[rows], p.y[rows], n_total=N) for rows in batches]
    assert np.std(values) > 1e-3
    assert np.mean(values) == pytest.approx(hx.elbo(*p.model, q, *p.data), rel=1e-10)


# --- the optimum ------------------------------------------------------------------------------------------------------


@each_kind
def test_no_q_beats_the_collapsed_bound_and_the_textbooks_optimum_reaches_it(kind):
    p = problem(kind)
    Kuu, Kuf, _ = p.covariances
    L = np.linalg.cholesky(Kuu)
    m, S = reference.optimal_q(Kuu, Kuf, p.noise, p.y)
    white = np.linalg.solve(L, np.linalg.cholesky((S + np.conj(S).T) / 2))
    q = random_q(p)
    with jax.enable_x64(True):
        lower = np.linalg.cholesky(white @ np.conj(white).T)[None, None]
        best = eqx.tree_at(lambda q: (q.mean, q.root), q, (jnp.asarray(np.linalg.solve(L, m)[None]), jnp.asarray(lower)))
    collapsed = hx.collapsed_bound(p.kernel, p.features, p.noise, p.data)
    assert hx.elbo(*p.model, best, *p.data) == pytest.approx(collapsed, abs=1e-7)
    for seed in range(5):
        assert hx.elbo(*p.model, random_q(p, seed=seed), *p.data) < collapsed
    # At an optimum every direction leads down.
    for seed in range(3):
        direction = random_q(p, seed=seed)
        for step in (-1e-3, 1e-3):
            with jax.enable_x64(True):
                near = jax.tree.map(lambda a, b: a + step * b, best, direction)
            assert hx.elbo(*p.model, near, *p.data) < collapsed

"""Natural-gradient steps are those of the definition; with Gaussian noise one of size 1 is the solution."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inference.problems import N, problem
from inference.test_stochastic_bound import each_kind, of_u, random_q
from references import inference as reference

import harmix as hx


def covariance(q, latent=0):
    root = np.asarray(q.dense_root(latent))
    return root @ np.conj(root).T


def distance(q, other):
    """The largest difference of means and covariances."""
    latents = range(q.mean.shape[0])
    means = np.max(np.abs(np.asarray(q.mean) - np.asarray(other.mean)))
    return max(means, *(np.max(np.abs(covariance(q, c) - covariance(other, c))) for c in latents))


# --- Gaussian noise ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "D"), [("real", 1), ("Hermitian", 2), ("complex", 1)])
def test_one_step_of_size_one_lands_on_the_collapsed_bound_from_anywhere(kind, D):
    p = problem(kind, D)
    collapsed = hx.collapsed_bound(p.kernel, p.features, p.noise, p.data)
    Kuu, Kuf, _ = p.covariances
    m, S = reference.optimal_q(Kuu, Kuf, p.noise, p.y)
    for seed in range(5):
        q = hx.natural_gradient_step(*p.model, random_q(p, seed=seed), *p.data)
        assert abs(hx.elbo(*p.model, q, *p.data) - collapsed) <= 1e-8
        found_m, found_S = of_u(q, Kuu)
        np.testing.assert_allclose(found_m, m, rtol=0, atol=1e-7 * np.max(np.abs(m)))
        np.testing.assert_allclose(found_S, S, rtol=0, atol=1e-7 * np.max(np.abs(Kuu)))
    assert distance(q, hx.natural_gradient_step(*p.model, q, *p.data)) <= 1e-9


@each_kind
def test_a_block_q_rises_monotonically_to_its_own_optimum(kind):
    # The components overlap; the optimal means are those of the dense q, the precisions its diagonal blocks.
    p = problem(kind)
    Kuu, Kuf, variances = p.covariances
    L = np.linalg.cholesky(Kuu)
    A = np.linalg.solve(L, Kuf)
    precision = np.eye(len(A)) + A @ np.conj(A).T / p.noise
    blocks = np.kron(np.eye(len(A) // block_size(p)), np.ones((block_size(p),) * 2))
    m, S = np.linalg.solve(precision, A @ p.y / p.noise), np.linalg.inv(precision * blocks)
    optimum = reference.gaussian_elbo(Kuu, Kuf, variances, L @ m, L @ S @ np.conj(L).T, p.noise, p.y, p.is_complex)

    q = random_q(p, "block")
    values = [hx.elbo(*p.model, q, *p.data)]
    for step in range(150):
        q = hx.natural_gradient_step(*p.model, q, *p.data, step_size=1.0 if step else 0.3)
        values.append(hx.elbo(*p.model, q, *p.data))
    assert np.all(np.diff(values) >= -1e-9 * abs(optimum))
    assert values[-1] == pytest.approx(optimum, rel=1e-8)
    assert optimum < hx.collapsed_bound(p.kernel, p.features, p.noise, p.data) - 1e-3
    gradient = elbo_gradient(p, q)
    assert max(np.max(np.abs(leaf)) for leaf in jax.tree.leaves(gradient)) <= 1e-4 * abs(values[0])


def block_size(p):
    return hx.features.kuu(p.features, p.kernel).blocks.shape[1]


def elbo_gradient(p, q):
    with jax.enable_x64(True):
        return eqx.filter_jit(eqx.filter_grad(lambda q: hx.elbo(*p.model, q, *p.data)))(q)


# --- the definition ---------------------------------------------------------------------------------------------------


def by_definition(p, likelihood, y, q, rho):
    """Natural parameters plus rho times the gradient in expectation parameters, by automatic differentiation.

    | real    | (S^-1 m, -S^-1 / 2) | (m, S + m m^T) |
    | complex | (S^-1 m, -S^-1)     | (m, S + m m^H) |
    """

    def bound(expectation):
        mean, second = expectation
        S = second - mean[:, :, None] * jnp.conj(mean[:, None, :])
        root = jnp.linalg.cholesky((S + jnp.conj(jnp.swapaxes(S, 1, 2))) / 2)
        moved = eqx.tree_at(lambda q: (q.mean, q.root), q, (mean, root[:, None]))
        return hx.elbo(p.kernel, p.features, likelihood, moved, p.X, y)

    with jax.enable_x64(True):
        m = q.mean
        S = q.root[:, 0] @ jnp.conj(jnp.swapaxes(q.root[:, 0], 1, 2))
        expectation = (m, S + m[:, :, None] * jnp.conj(m[:, None, :]))
        d_mean, d_second = (np.asarray(g) for g in jax.jit(jax.grad(bound))(expectation))
    m, S = np.asarray(m), np.asarray(S)
    if q.is_complex:
        # JAX: dL = Re(g dz). The natural parameters pair with the expectations as 2 Re(a^H m) + tr(B E), so that
        # a takes conj(g) / 2 and B the Hermitian part of g^T.
        half, d_mean = 1.0, np.conj(d_mean) / 2
        d_second = np.swapaxes(d_second, 1, 2)
    else:
        half = 0.5
    d_second = (d_second + np.conj(np.swapaxes(d_second, 1, 2))) / 2
    inverse = np.linalg.inv(S)
    first = np.einsum("cij,cj->ci", inverse, m) + rho * d_mean
    second = -half * inverse + rho * d_second
    S = np.linalg.inv(-second / half)
    return np.einsum("cij,cj->ci", S, first), S


def assert_is_the_definition(p, likelihood, y, q, rho):
    m, S = by_definition(p, likelihood, y, q, rho)
    new = hx.natural_gradient_step(p.kernel, p.features, likelihood, q, p.X, y, step_size=rho)
    for c in range(len(m)):
        np.testing.assert_allclose(np.asarray(new.mean[c]), m[c], rtol=0, atol=1e-8 * np.max(np.abs(m)))
        np.testing.assert_allclose(covariance(new, c), S[c], rtol=0, atol=1e-8 * np.max(np.abs(S)))


@each_kind
def test_the_step_is_the_definition_for_gaussian_noise(kind):
    p = problem(kind)
    assert_is_the_definition(p, p.model[2], p.y, random_q(p), rho=0.3)


@pytest.mark.parametrize(
    ("likelihood", "labels"),
    [
        (hx.likelihoods.Poisson(), lambda y: np.floor(np.abs(y))),
        (hx.likelihoods.StudentT(4.0, 0.5), lambda y: y),
        (hx.likelihoods.Softmax(3), lambda y: np.arange(N) % 3.0),
    ],
    ids=["Poisson", "Student-t", "Softmax"],
)
def test_the_step_is_the_definition_for_other_likelihoods(likelihood, labels):
    p = problem("real")
    q = random_q(p, n_latent=likelihood.n_latent)
    assert_is_the_definition(p, likelihood, labels(p.y), q, rho=0.05)


def test_a_small_step_of_a_block_q_is_the_definition_to_first_order():
    # Blocks move one after the other, each seeing those before; that is of second order in the step.
    p = problem("Hermitian")
    q, rho = random_q(p, "block"), 1e-5
    new = hx.natural_gradient_step(*p.model, q, *p.data, step_size=rho)
    dense = eqx.tree_at(lambda q: q.root, q, block_diagonal_root(q))
    m, S = by_definition(p, p.model[2], p.y, dense, rho)
    blocks = covariance(q) != 0
    rate = (m[0] - np.asarray(q.mean[0])) / rho
    np.testing.assert_allclose((np.asarray(new.mean[0]) - np.asarray(q.mean[0])) / rho, rate, atol=1e-2 * np.max(np.abs(rate)))
    # The restriction of a precision to blocks, to first order, is that of the change S' - S = -S dP S.
    change = np.where(blocks, np.linalg.inv(S[0]) - np.linalg.inv(covariance(q)), 0)
    found = np.linalg.inv(covariance(new)) - np.linalg.inv(covariance(q))
    np.testing.assert_allclose(found, change, atol=1e-6 * np.max(np.abs(change)))


def block_diagonal_root(q):
    with jax.enable_x64(True):
        return jnp.asarray(np.asarray(q.dense_root()))[None, None]


# --- minibatches and safety -------------------------------------------------------------------------------------------


def test_a_minibatch_that_stands_for_twice_its_data_is_data_with_half_the_noise():
    p = problem("complex")
    q = random_q(p)
    twice = hx.natural_gradient_step(*p.model, q, *p.data, step_size=0.4, n_total=2 * N)
    less_noise = hx.natural_gradient_step(*p._replace(noise=p.noise / 2).model, q, *p.data, step_size=0.4)
    assert distance(twice, less_noise) <= 1e-10


@pytest.mark.parametrize("structure", ["dense", "block"])
def test_a_likelihood_that_is_not_log_concave_never_leads_out_of_the_covariances(structure):
    # Far outliers of a narrow Student-t ask for negative precisions.
    p = problem("real")
    y = np.where(np.arange(N) % 4 == 0, 8.0 * (-1.0) ** np.arange(N), p.y)
    likelihood = hx.likelihoods.StudentT(2.0, 0.05)
    q = hx.VariationalGaussian(p.features, p.kernel, structure=structure)
    start = hx.elbo(p.kernel, p.features, likelihood, q, p.X, y)
    for _ in range(30):
        q = hx.natural_gradient_step(p.kernel, p.features, likelihood, q, p.X, y, step_size=1.0)
        assert np.all(np.isfinite(np.asarray(q.root)))
        assert np.all(np.diagonal(np.asarray(q.root), axis1=-2, axis2=-1) > 0)
    for _ in range(50):
        q = hx.natural_gradient_step(p.kernel, p.features, likelihood, q, p.X, y, step_size=0.1)
    assert hx.elbo(p.kernel, p.features, likelihood, q, p.X, y) > start


# --- inducing points at the data: nothing is lost ---------------------------------------------------------------------


@pytest.mark.parametrize("complex_process", [False, True])
def test_with_inducing_points_at_the_data_every_path_is_exact(complex_process):
    p = problem("complex" if complex_process else "real")
    at_data = p._replace(features=hx.features.InducingPoints(p.X))
    exact = hx.log_marginal_likelihood(p.kernel, p.noise, *p.data)
    assert hx.collapsed_bound(p.kernel, at_data.features, p.noise, p.data) == pytest.approx(exact, rel=1e-8)
    q = hx.natural_gradient_step(*at_data.model, random_q(at_data), *p.data)
    assert hx.elbo(*at_data.model, q, *p.data) == pytest.approx(exact, rel=1e-8)


def test_with_inducing_points_at_the_data_classification_is_that_of_the_full_variational_gaussian():
    # Opper & Archambeau (2009): S = (K^-1 + diag(l))^-1, m = K a, iterated with quadrature in numpy.
    p = problem("real")
    y, K = (p.y > 0) + 0.0, p.kernel(p.X) + 1e-10 * np.eye(N)
    sigmoid = lambda f: 1 / (1 + np.exp(-f))
    log_prob = lambda n, f: -np.logaddexp(0, -(2 * y[n] - 1) * f)
    slope = lambda n, f: y[n] - sigmoid(f)
    curvature = lambda n, f: -sigmoid(f) * sigmoid(-f)
    m, S = np.zeros(N), K
    for _ in range(100):
        g = reference.expected(slope, m, np.diagonal(S))
        l = -reference.expected(curvature, m, np.diagonal(S))
        S = K - K @ np.linalg.solve(K + np.diag(1 / l), K)
        m = 0.5 * m + 0.5 * S @ (g + l * m)
    full = np.sum(reference.expected(log_prob, m, np.diagonal(S))) - reference.kl(m, S, K, complex_valued=False)

    likelihood, features = hx.likelihoods.Bernoulli("logit"), hx.features.InducingPoints(p.X)
    q = hx.VariationalGaussian(features, p.kernel)
    for _ in range(40):
        q = hx.natural_gradient_step(p.kernel, features, likelihood, q, p.X, y, step_size=0.7)
    assert hx.elbo(p.kernel, features, likelihood, q, p.X, y) == pytest.approx(full, rel=1e-7)
    posterior = hx.posterior(p.kernel, features, q)
    np.testing.assert_allclose(posterior.mean(p.X), m, rtol=0, atol=1e-5)
    np.testing.assert_allclose(posterior.covariance(p.X), S, rtol=0, atol=1e-5)

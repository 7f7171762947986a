"""The collapsed bound is the textbook's, never above the evidence, rises with every feature and reaches the evidence."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from features.draws import SCALES
from hypothesis import given, settings
from hypothesis import strategies as st
from inference.problems import KINDS, N, P, Problem, chirps, kernel, places, problem, sample
from references import inference as reference
from references.kernels import formula, gram

import harmix as hx
from harmix.inference import collapsed

each_kind = pytest.mark.parametrize("kind", KINDS)
each_dim = pytest.mark.parametrize("D", [1, 2])


def rounding(k, s2, X, exact):
    """By how much rounding may move a bound.

    The evidence is a quadratic form in an inverse of condition n k / s2, and inherits its rounding; the variance that the
    features explain is known to 1e-10 of the prior's (rounding over the jitter of 1e-12), and is divided by s2.
    """
    condition = len(X) * np.max(k.diag(X)) / s2
    return 1e-15 * condition * abs(exact) + 1e-10 * condition + 1e-12 * abs(exact)


# --- it is what the formula says --------------------------------------------------------------------------------------


@each_dim
@each_kind
def test_the_bound_and_its_diagnostics_agree_with_dense_algebra(kind, D):
    for seed in range(3):
        p = problem(kind, D, seed)
        Kuu, Kuf, variances = p.covariances
        expected = reference.collapsed_bound(Kuu, Kuf, variances, p.noise, p.y, p.is_complex)
        bound, diagnostics = hx.collapsed_bound(p.kernel, p.features, p.noise, p.data, return_diagnostics=True)
        assert bound == pytest.approx(expected, rel=1e-8)
        missed = np.sum(variances - np.real(np.diagonal(reference.nystroem(Kuu, Kuf)))) / p.noise
        assert diagnostics.unexplained == pytest.approx(missed, rel=1e-8, abs=1e-8)
        assert 0 < diagnostics.jitter <= 1e-11
        # A summary and the data it is made of are the same.
        assert hx.collapsed_bound(p.kernel, p.features, p.noise, hx.Summary.exact(*p.data)) == bound


@each_dim
@each_kind
def test_the_evidence_agrees_with_dense_algebra(kind, D):
    p = problem(kind, D)
    X, y = p.data
    K = gram(formula(p.kernel), X, X)
    expected = reference.log_normal(y, K + p.noise * np.eye(N), p.is_complex)
    assert hx.log_marginal_likelihood(p.kernel, p.noise, X, y) == pytest.approx(expected, rel=1e-10)


@each_kind
def test_weights_are_the_inverse_of_noise_variances_of_single_observations(kind):
    p = problem(kind)
    weights = np.random.default_rng(1).uniform(0.1, 10, N)
    noise = p.noise / weights
    Kuu, Kuf, variances = p.covariances
    expected = reference.collapsed_bound(Kuu, Kuf, variances, noise, p.y, p.is_complex)
    bound = hx.collapsed_bound(p.kernel, p.features, p.noise, hx.Summary.exact(*p.data, weights))
    assert bound == pytest.approx(expected, rel=1e-8)
    assert hx.collapsed_bound(p.kernel, p.features, p.noise, (*p.data, weights)) == bound
    exact = reference.log_normal(p.y, p.kernel(p.X) + np.diag(noise), p.is_complex)
    assert hx.log_marginal_likelihood(p.kernel, p.noise, *p.data, weights) == pytest.approx(exact, rel=1e-10)


@each_kind
def test_a_weight_of_three_stands_for_three_equal_observations_but_for_a_constant(kind):
    # N(y | f, s2)^3 = N(y | f, s2 / 3) times what does not depend on f.
    p = problem(kind)
    weights = np.where(np.arange(N) % 5 == 0, 3.0, 1.0)
    X, y = (np.repeat(a, weights.astype(int), axis=0) for a in p.data)
    h = reference.half(p.is_complex)
    extra = len(X) - N
    constant = -h * (extra * np.log(np.pi * p.noise / h) + np.sum(np.log(weights)))
    repeated = hx.collapsed_bound(p.kernel, p.features, p.noise, (X, y))
    weighted = hx.collapsed_bound(p.kernel, p.features, p.noise, (*p.data, weights))
    assert repeated == pytest.approx(weighted + constant, rel=1e-10)


@pytest.mark.parametrize("kind", ["real", "Hermitian"])
def test_complex_data_of_a_process_with_a_real_kernel_have_twice_a_real_bound(kind):
    # Real and imaginary part are independent, each with half the covariance and half the noise.
    p = problem(kind)
    y = p.y + 1j * sample(np.random.default_rng(5), p.kernel, p.X, p.noise)
    half = eqx.tree_at(lambda k: k.weights, p.kernel, np.asarray(p.kernel.weights) / 2)
    parts = [hx.collapsed_bound(half, p.features, p.noise / 2, (p.X, part)) for part in (y.real, y.imag)]
    assert hx.collapsed_bound(p.kernel, p.features, p.noise, (p.X, y)) == pytest.approx(sum(parts), rel=1e-8)
    exact = [hx.log_marginal_likelihood(half, p.noise / 2, p.X, part) for part in (y.real, y.imag)]
    assert hx.log_marginal_likelihood(p.kernel, p.noise, p.X, y) == pytest.approx(sum(exact), rel=1e-10)


def test_real_data_of_a_complex_process_are_complex_data_without_an_imaginary_part():
    p = problem("complex")
    y = np.real(p.y)
    for bound in (
        lambda y: hx.collapsed_bound(p.kernel, p.features, p.noise, (p.X, y)),
        lambda y: hx.log_marginal_likelihood(p.kernel, p.noise, p.X, y),
    ):
        assert bound(y) == pytest.approx(bound(y + 0j), rel=1e-12)


@each_kind
def test_chunks_of_the_data_add_up(kind, monkeypatch):
    p = problem(kind, n=N)
    weights = np.random.default_rng(1).uniform(0.1, 10, N)
    whole = hx.collapsed_bound(p.kernel, p.features, p.noise, (*p.data, weights), return_diagnostics=True)
    monkeypatch.setattr(collapsed, "CHUNK", 7)
    # The size of a chunk is part of the compiled program.
    fresh = lambda *args: jax.jit(lambda *a: collapsed.collapse(collapsed.make_basis(*a[:2]), *a[2:])[::3])(*args)
    with jax.enable_x64(True):
        chunked = fresh(p.kernel, p.features, np.float64(p.noise), hx.Summary.exact(*p.data, weights))
    assert float(chunked[0]) == pytest.approx(whole[0], rel=1e-12)
    assert float(chunked[1].unexplained) == pytest.approx(whole[1].unexplained, rel=1e-10)


# --- a bound ----------------------------------------------------------------------------------------------------------


def some_frequencies(rng, D, kind, layout):
    """`(P, 16, D)`: anywhere, or so close that most of them are redundant."""
    w = rng.uniform(-1, 1, (P, 16, D)) * 10 ** rng.uniform(-1, 0.7) / SCALES[:D]
    if layout == "dense":
        line = np.linspace(0 if kind != "complex" else -1, 1, 16) * 10 ** rng.uniform(-0.5, 0.6)
        w = np.tile(line[:, None] / SCALES[:D], (P, 1, 1))
    if layout == "degenerate":
        w[:, 1] = w[:, 0]
        w[:, 2:4] = 0.0
        w[:, 4] = 1e-12
        w[:, 5] = 1e3
        w[:, 6] = -w[:, 0]
    return w


@settings(max_examples=100)
@given(
    kind=st.sampled_from(KINDS),
    D=st.sampled_from([1, 2]),
    layout=st.sampled_from(["anywhere", "dense", "degenerate"]),
    log_noise=st.floats(-6, 1),
    log_size=st.floats(-3, 3),
    from_model=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_bound_is_never_above_the_evidence(kind, D, layout, log_noise, log_size, from_model, seed):
    rng = np.random.default_rng(seed)
    k = kernel(rng, kind, D)
    u = hx.features.FourierFrequencies(some_frequencies(rng, D, kind, layout))
    s2, X = 10**log_noise, places(rng, D)
    if from_model:
        y = sample(rng, k, X, s2)
    else:
        y = 10**log_size * (rng.normal(size=N) + (1j * rng.normal(size=N) if kind == "complex" else 0))
    exact = hx.log_marginal_likelihood(k, s2, X, y)
    bound = hx.collapsed_bound(k, u, s2, (X, y))
    assert bound <= exact + rounding(k, s2, X, exact)


@each_dim
@each_kind
def test_the_bound_never_falls_when_a_frequency_is_added(kind, D):
    # Far outside the spectrum a feature has no variance and explains nothing: there they wait until it is their turn.
    w = np.random.default_rng(4).uniform(-1.5, 1.5, (P, 16, D)) / SCALES[:D]
    for s2 in (1e-5, 0.1):
        p = problem(kind, D, noise=s2)
        present = np.full_like(w, 1e3)
        bounds = []
        for m in range(16):
            present[:, m] = w[:, m]
            bounds.append(hx.collapsed_bound(p.kernel, hx.features.FourierFrequencies(present), s2, p.data))
        exact = hx.log_marginal_likelihood(p.kernel, s2, *p.data)
        allowed = [rounding(p.kernel, s2, p.X, b) for b in bounds]
        assert np.all(np.diff(bounds) >= -np.array(allowed[1:]))
        assert bounds[-1] > bounds[0] + 1
        assert bounds[-1] <= exact + allowed[-1]


def lattice(k, D, count, reach):
    """A grid of frequencies for each component, `(P, m, D)`; one of every pair +-w for a real process."""
    line = np.linspace(-reach, reach, count)
    w = np.stack(np.meshgrid(*[line] * D, indexing="ij"), axis=-1).reshape(-1, D)
    if k.is_real:
        w = w[len(w) // 2 :]
    return np.tile(w / SCALES[:D], (len(k.centers), 1, 1))


@each_kind
def test_enough_frequencies_reach_the_evidence_in_one_dimension(kind):
    p = problem(kind, narrow=0.6)
    assert_reached(p, hx.features.FourierFrequencies(lattice(p.kernel, 1, 41, 3.0)))


@pytest.mark.parametrize("real", [True, False])
def test_features_of_what_chirps_modulate_stay_below_the_evidence_and_reach_it(real):
    p = chirps(real)
    assert hx.collapsed_bound(p.kernel, p.features, p.noise, p.data) < hx.log_marginal_likelihood(p.kernel, p.noise, *p.data)
    line = np.linspace(-6, 6, 96)[:, None]  # of both signs: what is modulated has no mirror image
    assert_reached(p, hx.features.FourierFrequencies(np.stack([line, line])))


@each_kind
def test_some_hundred_frequencies_reach_the_evidence_in_two_dimensions(kind):
    rng, S = np.random.default_rng(0), SCALES[:2]
    mu, B = rng.uniform(-0.4, 0.4, (1, 2, 2)) / S, kernel(rng, kind, 2, P=1).weights
    k = hx.kernels.HarmonizableMixture([0.3 * S], [0.4 * S], [1.5 * S], mu, B, real=kind != "complex")
    X = places(rng, 2)
    p = Problem(k, hx.features.FourierFrequencies(lattice(k, 2, 11, 1.6)), 0.1, X, sample(rng, k, X, 0.1))
    assert_reached(p, p.features)


def assert_reached(p, features):
    exact = hx.log_marginal_likelihood(p.kernel, p.noise, *p.data)
    bound = hx.collapsed_bound(p.kernel, features, p.noise, p.data)
    assert abs(exact - bound) <= 1e-6 * abs(exact)


# --- real processes are not circular ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["real", "Hermitian"])
def test_the_bound_does_not_drop_the_pseudo_covariance_of_the_features(kind):
    # The Fourier transform of a real process has E[u(w) u(xi)] = S(w, -xi), not 0. Who forgets that finds a cosine and a
    # sine with half the variance of u each, and a "bound" that exceeds the evidence.
    rng = np.random.default_rng(0)
    k = kernel(rng, kind, 1, P=1)
    k = hx.kernels.HarmonizableMixture([[0.0]], k.windows, k.lengthscales, k.frequencies, k.weights)
    X, s2 = places(rng, 1), 0.1
    y = sample(rng, k, X, s2)
    w = np.linspace(0.1, 1.5, 7)[:, None]
    circular, pseudo = (hx.spectral.generalized_density(k, w, xi) for xi in (w, -w))
    Kuf = hx.features.kuf(hx.features.FourierFrequencies(w[None]), k, X)
    right, wrong = (
        reference.collapsed_bound(reference.parts_prior(circular, c), Kuf, k.diag(X), s2, y, complex_valued=False)
        for c in (pseudo, 0 * pseudo)
    )
    exact = hx.log_marginal_likelihood(k, s2, X, y)
    bound = hx.collapsed_bound(k, hx.features.FourierFrequencies(w[None]), s2, (X, y))
    assert bound == pytest.approx(right, rel=1e-8)
    assert bound <= exact
    assert wrong > exact + 1


# --- its derivatives, of which some are written by hand -----------------------------------------------------------------


def test_second_derivatives_are_those_of_dense_algebra():
    rng = np.random.default_rng(0)
    X, Z = np.sort(rng.uniform(0, 3, 12)), np.linspace(0, 3, 4)
    y = np.sin(3 * X)

    def bound(t):
        kernel = hx.kernels.SquaredExponential(jnp.exp(t[0]), jnp.exp(t[1]))
        features = hx.features.InducingPoints(t[3:, None])
        return hx.collapsed_bound(kernel, features, jnp.exp(t[2]), (X, y))

    def dense(t):
        v, l, s2, z = jnp.exp(t[0]), jnp.exp(t[1]), jnp.exp(t[2]), t[3:]
        k = lambda a, b: v * jnp.exp(-((a[:, None] - b[None]) ** 2) / (2 * l**2))
        Kuf = k(z, X)
        Q = Kuf.T @ jnp.linalg.solve(k(z, z) + 1e-12 * v * jnp.eye(4), Kuf)
        S = Q + s2 * jnp.eye(12)
        fit = 12 * jnp.log(2 * jnp.pi) + jnp.linalg.slogdet(S)[1] + y @ jnp.linalg.solve(S, y)
        return -fit / 2 - (12 * v - jnp.trace(Q)) / (2 * s2)

    with jax.enable_x64(True):
        t = jnp.concatenate([jnp.array([0.1, -0.3, -1.0]), Z])
        for of in (jax.grad, jax.hessian):
            np.testing.assert_allclose(of(bound)(t), of(dense)(t), rtol=1e-9, atol=1e-9)


def test_weighted_sums_change_as_their_formula_says():
    def formula(rows, a, b, whitening):
        A = (whitening @ rows.reshape(2, 3, -1)).reshape(rows.shape)
        return (A * a) @ jnp.conj(A).T, A @ b

    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.normal(size=shape) + 1j * rng.normal(size=shape)
    with jax.enable_x64(True):
        given = draw(6, 10), rng.normal(size=10), draw(10), draw(2, 3, 3), draw(6, 10), rng.normal(size=10), draw(10)
        rows, a, b, whitening, *changes = map(jnp.asarray, given)
        results = [
            jax.jvp(lambda *args, f=f: f(*args, whitening), (rows, a, b), tuple(changes))
            for f in (collapsed._whitened_sums, formula)
        ]
        for ours, expected in zip(*map(jax.tree.leaves, results), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)

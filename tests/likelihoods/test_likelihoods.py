"""Every likelihood: expectations against dense quadrature, derivatives, extremes, and what each promises."""

import dataclasses
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihoods import dense
from scipy import special, stats

import harmix as hx
from harmix.likelihoods.base import PLAIN_NODES

L = hx.likelihoods

# Instances of every likelihood with one latent, and observations that fit.
SCALAR = [
    (L.Gaussian(0.3), [0.7, -4.0]),
    (L.Bernoulli("probit"), [0.0, 1.0]),
    (L.Bernoulli("logit"), [0.0, 1.0]),
    (L.Poisson(), [0.0, 7.0, 50.0]),
    (L.Poisson(exposure=0.1), [1.0]),
    (L.StudentT(4.0, 0.1), [0.5, -6.0]),
    (L.StudentT(0.7, 1.0), [0.5]),
    (L.StudentT(200.0, 0.5), [3.0]),
]
SOFTMAX = [(L.Softmax(2), [0.0, 1.0]), (L.Softmax(4), [0.0, 3.0, 1.0])]
EVERY = SCALAR + SOFTMAX

MEANS = np.array([-10.0, -3.1, -0.2, 0.0, 1.0, 10.0])
VARIANCES = [0.0, 1e-12, 1e-4, 0.3, 2.0, 10.0, 100.0, 1e4]


def name(case):
    likelihood, _ = case
    return "-".join([type(likelihood).__name__, *(str(getattr(likelihood, f.name)) for f in dataclasses.fields(likelihood))])


scalar = pytest.mark.parametrize(("likelihood", "ys"), SCALAR, ids=map(name, SCALAR))
every = pytest.mark.parametrize(("likelihood", "ys"), EVERY, ids=map(name, EVERY))


def latents(likelihood, n, rng, scale=1.0):
    """Random means and log-uniform variances of the right shape."""
    shape = (n,) if likelihood.n_latent == 1 else (n, likelihood.n_latent)
    return scale * rng.normal(size=shape), 10 ** rng.uniform(-2, 1, size=shape)


def test_every_likelihood_is_tested():
    public = {c for _, c in inspect.getmembers(L, inspect.isclass) if issubclass(c, L.Likelihood)}
    assert public - {L.Likelihood} == {type(likelihood) for likelihood, _ in EVERY}


# --- expectations ---------------------------------------------------------------------------------------------


@scalar
def test_log_prob_is_that_of_scipy(likelihood, ys):
    for y in ys:
        actual = likelihood.log_prob(np.full(MEANS.shape, y), MEANS)
        np.testing.assert_allclose(actual, dense.log_prob(likelihood, y, MEANS), rtol=1e-12, atol=1e-14)


@scalar
@pytest.mark.parametrize("variance", VARIANCES)
def test_expected_log_prob_agrees_with_dense_quadrature(likelihood, ys, variance):
    if isinstance(likelihood, L.Poisson) and variance > 100:
        pytest.skip("e^{variance/2} overflows: see the closed form")
    for y in ys:
        g = lambda f, y=y: dense.log_prob(likelihood, y, f)
        expected = [dense.expected(g, m, variance, *dense.quick_place(likelihood, y)) for m in MEANS]
        actual = likelihood.expected_log_prob(np.full(MEANS.shape, y), MEANS, np.full(MEANS.shape, variance))
        np.testing.assert_allclose(actual, expected, rtol=1e-10 if variance < 1e3 else 1e-8, atol=1e-10)


@scalar
@pytest.mark.parametrize("variance", VARIANCES)
def test_log_density_agrees_with_dense_quadrature(likelihood, ys, variance):
    for y in ys:
        g = lambda f, y=y: dense.log_prob(likelihood, y, f)
        expected = [dense.log_expected(g, m, variance, *dense.quick_place(likelihood, y)) for m in MEANS]
        actual = likelihood.log_density(np.full(MEANS.shape, y), MEANS, np.full(MEANS.shape, variance))
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


@scalar
@pytest.mark.parametrize("variance", [v for v in VARIANCES if v <= 100])
def test_predict_agrees_with_dense_quadrature(likelihood, ys, variance):
    place = dense.quick_place(likelihood, 0.0)
    mean_y, variance_y = likelihood.predict(MEANS, np.full(MEANS.shape, variance))
    for m, actual_mean, actual_variance in zip(MEANS, mean_y, variance_y, strict=True):
        average = lambda g, m=m: dense.expected(g, m, variance, *place)
        mean = average(lambda f: dense.moments(likelihood, f)[0])
        np.testing.assert_allclose(actual_mean, mean, rtol=1e-10, atol=1e-12)
        if np.isinf(actual_variance):
            assert isinstance(likelihood, L.StudentT)
            assert likelihood.df <= 2
        elif not isinstance(likelihood, L.Poisson) or variance <= 10:  # (e^f)^2 is beyond the reference
            within = average(lambda f: dense.moments(likelihood, f)[1])
            between = average(lambda f, mean=mean: (dense.moments(likelihood, f)[0] - mean) ** 2)
            np.testing.assert_allclose(actual_variance, within + between, rtol=1e-9, atol=1e-12)


def test_counts_under_a_vague_latent():
    # The variance of y is e^{2 m + 2 v}: the closed form does not lose it, and overflow is a large number.
    mean, variance = L.Poisson().predict([0.0, 0.0, 400.0], [200.0, 1e6, 0.0])
    np.testing.assert_allclose(np.log(mean[0]), 100.0, rtol=1e-14)
    np.testing.assert_allclose(np.log(variance[0]), 400.0, rtol=1e-14)
    assert np.all(np.isfinite([mean, variance]))


def test_tails_are_accurate():
    # A probit of -200: exp(-20000), far below the smallest float; the slope and curvature of log Phi.
    x = np.array([-200.0, -40.0, -20.001, -19.999, -5.0, 3.0, 40.0])
    with jax.enable_x64(True):
        f = lambda v: L.Bernoulli().log_prob(jnp.ones(()), v)
        value, slope, curvature = (jax.vmap(g)(jnp.asarray(x)) for g in (f, jax.grad(f), jax.grad(jax.grad(f))))
        ratio = np.sqrt(2 / np.pi) / special.erfcx(-x / np.sqrt(2))
        np.testing.assert_allclose(value, stats.norm.logcdf(x), rtol=1e-13)
        np.testing.assert_allclose(slope, ratio, rtol=1e-11)
        # -r (x + r) loses 1/x^4 of its digits where scipy computes it: compare with its own series there
        np.testing.assert_allclose(curvature[:1], -1 + 1 / x[:1] ** 2 - 6 / x[:1] ** 4, rtol=1e-10)
        np.testing.assert_allclose(curvature[3:], (-ratio * (x + ratio))[3:], rtol=1e-9, atol=1e-300)


@every
def test_jensen(likelihood, ys):
    rng = np.random.default_rng(2)
    mean, variance = latents(likelihood, 30, rng, scale=4.0)
    y = rng.choice(ys, 30)
    gap = likelihood.log_density(y, mean, variance) - likelihood.expected_log_prob(y, mean, variance)
    assert np.all(gap >= -1e-9)
    assert np.max(gap) > 1e-3


@every
def test_without_variance_all_three_are_log_prob(likelihood, ys):
    rng = np.random.default_rng(3)
    mean, _ = latents(likelihood, 20, rng, scale=3.0)
    y, zero = rng.choice(ys, 20), np.zeros_like(mean)
    for method in (likelihood.expected_log_prob, likelihood.log_density):
        np.testing.assert_allclose(method(y, mean, zero), likelihood.log_prob(y, mean), rtol=1e-10, atol=2e-11)


# --- probabilities ----------------------------------------------------------------------------------------------


def test_labels_have_probabilities_that_sum_to_one():
    rng = np.random.default_rng(4)
    for likelihood, labels in [(L.Bernoulli("logit"), 2), (L.Bernoulli("probit"), 2), (L.Softmax(3), 3)]:
        mean, variance = latents(likelihood, 40, rng, scale=5.0)
        p = [np.exp(likelihood.log_density(np.full(40, c), mean, variance)) for c in range(labels)]
        np.testing.assert_allclose(sum(p), 1.0, atol=1e-9)
        predicted, _ = likelihood.predict(mean, variance)
        expected = p[1] if labels == 2 else np.stack(p, axis=1)
        np.testing.assert_allclose(predicted, expected, rtol=1e-7, atol=1e-10)


def test_counts_have_probabilities_that_sum_to_one():
    y = np.arange(3000.0)
    log_p = L.Poisson().log_density(y, np.full(y.shape, 1.0), np.full(y.shape, 0.8))
    assert np.sum(np.exp(log_p)) == pytest.approx(1.0, abs=1e-10)
    mean, variance = L.Poisson().predict([1.0], [0.8])
    assert np.sum(y * np.exp(log_p)) == pytest.approx(mean[0], rel=1e-6)
    assert np.sum((y - mean[0]) ** 2 * np.exp(log_p)) == pytest.approx(variance[0], rel=1e-4)


@pytest.mark.parametrize("likelihood", [L.Gaussian(0.3), L.StudentT(4.0, 0.1), L.StudentT(1.0, 1.0)], ids=repr)
def test_densities_integrate_to_one(likelihood):
    steps = np.linspace(-30, 30, 1201)  # y = 1 + sinh(step): heavy tails
    y, weight = 1 + np.sinh(steps), np.cosh(steps) * (steps[1] - steps[0])
    density = np.exp(likelihood.log_density(y, np.full(y.shape, 1.3), np.full(y.shape, 2.0)))
    assert np.sum(density * weight) == pytest.approx(1.0, abs=1e-9)


# --- derivatives ------------------------------------------------------------------------------------------------


def central(fn, x, h):
    """A central difference of fourth order."""
    return (8 * (fn(x + h) - fn(x - h)) - (fn(x + 2 * h) - fn(x - 2 * h))) / (12 * h)


@every
@pytest.mark.parametrize("method", ["expected_log_prob", "log_density"])
def test_gradients_agree_with_finite_differences(likelihood, ys, method):
    rng = np.random.default_rng(5)
    mean, variance = latents(likelihood, 12, rng, scale=2.0)
    y = rng.choice(ys, 12)
    direction = rng.normal(size=mean.shape)
    with jax.enable_x64(True):
        total = eqx.filter_jit(lambda lik, m, v: jnp.sum(getattr(lik, method)(y, m, v)))
        gradient = eqx.filter_jit(jax.grad(total, argnums=(0, 1, 2)))(likelihood, mean, variance)
        along_mean = lambda t: float(total(likelihood, mean + t * direction, variance))
        along_variance = lambda t: float(total(likelihood, mean, variance * (1 + t * direction)))
        scale = abs(along_mean(0.0)) + 1
        expected = central(along_mean, 0.0, 1e-3), central(along_variance, 0.0, 1e-3)
        actual = np.sum(gradient[1] * direction), np.sum(gradient[2] * variance * direction)
        np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-8 * scale)

        parameters, static = eqx.partition(likelihood, eqx.is_inexact_array)
        for i, leaf in enumerate(leaves := jax.tree.leaves(parameters)):

            def along_parameter(t, i=i, leaf=leaf):
                changed = [*leaves[:i], leaf * (1 + t), *leaves[i + 1 :]]
                tree = jax.tree.unflatten(jax.tree.structure(parameters), changed)
                return float(total(eqx.combine(tree, static), mean, variance))

            slope = jax.tree.leaves(gradient[0])[i] * leaf
            np.testing.assert_allclose(slope, central(along_parameter, 0.0, 1e-3), rtol=1e-7, atol=1e-8 * scale)


@scalar
@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e-12])
def test_without_variance_the_slope_in_it_is_half_the_curvature(likelihood, ys, variance):
    with jax.enable_x64(True):
        y, m, v = (jnp.full(5, x) for x in (ys[0], 0.0, variance))
        m = m + jnp.linspace(-3, 3, 5)
        slope = lambda method: jax.grad(lambda v: jnp.sum(method(y, m, v)))(v)
        total = lambda m: jnp.sum(likelihood.log_prob(y, m))
        first = jax.grad(total)(m)
        second = jax.grad(lambda m: jnp.sum(jax.grad(total)(m)))(m)
        np.testing.assert_allclose(slope(likelihood.expected_log_prob), second / 2, rtol=1e-8, atol=1e-13)
        expected = (second + first**2) / 2
        np.testing.assert_allclose(slope(likelihood.log_density), expected, rtol=1e-8, atol=1e-9)


@every
def test_second_derivatives_agree_with_finite_differences(likelihood, ys):
    rng = np.random.default_rng(6)
    mean, variance = latents(likelihood, 3, rng)
    y, n = np.array(ys[:1] * 3), mean.size
    with jax.enable_x64(True):
        for method in ("expected_log_prob", "log_density"):

            def total(x, method=method):
                m, v = x[:n].reshape(mean.shape), x[n:].reshape(mean.shape)
                return jnp.sum(getattr(likelihood, method)(y, m, v))

            x = jnp.concatenate([mean.ravel(), variance.ravel()])
            direction = jnp.asarray(rng.normal(size=x.shape)) * jnp.concatenate([jnp.ones(n), variance.ravel()])
            slope = jax.jit(jax.grad(total))
            actual = jax.jvp(slope, (x,), (direction,))[1]
            expected = central(lambda t, slope=slope, x=x, d=direction: np.asarray(slope(x + t * d)), 0.0, 1e-3)
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6 * np.max(np.abs(expected)))


@every
def test_no_nan_at_extremes(likelihood, ys):
    places = np.array([-1e3, -30.0, 0.0, 30.0, 1e3])
    m, v = (a.ravel() for a in np.meshgrid(places, [0.0, 1e-300, 1e-12, 1.0, 1e3, 1e6]))
    y = np.full(m.shape, ys[-1])
    if likelihood.n_latent > 1:  # every variance against another, every mean against zero
        m = np.stack([m, *[np.zeros_like(m)] * (likelihood.n_latent - 1)], axis=1)
        v = np.stack([v, *[np.roll(v, 7 * k) for k in range(1, likelihood.n_latent)]], axis=1)
    with jax.enable_x64(True):
        for method in ("expected_log_prob", "log_density"):
            total = lambda lik, m, v, method=method: jnp.sum(getattr(lik, method)(y, m, v))
            value = getattr(likelihood, method)(y, m, v)
            assert np.all(np.isfinite(value)), method
            gradients = eqx.filter_jit(jax.grad(total, argnums=(0, 1, 2)))(likelihood, m, v)
            assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(gradients)), method
        mean_y, variance_y = likelihood.predict(m, v)
        assert np.all(np.isfinite(mean_y))
        assert not np.any(np.isnan(variance_y))
        total = lambda lik, m, v: sum(jnp.sum(a) for a in lik.predict(m, v))
        gradients = eqx.filter_jit(jax.grad(total, argnums=(0, 1, 2)))(likelihood, m, v)
        assert not any(np.any(np.isnan(g)) for g in jax.tree.leaves(gradients))


# --- one class at a time --------------------------------------------------------------------------------------------


def test_complex_gaussian():
    rng = np.random.default_rng(7)
    noise, n = L.Gaussian(0.4), 6
    y = rng.normal(size=n) + 1j * rng.normal(size=n)
    m = rng.normal(size=n) + 1j * rng.normal(size=n)
    v = rng.uniform(0.1, 2.0, size=n)
    # A circular complex Gaussian is two independent real ones of half the variance.
    parts = lambda z: (z.real, z.imag)
    half = L.Gaussian(0.2)
    for method in ("expected_log_prob", "log_density"):
        expected = sum(getattr(half, method)(a, b, v / 2) for a, b in zip(parts(y), parts(m), strict=True))
        np.testing.assert_allclose(getattr(noise, method)(y, m, v), expected, rtol=1e-13)
    np.testing.assert_allclose(noise.log_prob(y, m), -np.log(np.pi * 0.4) - np.abs(y - m) ** 2 / 0.4, rtol=1e-13)
    mean, variance = noise.predict(m, v)
    np.testing.assert_array_equal(mean, m)
    np.testing.assert_allclose(variance, v + 0.4)
    assert np.iscomplexobj(noise.validate(y))
    # y real, f complex: the noise is complex still
    np.testing.assert_allclose(noise.log_density(y.real, m, v), noise.log_density(y.real + 0j, m, v))


def test_student_t_says_when_there_is_no_variance():
    for df, finite in ((2.5, True), (2.0, False), (0.5, False)):
        mean, variance = L.StudentT(df, 1.0).predict([1.0], [0.5])
        assert mean[0] == 1.0
        assert np.isfinite(variance[0]) == finite


def test_softmax_of_two_classes_is_a_logistic_of_their_difference():
    rng = np.random.default_rng(8)
    binary, both = L.Bernoulli("logit"), L.Softmax(2)
    for variance, tolerance in ((0.0, 5e-11), (1e-12, 5e-11), (1.0, 5e-10), (10.0, 1e-8), (100.0, 1e-7), (1e4, 1e-6)):
        m, v = rng.uniform(-10, 10, size=(60, 2)), np.full((60, 2), variance)
        y = rng.integers(0, 2, 60)
        f, s = m[:, 1] - m[:, 0], v.sum(axis=1)
        expected = binary.expected_log_prob(y, f, s)
        np.testing.assert_allclose(both.expected_log_prob(y, m, v), expected, rtol=tolerance, atol=tolerance)
        # small probabilities too: their logarithms agree absolutely
        expected = binary.log_density(y, f, s)
        np.testing.assert_allclose(both.log_density(y, m, v), expected, rtol=0, atol=max(tolerance / 10, 2e-11))
        p, _ = both.predict(m, v)
        np.testing.assert_allclose(p[:, 1], binary.predict(f, s)[0], rtol=0, atol=max(tolerance / 10, 2e-11))
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=max(tolerance / 10, 2e-11))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_softmax_agrees_with_tensor_quadrature(n_classes):
    rng = np.random.default_rng(9)
    likelihood, n = L.Softmax(n_classes), 4
    m, v = rng.normal(size=(n, n_classes)) * 3, 10 ** rng.uniform(-2, 0.3, size=(n, n_classes))
    p, _ = likelihood.predict(m, v)
    for y in range(n_classes):
        log_p = lambda f, y=y: f[..., y] - special.logsumexp(f, axis=-1)
        labels = np.full(n, y)
        expected = [dense.tensor_expected(log_p, *mv) for mv in zip(m, v, strict=True)]
        np.testing.assert_allclose(likelihood.expected_log_prob(labels, m, v), expected, rtol=1e-9, atol=1e-9)
        expected = [dense.tensor_expected(lambda f, g=log_p: np.exp(g(f)), *mv) for mv in zip(m, v, strict=True)]
        np.testing.assert_allclose(p[:, y], expected, rtol=1e-9)
        np.testing.assert_allclose(likelihood.log_density(labels, m, v), np.log(expected), rtol=1e-9, atol=1e-9)


def test_softmax_of_ten_classes_agrees_with_sampling():
    rng = np.random.default_rng(10)
    likelihood, draws = L.Softmax(10), 400_000
    m, v = rng.normal(size=(1, 10)) * 2, rng.uniform(0.1, 3.0, size=(1, 10))
    f = m + np.sqrt(v) * rng.normal(size=(draws, 10))
    log_p = f - special.logsumexp(f, axis=1, keepdims=True)
    p, spread = likelihood.predict(m, v)
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-11)
    np.testing.assert_allclose(spread, p * (1 - p), rtol=1e-12)
    for y in range(10):
        for actual, sample in (
            (likelihood.expected_log_prob([y], m, v)[0], log_p[:, y]),
            (np.exp(likelihood.log_density([y], m, v)[0]), np.exp(log_p[:, y])),
            (p[0, y], np.exp(log_p[:, y])),
        ):
            assert abs(actual - sample.mean()) < 4.5 * sample.std() / np.sqrt(draws)


def test_softmax_of_classes_with_very_different_variances():
    # A step of width 1 in a range of a thousand; exact is the same rule with far more nodes.
    from harmix.likelihoods import softmax

    rng = np.random.default_rng(11)
    m, v = rng.uniform(-10, 10, size=(20, 4)), 10 ** rng.uniform(-4, 2, size=(20, 4))
    y = rng.integers(0, 4, 20).astype(float)
    with jax.enable_x64(True):
        m, v = jnp.asarray(m), jnp.asarray(v)
        expected = softmax._by_point(softmax._expected_log_prob, (800, 160), m, v, y)
        np.testing.assert_allclose(L.Softmax(4).expected_log_prob(y, m, v), expected, rtol=0, atol=1e-5)
        expected = softmax._by_point(softmax._probabilities, (800, 160), m, v)
        np.testing.assert_allclose(L.Softmax(4).predict(m, v)[0], expected, rtol=0, atol=1e-6)


# --- how they are called --------------------------------------------------------------------------------------------


@every
def test_called_directly_in_a_32_bit_process(likelihood, ys):
    assert not jax.config.jax_enable_x64
    rng = np.random.default_rng(12)
    mean, variance = latents(likelihood, 4, rng)
    y = rng.choice(ys, 4)
    results = likelihood.expected_log_prob(y, mean, variance), likelihood.log_density(y, mean, variance)
    as_lists = likelihood.expected_log_prob(y.tolist(), mean.tolist(), variance.tolist())
    np.testing.assert_array_equal(as_lists, results[0])
    assert all(r.dtype == np.float64 and r.shape == (4,) for r in (*results, likelihood.log_prob(y, mean)))
    assert all(r.dtype == np.float64 and r.shape == mean.shape for r in likelihood.predict(mean, variance))
    # the user's own jit, vmap and grad
    jitted = jax.jit(lambda *a: likelihood.log_density(*a))(y, mean, variance)
    np.testing.assert_allclose(jitted, results[1], rtol=1e-6, atol=1e-6)
    mapped = jax.vmap(lambda *a: likelihood.expected_log_prob(*(x[None] for x in a))[0])(y, mean, variance)
    np.testing.assert_allclose(mapped, results[0], rtol=1e-6, atol=1e-6)
    gradient = jax.grad(lambda m: likelihood.expected_log_prob(y, m, variance)[0])(mean)
    assert np.all(np.isfinite(gradient))
    assert np.any(gradient != 0)


class Logistic(L.Likelihood):
    """What a person might write: y = f + logistic noise, log-concave, no closed forms."""

    scale: jax.Array

    def log_prob(self, y, f):
        r = (y - f) / self.scale
        return -jnp.log(self.scale) - jnp.logaddexp(r, 0.0) - jnp.logaddexp(-r, 0.0)


class ThoroughLogistic(Logistic):
    def bend(self, y):
        return y, jnp.pi * self.scale

    def moments(self, f):
        return f, jnp.full_like(f, (jnp.pi * self.scale) ** 2 / 3)


@pytest.mark.parametrize("variance", [0.0, 0.04, 1.0, 25.0])
def test_a_likelihood_of_ones_own(variance):
    log_prob = lambda f: stats.logistic.logpdf(1.5, loc=f, scale=0.7)
    m = np.array([0.0, 1.4])
    args = np.full(2, 1.5), m, np.full(2, variance)
    expected = [dense.expected(log_prob, x, variance, 1.5, 0.7) for x in m]
    for kind in (Logistic, ThoroughLogistic):
        np.testing.assert_allclose(kind(jnp.asarray(0.7)).expected_log_prob(*args), expected, rtol=1e-6)
        log_density = [dense.log_expected(log_prob, x, variance, 1.5, 0.7) for x in m]
        np.testing.assert_allclose(kind(jnp.asarray(0.7)).log_density(*args), log_density, rtol=1e-6)
    mean, variance_y = ThoroughLogistic(jnp.asarray(0.7)).predict(*args[1:])
    np.testing.assert_allclose(mean, m, atol=1e-6)
    np.testing.assert_allclose(variance_y, variance + 0.49 * np.pi**2 / 3, rtol=1e-6)
    with pytest.raises(NotImplementedError, match=r"Logistic does not say .* moments\(self, f\)"):
        Logistic(jnp.asarray(0.7)).predict(*args[1:])


def test_without_a_known_bend_nodes_resolve_a_third_of_a_standard_deviation():
    assert PLAIN_NODES >= 16 * 10


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (L.Bernoulli(), [0, 1, -1], r"0 or 1, got -1.* position 2; .*y == the_positive_label"),
        (L.Bernoulli("logit"), [0.0, 0.5], r"0 or 1, got 0.5"),
        (L.Bernoulli(), ["cat", "dog"], r"got the label .*cat.*encode"),
        (L.Poisson(), [1, 2, -3], r"counts .*got -3.* position 2; pass raw counts"),
        (L.Poisson(), [1.5], r"counts .*got 1.5"),
        (L.Softmax(3), [0, 3], r"integer from 0 to 2 .*got 3.* position 1; .*np.unique"),
        (L.Softmax(3), [0.5], r"integer from 0 to 2 .*got 0.5"),
        (L.Softmax(3), ["a", "b"], r"got the label .*a.*np.unique"),
        (L.Gaussian(1.0), [0.0, np.nan], r"y must be finite, got nan"),
        (L.Gaussian(1.0), [[0.0], [1.0]], r"shape \(n,\), got shape \(2, 1\); try y.ravel\(\)"),
        (L.StudentT(4.0, 1.0), [np.inf], r"y must be finite"),
        (L.StudentT(4.0, 1.0), [], r"y is empty"),
    ],
)
def test_unfit_labels_are_refused(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        likelihood.validate(y)


def test_complex_labels_are_for_the_gaussian():
    for likelihood in (L.StudentT(4.0, 1.0), L.Bernoulli(), L.Poisson(), L.Softmax(2)):
        with pytest.raises(TypeError, match="y must be real"):
            likelihood.validate([1j])


def test_fit_labels_become_64_bit_arrays():
    for likelihood, y in [
        (L.Bernoulli(), [True, False]),
        (L.Bernoulli(), np.array([0, 1], dtype=np.int8)),
        (L.Poisson(), [0, 3]),
        (L.Softmax(3), [2, 0]),
        (L.StudentT(4.0, 1.0), [1, 2.5]),
    ]:
        result = likelihood.validate(y)
        assert result.dtype == np.float64
        np.testing.assert_array_equal(result, np.asarray(y, dtype=float))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: L.Gaussian(0.0), "variance must be positive"),
        (lambda: L.StudentT(-1.0, 1.0), "df must be positive"),
        (lambda: L.StudentT(4.0, 0.0), "scale must be positive"),
        (lambda: L.Bernoulli("cloglog"), "'probit' or 'logit', got 'cloglog'"),
        (lambda: L.Poisson(exposure=0.0), "exposure must be a positive number"),
        (lambda: L.Softmax(1), "n_classes must be an integer of at least 2"),
        (lambda: L.Softmax(3).predict([[0.0, 1.0]], [[1.0, 1.0]]), r"mean must have shape \(n, 3\)"),
    ],
)
def test_unfit_parameters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_what_is_learned_is_declared_positive():
    from harmix.parameters import declarations, positive

    for likelihood, learned in [(L.Gaussian(1.0), {"variance"}), (L.StudentT(4.0, 1.0), {"df", "scale"})]:
        assert {k for k, d in declarations(likelihood).items() if d.domain is positive} == learned
    assert not any(jax.tree.leaves(x) for x in (L.Bernoulli(), L.Poisson(), L.Softmax(3)))

"""What every likelihood promises: expectations as by dense quadrature, derivatives, extremes, 64 bit."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihoods import dense
from likelihoods.cases import CASES, EXTREME, MEANS, NARROW, VARIANCES, call, derivatives, name

import harmix as hx

L = hx.likelihoods


# Of module scope, pytest runs all tests of one likelihood in a row, and two processes do not both compile all of them.
@pytest.fixture(scope="module", params=CASES, ids=lambda case: name(case.likelihood))
def case(request):
    return request.param


@pytest.fixture(scope="module", params=[c for c in CASES if c.likelihood.n_latent == 1], ids=lambda c: name(c.likelihood))
def scalar(request):
    return request.param


def test_every_likelihood_is_tested():
    public = {c for _, c in inspect.getmembers(L, inspect.isclass) if issubclass(c, L.Likelihood)}
    assert public - {L.Likelihood} == {type(c.likelihood) for c in CASES}


# --- values -----------------------------------------------------------------------------------------------------


def test_log_prob_and_moments_are_those_of_scipy(case):
    rows = np.r_[case.grid, case.random]
    log_prob = case.likelihood.log_prob(case.y, case.mean)[rows]
    expected = [dense.log_prob(case.likelihood, y, f) for y, f in zip(case.y[rows], case.mean[rows], strict=True)]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-12, atol=1e-14)
    mean, variance = (a[rows] for a in case.likelihood.moments(case.mean))
    expected = dense.moments(case.likelihood, case.mean[rows])
    np.testing.assert_allclose(mean, expected[0], rtol=1e-12)
    np.testing.assert_allclose(variance, expected[1], rtol=1e-12)


def grid(case):
    """Indices and `(y, mean, variance)` of the points on the grid."""
    rows = np.arange(len(case.y))[case.grid]
    return zip(rows, case.y[rows], case.mean[rows], case.variance[rows], strict=True)


def test_expected_log_prob_agrees_with_dense_quadrature(scalar):
    for i, y, m, v in grid(scalar):
        if isinstance(scalar.likelihood, L.Poisson) and v > 100:
            continue  # e^{v/2} overflows: see the closed form
        g = lambda f: dense.log_prob(scalar.likelihood, y, f)
        expected = dense.expected(g, m, v, *dense.quick_place(scalar.likelihood, y))
        tolerance = 1e-10 if v < 1e3 else 1e-8
        np.testing.assert_allclose(scalar.expected_log_prob[i], expected, rtol=tolerance, atol=1e-10, err_msg=f"{y, m, v}")


def test_log_density_agrees_with_dense_quadrature(scalar):
    for i, y, m, v in grid(scalar):
        g = lambda f: dense.log_prob(scalar.likelihood, y, f)
        expected = dense.log_expected(g, m, v, *dense.quick_place(scalar.likelihood, y))
        np.testing.assert_allclose(scalar.log_density[i], expected, rtol=1e-10, atol=1e-10, err_msg=f"{y, m, v}")


def test_predict_agrees_with_dense_quadrature(scalar):
    likelihood, place = scalar.likelihood, dense.quick_place(scalar.likelihood, 0.0)
    for i, _, m, v in list(grid(scalar))[: MEANS.size * VARIANCES.size]:  # those of the first observation
        if v > 100:
            continue
        average = lambda g: dense.expected(g, m, v, *place)
        mean = average(lambda f: dense.moments(likelihood, f)[0])
        np.testing.assert_allclose(scalar.predict[0][i], mean, rtol=1e-10, atol=1e-12)
        if np.isinf(scalar.predict[1][i]):
            assert isinstance(likelihood, L.StudentT)
            assert float(likelihood.df) <= 2
        elif not isinstance(likelihood, L.Poisson) or v <= 10:  # (e^f)^2 is beyond the reference
            within = average(lambda f: dense.moments(likelihood, f)[1])
            between = average(lambda f: (dense.moments(likelihood, f)[0] - mean) ** 2)
            np.testing.assert_allclose(scalar.predict[1][i], within + between, rtol=1e-9, atol=1e-12)


def test_jensen(case):
    gap = (case.log_density - case.expected_log_prob)[case.random]
    assert np.all(gap >= -1e-9)
    assert np.max(gap) > 1e-3


def test_without_variance_all_three_are_log_prob(case):
    zero, rows = np.zeros_like(case.mean), np.r_[case.grid, case.random]
    log_prob = case.likelihood.log_prob(case.y, case.mean)[rows]
    for method in (case.likelihood.expected_log_prob, case.likelihood.log_density):
        np.testing.assert_allclose(method(case.y, case.mean, zero)[rows], log_prob, rtol=1e-10, atol=2e-11)
    for actual, expected in zip(case.likelihood.predict(case.mean, zero), case.likelihood.moments(case.mean), strict=True):
        np.testing.assert_allclose(actual[rows], expected[rows], rtol=1e-9, atol=1e-11)


# --- probabilities ----------------------------------------------------------------------------------------------


def test_labels_have_probabilities_that_sum_to_one(case):
    classes = {"Bernoulli": 2, "Softmax": case.likelihood.n_latent}.get(type(case.likelihood).__name__)
    if classes is None:
        pytest.skip("y is not one of a few labels")
    rows = case.random
    p = [np.exp(case.likelihood.log_density(np.full_like(case.y, c), case.mean, case.variance))[rows] for c in range(classes)]
    np.testing.assert_allclose(sum(p), 1.0, atol=1e-9)
    expected = p[1] if case.likelihood.n_latent == 1 else np.stack(p, axis=1)
    np.testing.assert_allclose(case.predict[0][rows], expected, rtol=1e-7, atol=1e-10)


def test_counts_have_probabilities_that_sum_to_one():
    y = np.arange(2500.0)
    p = np.exp(call(L.Poisson().log_density, y, np.full(y.shape, 1.0), np.full(y.shape, 0.8)))
    assert np.sum(p) == pytest.approx(1.0, abs=1e-10)
    mean, variance = call(L.Poisson().predict, [1.0], [0.8])
    assert np.sum(y * p) == pytest.approx(mean[0], rel=1e-6)
    assert np.sum((y - mean[0]) ** 2 * p) == pytest.approx(variance[0], rel=1e-4)


@pytest.mark.parametrize("likelihood", [L.Gaussian(0.3), L.StudentT(4.0, 0.1), L.StudentT(1.0, 1.0)], ids=name)
def test_densities_integrate_to_one(likelihood):
    steps = np.linspace(-30, 30, 1201)  # y = 1 + sinh(step): heavy tails
    y, weight = 1 + np.sinh(steps), np.cosh(steps) * (steps[1] - steps[0])
    density = np.exp(call(likelihood.log_density, y, np.full(y.shape, 1.3), np.full(y.shape, 2.0)))
    assert np.sum(density * weight) == pytest.approx(1.0, abs=1e-9)


# --- derivatives ------------------------------------------------------------------------------------------------


def central(fn, h=1e-3):
    """The derivative of `fn` at 0 by a central difference of fourth order, for pytrees too."""
    ends = [fn(k * h) for k in (1, -1, 2, -2)]
    return jax.tree.map(lambda a, b, c, d: (8 * (a - b) - (c - d)) / (12 * h), *ends)


def at(case, section):
    """Weights of the points of one section; a direction for mean and variance, relative to the variance; none for parameters."""
    weight = np.zeros(len(case.y))
    weight[section] = 1.0
    rng = np.random.default_rng(5)
    d_mean, d_variance = rng.normal(size=case.mean.shape), case.variance * rng.normal(size=case.mean.shape)
    return weight, (jax.tree.map(jnp.zeros_like, eqx.filter(case.likelihood, eqx.is_inexact_array)), d_mean, d_variance)


@pytest.mark.parametrize("method", ["expected_log_prob", "log_density"])
def test_derivatives_agree_with_finite_differences(case, method):
    # At random points: at extreme ones, which have tests of their own, a direction as large as the variance overflows.
    rows = case.random
    y, mean, variance = case.y[rows], case.mean[rows], case.variance[rows]
    with jax.enable_x64(True):
        _, (d_parameters, *moves) = at(case, rows)
        d_mean, d_variance = (np.asarray(d)[rows] for d in moves)
        weight, direction = np.ones(len(y)), (d_parameters, d_mean, d_variance)
        gradient = lambda m, v: derivatives(case.likelihood, method, y, m, v, weight, direction)
        (_, in_mean, in_variance), change = gradient(mean, variance)

        value = lambda m, v: getattr(case.likelihood, method)(y, m, v)
        expected = central(lambda t: value(mean + t * d_mean, variance))
        actual = (in_mean * d_mean).reshape(len(expected), -1).sum(axis=1)
        np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-8)
        expected = central(lambda t: value(mean, variance + t * d_variance))
        actual = (in_variance * d_variance).reshape(len(expected), -1).sum(axis=1)
        np.testing.assert_allclose(actual, expected, rtol=1e-7, atol=1e-8)

        slopes = lambda t: gradient(mean + t * d_mean, variance + t * d_variance)[0]
        for actual, expected in zip(jax.tree.leaves(change), jax.tree.leaves(central(slopes)), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-6 * np.max(np.abs(expected)))


@pytest.mark.parametrize("method", ["expected_log_prob", "log_density"])
def test_slopes_in_parameters_agree_with_finite_differences(scalar, method):
    leaves, structure = jax.tree.flatten(eqx.filter(scalar.likelihood, eqx.is_inexact_array))
    static = eqx.filter(scalar.likelihood, eqx.is_inexact_array, inverse=True)
    with jax.enable_x64(True):
        weight, direction = at(scalar, scalar.random)
        point = scalar.y, scalar.mean, scalar.variance
        (gradient, *_), _ = derivatives(scalar.likelihood, method, *point, weight, direction)
        for i, slope in enumerate(jax.tree.leaves(gradient)):

            def along(t):
                changed = jax.tree.unflatten(structure, [a * (1 + t * (i == k)) for k, a in enumerate(leaves)])
                return np.sum(getattr(eqx.combine(changed, static), method)(*point)[scalar.random])

            np.testing.assert_allclose(slope * leaves[i], central(along), rtol=1e-7, atol=1e-6)


def test_without_variance_the_slope_in_it_is_half_the_curvature(scalar):
    rows = scalar.narrow
    with jax.enable_x64(True):
        weight, direction = at(scalar, rows)
        f = jnp.asarray(scalar.mean[rows])
        first = lambda f: jax.grad(lambda f: jnp.sum(scalar.likelihood.log_prob(scalar.y[rows], f)))(f)
        first, second = jax.jit(lambda f: jax.jvp(first, (f,), (jnp.ones_like(f),)))(f)
        point = scalar.y, scalar.mean, scalar.variance, weight, direction
        (_, _, slope), _ = derivatives(scalar.likelihood, "expected_log_prob", *point)
        np.testing.assert_allclose(slope[rows], second / 2, rtol=1e-8, atol=1e-13)
        (_, _, slope), _ = derivatives(scalar.likelihood, "log_density", *point)
        np.testing.assert_allclose(slope[rows], (second + first**2) / 2, rtol=1e-8, atol=1e-9)
    assert NARROW[1][0] == 0.0


def test_no_nan_at_extremes(case):
    assert EXTREME[1][-1] == 1e6
    assert np.all(np.isfinite([case.expected_log_prob, case.log_density]))
    assert np.all(np.isfinite(case.predict[0]))
    assert not np.any(np.isnan(case.predict[1]))
    with jax.enable_x64(True):
        weight, direction = at(case, slice(None))
        for method in ("expected_log_prob", "log_density", "predict"):
            gradient, _ = derivatives(case.likelihood, method, case.y, case.mean, case.variance, weight, direction)
            finite = np.isfinite if method != "predict" else lambda a: ~np.isnan(a)
            assert all(np.all(finite(g)) for g in jax.tree.leaves(gradient)), method


# --- how they are called ----------------------------------------------------------------------------------------


def test_called_directly_in_a_32_bit_process(case):
    assert not jax.config.jax_enable_x64
    likelihood, y, mean, variance = case.likelihood, case.y, case.mean, case.variance
    as_lists = likelihood.expected_log_prob(y.tolist(), mean.tolist(), variance.tolist())
    np.testing.assert_array_equal(as_lists, case.expected_log_prob)
    results = case.expected_log_prob, case.log_density, likelihood.log_prob(y, mean)
    assert all(r.dtype == np.float64 and r.shape == y.shape for r in results)
    assert all(r.dtype == np.float64 and r.shape == mean.shape for r in (*case.predict, *likelihood.moments(mean)))


def test_under_the_jit_vmap_and_grad_of_a_32_bit_process(case):
    rows = np.arange(len(case.y))[case.random][:4]
    y, mean, variance = case.y[rows], case.mean[rows], case.variance[rows]

    # What is done with the values outside harmix is up to the process, and one of 32 bits has no 64-bit sum.
    def one(m, i):
        mapped = jax.vmap(lambda *a: case.likelihood.expected_log_prob(*(x[None] for x in a))[0])(y, m, variance)
        return mapped[i], case.likelihood.log_density(y, m, variance)[i]

    gradients = jax.jit(lambda m: [jax.value_and_grad(lambda m: one(m, i)[k])(m) for i in range(4) for k in (0, 1)])
    found = gradients(jnp.asarray(mean, dtype=jnp.float32))
    value, slope = (np.sum([np.asarray(f[j], float) for f in found], axis=0) for j in (0, 1))
    np.testing.assert_allclose(value, np.sum((case.expected_log_prob + case.log_density)[rows]), rtol=1e-6)
    with jax.enable_x64(True):
        point = case.y, case.mean, case.variance, *at(case, case.random)
        expected = sum(derivatives(case.likelihood, k, *point)[0][1] for k in ("expected_log_prob", "log_density"))
    np.testing.assert_allclose(slope, expected[rows], rtol=1e-5, atol=1e-6)

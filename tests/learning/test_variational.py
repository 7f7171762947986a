"""L-BFGS on kernel, features, likelihood and q together climbs the bound it says it climbs, and rows count as their weights say."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import harmix as hx
from harmix.learning.variational import fit_variational

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 3, 24))
SIGNAL = np.sin(3 * X)
REAL, BINARY = SIGNAL + 0.1 * RNG.normal(size=24), (SIGNAL + 0.5 * RNG.normal(size=24) > 0).astype(float)
KERNEL = hx.kernels.SquaredExponential(1.0, 0.7)
POINTS = hx.features.InducingPoints(np.linspace(0, 3, 6)[:, None])
PROBIT = hx.likelihoods.Bernoulli()


class LengthscaleNearOne(eqx.Module):
    """A log normal lengthscale."""

    deviation: float = 0.1

    def __call__(self, kernel, features, likelihood):
        return -0.5 * (jnp.log(kernel.lengthscale) / self.deviation) ** 2


@pytest.fixture(scope="module")
def gaussian():
    return fit_variational(KERNEL, POINTS, hx.likelihoods.Gaussian(0.1), None, X, REAL)


@pytest.fixture(scope="module")
def binary():
    return fit_variational(KERNEL, POINTS, PROBIT, None, X, BINARY, max_iterations=200)


def test_with_gaussian_noise_it_ends_on_the_collapsed_bound_at_a_maximum(gaussian):
    noise = float(gaussian.likelihood.variance)
    collapsed = lambda kernel, noise: float(hx.collapsed_bound(kernel, gaussian.features, noise, (X, REAL)))
    assert gaussian.converged, gaussian.message
    assert gaussian.bound == pytest.approx(collapsed(gaussian.kernel, noise), abs=1e-4)
    k = gaussian.kernel
    for variance, lengthscale, noise_factor in ((1, 1.05, 1), (1, 0.95, 1), (1.1, 1, 1), (1, 1, 1.1)):
        moved = hx.kernels.SquaredExponential(variance * float(k.variance), lengthscale * float(k.lengthscale))
        assert collapsed(moved, noise_factor * noise) < gaussian.bound


def test_what_it_returns_is_what_it_says(binary):
    said = hx.elbo(binary.kernel, binary.features, binary.likelihood, binary.q, X, BINARY)
    assert binary.bound == pytest.approx(float(said), abs=1e-8)
    assert binary.history[-1] == pytest.approx(binary.bound)
    assert np.all(np.diff(binary.history) >= 0), "the history is the best so far"
    assert binary.seconds > 0
    # No natural-gradient step finds a better q: the optimiser brought it home along with the rest.
    better = hx.natural_gradient_step(binary.kernel, binary.features, PROBIT, binary.q, X, BINARY, step_size=0.5)
    assert hx.elbo(binary.kernel, binary.features, PROBIT, better, X, BINARY) < binary.bound + 1e-3


def test_the_history_is_bound_plus_log_prior(binary):
    prior = LengthscaleNearOne()
    held = fit_variational(KERNEL, POINTS, PROBIT, None, X, BINARY, prior=prior, max_iterations=200)
    drawn, free = (float(np.log(found.kernel.lengthscale)) for found in (held, binary))
    assert held.history[-1] == pytest.approx(held.bound - 0.5 * (drawn / prior.deviation) ** 2)
    assert held.bound < binary.bound, "nothing climbs higher than what is free to climb"
    assert abs(drawn) < abs(free), "a prior draws the lengthscale to 1"


def test_a_weight_is_a_number_of_rows_and_0_is_none():
    weights = np.ones(24)
    weights[::4], weights[1::4] = 0.0, 2.0
    repeated = np.repeat(np.arange(24), weights.astype(int))
    a = fit_variational(KERNEL, POINTS, PROBIT, None, X, BINARY, weights=weights, max_iterations=10)
    b = fit_variational(KERNEL, POINTS, PROBIT, None, X[repeated], BINARY[repeated], max_iterations=10)
    np.testing.assert_allclose(a.history, b.history, rtol=1e-6)
    # Whatever stands in a row that does not count.
    spoiled = np.where(weights > 0, BINARY, 1 - BINARY)
    c = fit_variational(KERNEL, POINTS, PROBIT, None, X, spoiled, weights=weights, max_iterations=10)
    np.testing.assert_allclose(a.history, c.history, rtol=1e-12)


def test_it_goes_on_where_it_stopped_and_stops_when_told(binary):
    seen = []

    def watch(iteration, objective):
        seen.append((iteration, objective))
        if iteration == 5:
            raise StopIteration

    first = fit_variational(KERNEL, POINTS, PROBIT, None, X, BINARY, callback=watch, max_iterations=200)
    assert [i for i, _ in seen] == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal([v for _, v in seen], first.history)
    assert not first.converged
    more = fit_variational(first.kernel, first.features, first.likelihood, first.q, X, BINARY, max_iterations=200)
    assert more.history[0] >= first.bound
    assert more.bound == pytest.approx(binary.bound, abs=0.01)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_iterations": 0}, "max_iterations must be a positive integer, got 0"),
        ({"weights": np.ones(3)}, r"weights must have one value for each row of X, shape \(24,\), got shape \(3,\)"),
        ({"weights": -np.ones(24)}, "weights must not be negative, nor all 0, got the smallest -1"),
        ({"weights": np.zeros(24)}, "nor all 0"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(options, says):
    with pytest.raises(ValueError, match=says):
        fit_variational(KERNEL, POINTS, PROBIT, None, X, BINARY, **options)

"""Predictions are the textbook's, exact and sparse, real and complex; samples have their moments; long X costs little memory."""

import subprocess
import sys

import numpy as np
import pytest
from inference.problems import KINDS, places, problem
from references import inference as reference
from references.kernels import formula, gram

import harmix as hx

each_kind = pytest.mark.parametrize("kind", KINDS)


def assert_predicts(post, X, mean, covariance, tolerance):
    scale = np.max(np.abs(mean)), np.max(np.abs(covariance))
    np.testing.assert_allclose(post.mean(X), mean, rtol=0, atol=tolerance * scale[0])
    np.testing.assert_allclose(post.covariance(X), covariance, rtol=0, atol=tolerance * scale[1])
    np.testing.assert_allclose(post.variance(X), np.real(np.diagonal(covariance)), rtol=0, atol=tolerance * scale[1])
    np.testing.assert_allclose(post.covariance(X, X[:2]), covariance[:, :2], rtol=0, atol=tolerance * scale[1])
    assert post.variance(X).dtype == np.float64


@each_kind
def test_exact_predictions_agree_with_dense_algebra(kind):
    p = problem(kind)
    new = places(np.random.default_rng(1), 1, 6)
    f = formula(p.kernel)
    expected = reference.exact_posterior(gram(f, p.X, p.X), p.noise, p.y, gram(f, p.X, new), gram(f, new, new))
    assert_predicts(hx.condition(p.kernel, None, p.noise, p.data), new, *expected, 1e-10)


@each_kind
def test_sparse_predictions_agree_with_dense_algebra(kind):
    p = problem(kind)
    new = places(np.random.default_rng(1), 1, 6)
    Kuu, Kuf, _ = p.covariances
    optimum = reference.optimal_q(Kuu, Kuf, p.noise, p.y)
    Kus = hx.features.kuf(p.features, p.kernel, new)
    expected = reference.sparse_posterior(Kuu, Kus, gram(formula(p.kernel), new, new), *optimum)
    post = hx.condition(p.kernel, p.features, p.noise, p.data)
    assert_predicts(post, new, *expected, 1e-7)
    # A natural-gradient step of size 1 ends at the same q(u), and predicts the same.
    q = hx.natural_gradient_step(*p.model, hx.VariationalGaussian(p.features, p.kernel), *p.data)
    assert_predicts(hx.posterior(*p.model[:2], q, p.model[2]), new, *expected, 1e-7)


@each_kind
def test_samples_have_the_moments_of_the_posterior_and_of_new_observations(kind):
    p, n = problem(kind), 20_000
    post, X = hx.condition(p.kernel, p.features, p.noise, p.data), np.array([-0.5, 0.1, 0.7])
    for noise in (False, True):
        f = post.sample(0, X, n, noise=noise) - post.mean(X)
        covariance = post.covariance(X) + noise * p.noise * np.eye(3)
        deviation = np.sqrt(np.real(np.diagonal(covariance)))
        error = 6 * np.outer(deviation, deviation) / np.sqrt(n)
        assert np.all(np.abs(f.T @ np.conj(f) / n - covariance) <= error)
        assert np.all(np.abs(np.mean(f, axis=0)) <= 6 * deviation / np.sqrt(n))
        if kind == "complex":  # circular
            assert np.all(np.abs(f.T @ f / n) <= error)
        np.testing.assert_allclose(post.variance(X, noise=noise), deviation**2, rtol=1e-10)


def test_far_from_the_data_the_posterior_is_the_prior_and_at_precise_data_it_is_certain():
    k = hx.kernels.SquaredExponential(2.0, 0.5)
    post = hx.condition(k, None, 1e-8, ([0.0, 1.0], [1.0, -1.0]))
    np.testing.assert_allclose(post.mean([0.0, 1.0, 50.0]), [1.0, -1.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(post.variance([0.0, 1.0, 50.0]), [0.0, 0.0, 2.0], atol=1e-7)


def test_chunks_change_nothing(monkeypatch):
    from harmix.inference import posterior

    p = problem("real")
    post = hx.condition(p.kernel, p.features, p.noise, p.data)
    X = np.linspace(-2, 2, 21)
    whole = post.mean(X), post.variance(X)
    monkeypatch.setattr(posterior, "CHUNK", 8)
    for a, b in zip((post.mean(X), post.variance(X)), whole, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


PEAK = """
import pathlib, re
import numpy as np
import harmix as hx

rng = np.random.default_rng(0)
X = np.linspace(0, 10, 200)
k = hx.kernels.HarmonizableMixture(
    np.linspace(0, 10, 6)[:, None], [[1.5]], [[1.0]], rng.uniform(1, 6, (6, 2, 1)), [[[1.0, 0.3], [0.3, 1.0]]]
)
u = hx.features.FourierFrequencies(rng.uniform(0, 6, (6, 8, 1)))
post = hx.condition(k, u, 0.1, (X, np.sin(X)))
where = np.linspace(0, 10, 1_000_000)
assert np.all(np.isfinite(post.mean(where))) and np.all(post.variance(where) >= 0)
print(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")
def test_a_million_predictions_stay_below_one_gigabyte():
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) / 1e6 < 1.0

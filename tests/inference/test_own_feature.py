"""A feature of one's own is two functions, `kuu` and `kuf`: it runs in every inference path as it is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inference.problems import KINDS, places, problem

import harmix as hx


class Contrasts(hx.features.Features):
    """`u = W f(z)`: with an invertible W these say what the values f(z) themselves say."""

    W: jax.Array
    z: jax.Array

    def kuu(self, kernel):
        return self.W @ kernel.gram(self.z, self.z) @ self.W.T

    def kuf(self, kernel, X):
        return self.W @ kernel.gram(self.z, X)


@pytest.fixture(params=KINDS)
def setting(request):
    p = problem(request.param)
    rng = np.random.default_rng(0)
    z, W = np.linspace(-2, 2, 6)[:, None], np.eye(6) + 0.3 * rng.normal(size=(6, 6))
    with jax.enable_x64(True):
        return p, Contrasts(jnp.asarray(W), jnp.asarray(z)), hx.features.InducingPoints(z)


def test_a_feature_defined_here_runs_in_every_inference_path(setting):
    p, toy, points = setting
    bound = hx.collapsed_bound(p.kernel, points, p.noise, p.data)
    assert hx.collapsed_bound(p.kernel, toy, p.noise, p.data) == pytest.approx(bound, rel=1e-9)

    noise = hx.likelihoods.Gaussian(p.noise)
    for structure in ("dense", "block"):
        q = hx.VariationalGaussian(toy, p.kernel, structure=structure)
        assert hx.elbo(p.kernel, toy, noise, q, *p.data) < bound
        q = hx.natural_gradient_step(p.kernel, toy, noise, q, *p.data)
        assert hx.elbo(p.kernel, toy, noise, q, *p.data) == pytest.approx(bound, rel=1e-9)

    new = places(np.random.default_rng(1), 1, 5)
    expected = hx.condition(p.kernel, points, p.noise, p.data)
    for post in (hx.condition(p.kernel, toy, p.noise, p.data), hx.posterior(p.kernel, toy, q, noise)):
        np.testing.assert_allclose(post.mean(new), expected.mean(new), rtol=0, atol=1e-8)
        np.testing.assert_allclose(post.covariance(new), expected.covariance(new), rtol=0, atol=1e-8)


def test_a_feature_defined_here_takes_other_likelihoods_and_the_alternating_schedule():
    p = problem("real")
    z = places(np.random.default_rng(0), 1, 6)
    with jax.enable_x64(True):
        toy = Contrasts(jnp.eye(6) + 0.1, jnp.asarray(z))
    found = hx.train_alternating(p.kernel, toy, hx.likelihoods.Bernoulli(), p.X, (p.y > 0) + 0.0, rounds=40)
    assert type(found.features) is Contrasts
    assert found.history[-1] > found.history[0] + 1

"""One likelihood at a time: what is particular to it, likelihoods of one's own, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from likelihoods import dense
from scipy import special, stats

import harmix as hx

L = hx.likelihoods


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
        all_three = jax.jit(jax.vmap(lambda v: (f(v), jax.grad(f)(v), jax.grad(jax.grad(f))(v))))
        value, slope, curvature = all_three(jnp.asarray(x))
        ratio = np.sqrt(2 / np.pi) / special.erfcx(-x / np.sqrt(2))
        np.testing.assert_allclose(value, stats.norm.logcdf(x), rtol=1e-13)
        np.testing.assert_allclose(slope, ratio, rtol=1e-11)
        # -r (x + r) loses 1/x^4 of its digits where scipy computes it: compare with its own series there
        np.testing.assert_allclose(curvature[:1], -1 + 1 / x[:1] ** 2 - 6 / x[:1] ** 4, rtol=1e-10)
        np.testing.assert_allclose(curvature[3:], (-ratio * (x + ratio))[3:], rtol=1e-9, atol=1e-300)


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


# --- likelihoods of one's own -----------------------------------------------------------------------------------


class Logistic(L.Likelihood):
    """What a person might write: y = f + logistic noise, log-concave, no closed forms."""

    scale: jax.Array

    def log_prob(self, y, f):
        r = (y - f) / self.scale
        return -jnp.log(self.scale) - jnp.logaddexp(r, 0.0) - jnp.logaddexp(-r, 0.0)

    def moments(self, f):
        return f, jnp.full_like(f, (jnp.pi * self.scale) ** 2 / 3)


class ThoroughLogistic(Logistic):
    def bend(self, y):
        return y, jnp.pi * self.scale


def test_a_likelihood_of_ones_own():
    scale = 0.7
    log_prob = lambda f: stats.logistic.logpdf(1.5, loc=f, scale=scale)
    m, v = (a.ravel() for a in np.meshgrid([0.0, 1.4], [0.0, 0.04, 1.0, 4.0, 25.0]))
    y = np.full(m.shape, 1.5)
    expected = [dense.expected(log_prob, *point, 1.5, scale) for point in zip(m, v, strict=True)]
    # Without a bend, converged for a change over a third of a standard deviation, and good enough over a seventh.
    with jax.enable_x64(True):
        plain, thorough = Logistic(jnp.asarray(scale)), ThoroughLogistic(jnp.asarray(scale))
    narrow = np.sqrt(v) <= 3 * scale
    np.testing.assert_allclose(plain.expected_log_prob(y, m, v)[narrow], np.array(expected)[narrow], rtol=1e-11)
    np.testing.assert_allclose(plain.expected_log_prob(y, m, v), expected, rtol=1e-6)
    np.testing.assert_allclose(thorough.expected_log_prob(y, m, v), expected, rtol=1e-11)
    expected = [dense.log_expected(log_prob, *point, 1.5, scale) for point in zip(m, v, strict=True)]
    np.testing.assert_allclose(plain.log_density(y, m, v), expected, rtol=1e-6)
    mean, variance = plain.predict(m, v)
    np.testing.assert_allclose(mean, m, atol=1e-6)
    np.testing.assert_allclose(variance, v + scale**2 * np.pi**2 / 3, rtol=1e-6)


def test_a_likelihood_of_ones_own_is_complete():
    class Half(L.Likelihood):
        def log_prob(self, y, f):
            return -((y - f) ** 2)

    with pytest.raises(TypeError, match=r"abstract.*moments"):
        Half()

    class Twofold(Half):
        def moments(self, f):
            return f, f

        @property
        def n_latent(self):
            return 2

        def predict(self, mean, variance):
            return mean, variance

    with pytest.raises(TypeError, match="Twofold has 2 latents, and expected_log_prob, log_density of Likelihood are for one"):
        Twofold()


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

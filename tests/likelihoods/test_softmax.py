"""Softmax against tensor quadrature, the logistic of two classes, and sampling."""

import numpy as np
from likelihoods import dense
from likelihoods.cases import BATCH, CASES, call
from scipy import special

import harmix as hx

L = hx.likelihoods


def test_three_classes_agree_with_tensor_quadrature():
    rng = np.random.default_rng(9)
    likelihood, n = L.Softmax(3), 4
    m, v = rng.normal(size=(n, 3)) * 3, 10 ** rng.uniform(-2, 0.3, size=(n, 3))
    expected = [
        dense.tensor_expected(lambda f: f - special.logsumexp(f, axis=-1, keepdims=True), *mv) for mv in zip(m, v, strict=True)
    ]
    probability = [dense.tensor_expected(lambda f: special.softmax(f, axis=-1), *mv) for mv in zip(m, v, strict=True)]
    # An absolute tolerance: the outer integral leaves out 7e-13 of its mass. It is `log_density` that is accurate
    # relative to a small probability.
    np.testing.assert_allclose(call(likelihood.predict, m, v)[0], probability, rtol=1e-9, atol=1e-12)
    for y in range(3):
        labels = np.full(n, y)
        actual = call(likelihood.expected_log_prob, labels, m, v)
        np.testing.assert_allclose(actual, np.take(expected, y, axis=1), rtol=1e-9, atol=1e-9)
        actual = call(likelihood.log_density, labels, m, v)
        np.testing.assert_allclose(actual, np.log(np.take(probability, y, axis=1)), rtol=1e-9, atol=1e-9)


def test_two_classes_are_a_logistic_of_their_difference():
    rng = np.random.default_rng(8)
    binary, both = L.Bernoulli("logit"), L.Softmax(2)
    levels = {0.0: 5e-11, 1e-12: 5e-11, 1.0: 5e-10, 10.0: 1e-8, 100.0: 1e-7, 1e4: 1e-6}
    v = np.repeat(list(levels), BATCH // len(levels))[:, None] * np.ones(2)
    tolerance = np.repeat(list(levels.values()), BATCH // len(levels))
    # and of variances that have nothing to do with each other
    v = np.concatenate([v, 10 ** rng.uniform(-4, 2, size=(BATCH - len(v), 2))])
    tolerance = np.concatenate([tolerance, np.full(BATCH - len(tolerance), 1e-6)])
    tighter = np.maximum(tolerance / 10, 2e-11)
    m, y = rng.uniform(-10, 10, size=v.shape), rng.integers(0, 2, BATCH)
    f, s = m[:, 1] - m[:, 0], v.sum(axis=1)

    expected = binary.expected_log_prob(y, f, s)
    assert np.all(np.abs(both.expected_log_prob(y, m, v) - expected) <= tolerance * (1 + np.abs(expected)))
    # small probabilities too: their logarithms agree absolutely
    assert np.all(np.abs(both.log_density(y, m, v) - binary.log_density(y, f, s)) <= tighter)
    p, _ = both.predict(m, v)
    assert np.all(np.abs(p[:, 1] - binary.predict(f, s)[0]) <= tighter)
    assert np.all(np.abs(p.sum(axis=1) - 1) <= tighter)


def test_ten_classes_agree_with_sampling():
    rng = np.random.default_rng(10)
    likelihood, draws = L.Softmax(10), 400_000
    m, v = rng.normal(size=10) * 2, rng.uniform(0.1, 3.0, size=10)
    f = m + np.sqrt(v) * rng.normal(size=(draws, 10))
    log_p = f - special.logsumexp(f, axis=1, keepdims=True)
    rows = np.tile(m, (10, 1)), np.tile(v, (10, 1))  # every label under the same latents
    p, spread = (a[0] for a in likelihood.predict(*rows))
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-11)
    np.testing.assert_allclose(spread, p * (1 - p), rtol=1e-12)
    for actual, sample in (
        (likelihood.expected_log_prob(np.arange(10), *rows), log_p),
        (np.exp(likelihood.log_density(np.arange(10), *rows)), np.exp(log_p)),
        (p, np.exp(log_p)),
    ):
        assert np.all(np.abs(actual - sample.mean(axis=0)) < 4.5 * sample.std(axis=0) / np.sqrt(draws))


def test_ten_classes_of_very_different_variances():
    # Steps of width 1 in a range of hundreds; the reference has twenty times as many nodes in either direction.
    rng = np.random.default_rng(11)
    m, v = rng.uniform(-10, 10, size=(10, 10)), 10 ** rng.uniform(-4, 2, size=(10, 10))
    y = np.arange(10)
    expected, probability = (np.array(a) for a in zip(*(dense.gumbel(*mv) for mv in zip(m, v, strict=True)), strict=True))
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-11)
    np.testing.assert_allclose(L.Softmax(10).predict(m, v)[0], probability, rtol=0, atol=1e-6)
    np.testing.assert_allclose(L.Softmax(10).expected_log_prob(y, m, v), expected[y, y], rtol=0, atol=1e-5)
    np.testing.assert_allclose(L.Softmax(10).log_density(y, m, v), np.log(probability[y, y]), rtol=1e-4)


def test_the_size_of_the_blocks_changes_nothing():
    # One point alone, and the same among as many as need several blocks with a last one that is filled up.
    case = next(c for c in CASES if isinstance(c.likelihood, L.Softmax))
    for method in ("expected_log_prob", "log_density"):
        alone = getattr(case.likelihood, method)(case.y[-1:], case.mean[-1:], case.variance[-1:])
        np.testing.assert_allclose(alone, getattr(case, method)[-1:], rtol=1e-12)

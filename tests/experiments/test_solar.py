"""The solar experiment: its scores, its tiers, and a small run on the real record."""

import os

import numpy as np
import pytest
from scipy.stats import norm

import harmix as hx
from harmix.experiments import baselines, solar

needs_data = pytest.mark.skipif("HARMIX_DATA" not in os.environ, reason="the reference data are not here")


def test_scores_are_those_of_normal_predictions() -> None:
    rng = np.random.default_rng(0)
    mean, variance, truth = rng.normal(size=50), rng.uniform(0.5, 2.0, 50), rng.normal(size=50)
    found = solar.scores(mean, variance, truth)
    assert found["nlpd"] == pytest.approx(-np.mean(norm.logpdf(truth, mean, np.sqrt(variance))))
    inside = np.abs(truth - mean) < norm.ppf(0.975) * np.sqrt(variance)
    assert found["coverage"] == pytest.approx(inside.mean())


def test_a_tier_must_hold_at_every_seed() -> None:
    good, best = {"rmse": 0.2, "nlpd": -0.3, "coverage": 0.95}, {"rmse": 0.15, "nlpd": -0.6, "coverage": 0.95}
    assert solar.tier([best, best]) == 3
    assert solar.tier([best, good]) == 1
    assert solar.tier([best, best | {"coverage": 0.7}]) == 0
    assert solar.tier([good | {"rmse": 0.18, "nlpd": -0.4}]) == 2


@needs_data
def test_a_small_fit_beats_drawing_lines() -> None:
    data = hx.datasets.load_solar()
    X, y = data.data[data.train], data.target[data.train]
    posterior = hx.fit((X, y), n_components=3, n_frequencies=2, n_restarts=1, max_iterations=120).posterior
    Z, truth = data.data[data.test], data.target[data.test]
    found = solar.scores(posterior.mean(Z), posterior.variance(Z, noise=True), truth)
    line = np.interp(Z[:, 0], X[:, 0], y)
    assert found["rmse"] < np.sqrt(np.mean((line - truth) ** 2))


@needs_data
def test_the_exact_matern_is_that_of_gpflow() -> None:
    """GPflow 2.11 on this protocol: objective 90.2, RMSE .496, NLPD .662."""
    data = hx.datasets.load_solar()
    X, y = data.data[data.train], data.target[data.train]
    model = baselines.learn(baselines.stationary_starts("Matern-5/2", X, y, 2), None, 0.1, X, y)
    Z, truth = data.data[data.test], data.target[data.test]
    found = solar.scores(model.posterior.mean(Z), model.posterior.variance(Z, noise=True), truth)
    assert model.objective == pytest.approx(90.2, abs=0.1)
    assert found["rmse"] == pytest.approx(0.496, abs=2e-3)
    assert found["nlpd"] == pytest.approx(0.662, abs=5e-3)


@pytest.mark.slow
@needs_data
def test_the_whole_experiment(tmp_path) -> None:
    found = solar.run(tmp_path, seeds=2, nuts_seeds=1)
    assert found["tier"] >= 1
    assert found["inducing_frequencies"] <= 50
    assert (tmp_path / "solar.png").stat().st_size > 50_000

"""The banana experiment: what its table says is measured on labels that were left out, and it keeps its promises."""

import matplotlib as mpl

mpl.use("Agg")

import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread

from harmix.experiments import banana
from harmix.experiments.banana import Row


@pytest.fixture
def moons(monkeypatch):
    """Two arcs in place of the data set: small, and there without files."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    angle = np.pi * rng.uniform(size=60)
    X = np.column_stack([np.cos(angle) + y, np.where(y == 1, 0.3 - np.sin(angle), np.sin(angle))]) + 0.1 * rng.normal(
        size=(60, 2)
    )
    monkeypatch.setattr(banana, "load_banana", lambda: SimpleNamespace(data=X, target=y))
    monkeypatch.setattr(banana, "FOLDS", 3)


def test_cross_validation_shows_no_model_the_labels_it_is_judged_by():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    seen = []

    class Recalls:
        """Sure of every row it has seen, and undecided elsewhere."""

        def __init__(self, weights):
            self.weights = weights
            seen.append(weights)

        def probability(self, X, averaged=True):
            return np.where(self.weights > 0, np.clip(y, 0.01, 0.99), 0.5)

    score = banana.cross_validate(Recalls, X, y, seed=0)
    assert score["log_score"] == pytest.approx(np.log(2))
    np.testing.assert_array_equal(np.sum([w == 0 for w in seen], axis=0), np.ones(20))
    assert len(seen) == banana.FOLDS


def test_scores():
    y, p = np.array([0, 1, 1, 0]), np.array([0.1, 0.8, 0.4, 0.6])
    assert banana.accuracy(p, y) == 0.5
    assert banana.log_score(p, y) == pytest.approx(-np.mean(np.log([0.9, 0.8, 0.4, 0.4])))


def test_a_small_run_writes_figures_table_and_pictures(moons, tmp_path):
    chosen = [Row("SE, points", 8), Row("HMK, frequencies", 1)]
    returned = banana.run(tmp_path, seeds=2, chosen=chosen, max_iterations=40)
    result = json.loads((tmp_path / "banana.json").read_text())
    assert result == returned
    assert [(r["method"], r["features"]) for r in result["rows"]] == [("SE, points", 8), ("HMK, frequencies", 8)]
    for r in result["rows"]:
        assert r["bound"] == pytest.approx(max(r["bounds_of_restarts"]), abs=10)
        assert r["training_accuracy"] > 0.75
        assert 0 < r["cv_log_score"] < np.log(2)
        assert len(r["cv_log_score_of_folds"]) == 3
    assert result["spread"]["finite"] == 2
    lines = (tmp_path / "banana.md").read_text().splitlines()
    assert "[-138.9]" in lines[2]
    assert lines[3].startswith("| HMK, 4 x 1 frequencies | 8 |")
    for name in result["pictures"]:
        assert np.std(imread(tmp_path / name)[..., :3]) > 0.05, "an empty picture"


@pytest.mark.slow
@pytest.mark.skipif("HARMIX_DATA" not in os.environ, reason="needs the data set")
def test_the_full_run_keeps_its_promises(tmp_path):
    result = banana.run(tmp_path)
    by = {(r["method"], r["size"]): r for r in result["rows"]}
    for M, (bound, *_) in banana.GPFLOW.items():
        assert by["SE, points", M]["bound"] > bound - 1.5
    best = min(by["SE, points", M]["cv_log_score"] for M in banana.POINTS)
    for M, promised in banana.PROMISED_BOUNDS.items():
        r = by["HMK, frequencies", M]
        assert r["bound"] >= promised
        assert r["training_accuracy"] >= banana.PROMISED_ACCURACY
        assert r["cv_log_score"] <= best
    spread = result["spread"]
    assert spread["finite"] == spread["seeds"] == banana.SEEDS
    assert spread["within_5_of_best"] >= 18

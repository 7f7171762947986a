"""The demo: an estimator on a gappy chirp, a picture, a report, and how near all that comes to the truth."""

import functools
import json
import time

import numpy as np
import pytest

from harmix import estimators
from harmix.datasets import make_chirp
from harmix.experiments import demo


@pytest.fixture
def quick(monkeypatch):
    """The demo with one small start instead of three."""
    import harmix.cli.models  # noqa: F401  (whose annotations name the class itself)

    monkeypatch.setattr(demo, "RESTARTS", 1)
    small = functools.partial(estimators.HarmonizableGPRegressor, n_components=1, n_frequencies=2, inference="map")
    monkeypatch.setattr(estimators, "HarmonizableGPRegressor", small)


def test_it_writes_a_picture_a_report_a_model_and_the_data(quick, tmp_path):
    import harmix as hx

    found = demo.run(tmp_path / "a")
    assert found["pictures"] == ["demo.png"]
    assert json.loads((tmp_path / "a" / "demo.json").read_text()) == found
    assert (tmp_path / "a" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "the truth" in (tmp_path / "a" / found["report"]).read_text(encoding="utf-8")
    table = np.loadtxt(tmp_path / "a" / "chirp.csv", delimiter=",", skiprows=1)
    assert len(table) == found["training_points"]
    # The model that was saved is the one that was judged: on the truth in the gaps, with noise of its own.
    model = hx.load(tmp_path / "a" / "model.harmix")
    chirp = make_chirp(demo.POINTS, random_state=0)
    places = chirp.data[chirp.test]
    target = chirp.target[chirp.test] + chirp.noise * np.random.default_rng([0, 1]).standard_normal(len(places))
    np.testing.assert_allclose(np.sqrt(np.mean((model.predict(places) - target) ** 2)), found["held_out"]["rmse"])
    np.testing.assert_array_equal(table[:, :1], chirp.data[chirp.train])


def test_a_directory_that_cannot_be_made_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="choose another one with --out"):
        demo.run(tmp_path / "file" / "below")


@pytest.mark.slow
def test_it_finds_the_chirp_in_time(tmp_path):
    started = time.perf_counter()
    found = demo.run(tmp_path)
    assert found["frequency_error"] < 0.1  # of 0.5 to 4 cycles per second
    assert found["held_out"]["rmse"] < found["held_out"]["spread"]
    assert time.perf_counter() - started < 90

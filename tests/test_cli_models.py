"""`harmix fit`, `predict` and `report`: from a table to a model, forecasts and a page; what is loaded is what was fitted."""

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import harmix as hx
from harmix import cli, tables
from harmix.cli.work import hold_out

# A small model: one start, one window, no average over hyperparameters.
SMALL = ["--n-components", "1", "--n-frequencies", "2", "--restarts", "1", "--inference", "map", "--n-inducing", "8"]


def run(*arguments, stdin=None):
    """The command in this process: exit code, standard output and lines of the error stream."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["harmix", *map(str, arguments)])
        if stdin is not None:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return stop.value.code or 0, out.getvalue(), err.getvalue().splitlines()


def signal(x):
    return 3.0 + np.sin(2 * np.pi * 0.8 * x)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A directory with a table (two values missing), the model of it, and what the command said."""
    directory = tmp_path_factory.mktemp("cli")
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 10, 90))
    frame = pd.DataFrame({"x": x, "signal": signal(x) + 0.1 * rng.normal(size=90), "note": "text, with a comma"})
    frame.loc[[5, 50], "signal"] = np.nan
    frame.to_csv(directory / "data.csv", index=False)
    code, out, err = run("fit", directory / "data.csv", "--x", "X", "--y", "signal", "--out", directory / "m", *SMALL, "--json")
    assert code == 0, err
    grid = np.linspace(-0.5, 10.5, 45)
    pd.DataFrame({"x": grid}).to_csv(directory / "grid.csv", index=False)
    return directory, frame.dropna(), json.loads(out), err


def test_what_is_loaded_predicts_what_was_fitted(fitted):
    directory, frame, _, _ = fitted
    code, out, err = run("predict", directory / "m", directory / "grid.csv")
    assert (code, err) == (0, [])
    table = pd.read_csv(io.StringIO(out))
    assert list(table.columns) == ["x", "mean", "std", "lower", "upper"]
    # The same by hand, in Python.
    held = hold_out(frame[["x"]].to_numpy(), 0.2, 0)
    model = hx.HarmonizableGPRegressor(
        n_components=1, n_frequencies=2, n_inducing=8, n_restarts=1, inference="map", random_state=0
    )
    model.fit(frame.loc[~held, ["x"]], frame.loc[~held, "signal"]).partial_fit(
        frame.loc[held, ["x"]], frame.loc[held, "signal"]
    )
    grid = pd.read_csv(directory / "grid.csv")
    mean, deviation = model.predict(grid, return_std=True)
    np.testing.assert_array_equal(table["x"], grid["x"])
    np.testing.assert_allclose(table["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(table["std"], deviation, rtol=1e-12)
    np.testing.assert_allclose(table["upper"] - table["lower"], 2 * 1.6448536269514722 * deviation, rtol=1e-12)
    loaded = hx.load(directory / "m" / "model.harmix")
    np.testing.assert_allclose(loaded.predict(grid), mean, rtol=1e-12)
    inside = (grid["x"] > 0) & (grid["x"] < 10)
    assert np.sqrt(np.mean((table["mean"] - signal(grid["x"]))[inside] ** 2)) < 0.15


def test_what_fit_says_to_machines_and_to_people(fitted):
    directory, frame, result, err = fitted
    assert err == ["harmix: left out 2 of 90 rows with missing values (2 in 'signal')"]
    assert result["source"]["rows"] == 90
    assert result["source"]["used"] == len(frame) == 88
    assert Path(result["model"]) == (directory / "m" / "model.harmix").resolve()
    assert Path(result["report"]).is_file()
    assert (result["x"], result["y"]) == (["x"], "signal")
    assert result["held_out"]["count"] == round(0.2 * 88)
    assert result["held_out"]["rmse"] < 0.3
    line = max((c for c in result["components"] if c["kind"] == "oscillation"), key=lambda c: c["share"])
    assert abs(sum(line["frequency"]) / 2 - 0.8) < 0.08
    kept = json.loads((directory / "m" / "summary.json").read_text())
    assert {k: result[k] for k in kept} == kept


def test_the_command_that_made_a_model_is_in_its_report(fitted):
    import html

    directory, _, result, _ = fitted
    page = html.unescape((directory / "m" / "report.html").read_text(encoding="utf-8"))
    assert result["command"] in page
    assert result["source"]["sha256"] in page
    assert "--n-components 1" in result["command"]


def test_forecasts_through_pipes_as_json_and_into_files(fitted, tmp_path):
    directory, *_ = fitted
    code, out, _ = run("predict", directory / "m" / "model.harmix", "-", "--json", "--level", "0.5", stdin="1.5\n2.5\n")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["x"] for row in rows] == [1.5, 2.5]
    np.testing.assert_allclose(
        [row["upper"] - row["mean"] for row in rows], [0.67448975 * row["std"] for row in rows], rtol=1e-6
    )
    code, out, _ = run("predict", directory / "m", directory / "grid.csv", "--signal", "--out", tmp_path / "f.csv")
    assert (code, out) == (0, "")
    signal_only = pd.read_csv(tmp_path / "f.csv")
    _, out, _ = run("predict", directory / "m", directory / "grid.csv")
    assert np.all(signal_only["std"] < pd.read_csv(io.StringIO(out))["std"])


def test_places_without_a_value_are_left_out_and_told(fitted):
    directory, *_ = fitted
    code, out, err = run("predict", directory / "m", "-", stdin="x,other\n1,a\n,b\n3,c\n")
    assert code == 0
    assert pd.read_csv(io.StringIO(out))["x"].tolist() == [1, 3]
    assert err == ["harmix: left out 1 rows in which 'x' is missing"]


def test_far_away_a_note_says_that_nothing_is_known_there(fitted):
    directory, *_ = fitted
    code, out, err = run("predict", directory / "m", "-", stdin="x\n1000\n")
    assert code == 0
    assert len(out.splitlines()) == 2
    (line,) = err
    assert line.startswith("harmix: 1 of 1 rows of X lie outside the support")


def test_a_report_can_be_written_again_with_and_without_data(fitted, tmp_path):
    directory, *_ = fitted
    code, out, _ = run("report", directory / "m", directory / "data.csv", "--out", tmp_path / "with.html")
    assert code == 0
    assert out.split(maxsplit=1)[1].strip() == str((tmp_path / "with.html").resolve())
    code, _, _ = run("report", directory / "m", "--out", tmp_path / "without.html")
    assert code == 0
    count = lambda name: (tmp_path / name).read_text(encoding="utf-8").count("<figure ")
    assert (count("with.html"), count("without.html")) == (6, 3)


def test_a_table_without_what_the_model_needs_is_refused(fitted):
    directory, *_ = fitted
    code, out, err = run("predict", directory / "m", "-", stdin="a,b\n1,2\n")
    assert (code, out) == (2, "")
    (line,) = err
    assert "standard input has no column 'x', which the model needs" in line


def test_dates_are_told_in_a_unit_that_fits_and_asked_for_as_dates(tmp_path):
    days = pd.date_range("2021-03-01", periods=80, freq="D")
    values = np.sin(2 * np.pi * np.arange(80) / 7) + 0.05 * np.random.default_rng(0).normal(size=80)
    pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "level": values}).to_csv(tmp_path / "d.csv", index=False)
    code, out, err = run("fit", tmp_path / "d.csv", "--out", tmp_path / "m", *SMALL, "--holdout", "0")
    assert code == 0, err
    assert err == ["harmix: 'day' holds dates, counted in days from 2021-03-01T00:00:00"]
    assert "per day (period " in out
    code, out, err = run("predict", tmp_path / "m", "-", stdin="day\n2021-04-01\n2021-04-01T12:00:00Z\n")
    assert code == 0, err
    table = pd.read_csv(io.StringIO(out))
    assert table["day"].tolist() == ["2021-04-01", "2021-04-01T12:00:00Z"]
    assert abs(table["mean"][0] - np.sin(2 * np.pi * 31 / 7)) < 0.15
    code, _, err = run("predict", tmp_path / "m", "-", stdin="day\n17\n")
    assert code == 2
    assert "column 'day' holds numbers, but dates, written as 2024-01-31 are needed" in err[0]


def test_a_table_that_does_not_fit_in_memory_goes_through_summaries(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    t = rng.permutation(np.linspace(0, 40, 3000))
    days = np.datetime64("2021-01-01T00:00:00", "ms") + np.round(t * 864e5).astype("timedelta64[ms]")
    v = 5 + 2 * np.sin(2 * np.pi * 0.3 * t) + 0.3 * rng.normal(size=3000)
    v[7] = np.nan
    pd.DataFrame({"when": days, "v": v}).to_csv(tmp_path / "long.csv", index=False)
    monkeypatch.setattr(tables, "LARGEST_IN_MEMORY", 1000)
    monkeypatch.setattr(sys.modules["harmix.tables.read"], "CHUNK_ROWS", 400)
    code, out, err = run("fit", tmp_path / "long.csv", "--out", tmp_path / "m", *SMALL, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert any("is large: reading it in chunks" in line for line in err)
    assert any("left out 1 of 3,000 rows" in line for line in err)
    assert result["source"]["used"] == 2999
    line = max((c for c in result["components"] if c["kind"] == "oscillation"), key=lambda c: c["share"])
    assert abs(sum(line["frequency"]) / 2 - 0.3) < 0.02
    assert 0.25 < result["noise"] < 0.4
    model = hx.load(tmp_path / "m" / "model.harmix")
    places = pd.DataFrame({"when": days[:50]})
    np.testing.assert_allclose(model.predict(places), 5 + 2 * np.sin(2 * np.pi * 0.3 * t[:50]), atol=0.3)


def test_held_out_rows_are_stretches_of_the_record():
    x = np.random.default_rng(0).permutation(200)[:, None].astype(float)
    held = hold_out(x, 0.2, 0)
    assert held.sum() == 40
    places = np.sort(x[held, 0])
    assert 1 < np.sum(np.diff(places) > 1) + 1 < 10
    assert not held[np.argmin(x)]
    assert not held[np.argmax(x)]
    np.testing.assert_array_equal(held, hold_out(x, 0.2, 0))
    assert np.any(held != hold_out(x, 0.2, 1))
    assert not hold_out(x[:30], 0.2, 0).any()
    assert not hold_out(x, 0.0, 0).any()
    assert hold_out(np.random.default_rng(0).normal(size=(100, 2)), 0.2, 0).sum() == 20


@pytest.mark.slow
def test_the_solar_record_as_it_is(tmp_path):
    import os

    data = Path(os.environ.get("HARMIX_DATA", "../shared/data")) / "solar_irradiance.csv"
    code, out, err = run("fit", data, "--x", "year", "--y", "11yrCYCLE", "--out", tmp_path / "m", "--json")
    assert code == 0, err
    lines = [c for c in json.loads(out)["components"] if c["kind"] == "oscillation"]
    assert any(10 < 1 / (sum(c["frequency"]) / 2) < 12 for c in lines)
    pd.DataFrame({"YEAR": np.arange(1610, 2001, 7.5)}).to_csv(tmp_path / "grid.csv", index=False)
    code, out, err = run("predict", tmp_path / "m", tmp_path / "grid.csv")
    assert code == 0, err
    table = pd.read_csv(io.StringIO(out))
    model = hx.load(tmp_path / "m" / "model.harmix")
    np.testing.assert_allclose(table["mean"], model.predict(table[["YEAR"]]), rtol=1e-12)

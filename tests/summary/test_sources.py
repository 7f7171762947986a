"""The same summary from arrays, chunks, pandas, Parquet and dask; clear refusals of bad data."""

from __future__ import annotations

import numpy as np
import pytest

import harmix as hx

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

OPTIONS = dict(max_frequency=3.0, tolerance=1e-9)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 5000
    x = rng.uniform(-4, 9, n)
    return x, np.sin(5 * x) + rng.normal(size=n), rng.uniform(0.5, 2, n)


def assert_same(one: hx.Summary, other: hx.Summary) -> None:
    for name in ("nodes", "a", "b", "count", "sum_squares", "sum_log_weights"):
        np.testing.assert_allclose(np.asarray(getattr(one, name)), np.asarray(getattr(other, name)), rtol=1e-12, atol=1e-10)


def test_chunks_that_need_not_fit_in_memory(data):
    x, y, v = data
    chunks = ((x[i : i + 700], y[i : i + 700], v[i : i + 700]) for i in range(0, len(x), 700))
    assert_same(hx.summarize(chunks, **OPTIONS), hx.summarize(x, y, weights=v, **OPTIONS))


def test_pandas_frames_by_column(data):
    x, y, v = data
    frame = pd.DataFrame({"t": x, "flux": y, "w": v})
    assert_same(hx.summarize(frame, "flux", weights="w", **OPTIONS), hx.summarize(x, y, weights=v, **OPTIONS))
    with pytest.raises(ValueError, match=r"no column 'flix'.*'flux'"):
        hx.summarize(frame, "flix", **OPTIONS)


def test_parquet_files_and_folders(data, tmp_path):
    x, y, _ = data
    table = pa.table({"unused": y, "t": x, "flux": y})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=512)
    folder = tmp_path / "many"
    folder.mkdir()
    for i in range(3):
        pq.write_table(table.slice(i * 2000, 2000), folder / f"{i}.parquet")
    whole = hx.summarize(x, y, **OPTIONS)
    for path in (tmp_path / "one.parquet", str(folder)):
        assert_same(hx.summarize(path, "flux", columns="t", **OPTIONS), whole)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        hx.summarize(tmp_path / "nowhere.parquet", "flux", **OPTIONS)


def test_complex_observations_and_several_inputs(data):
    x, y, _ = data
    X = np.stack([x, y], axis=1)[:400]
    z = (y + 1j * x)[:400]
    halves = [(X[:150], z[:150]), (X[150:], z[150:])]
    assert_same(hx.summarize(halves, **OPTIONS), hx.summarize(X, z, **OPTIONS))


def test_integers_and_unsorted_data(data):
    x, y, _ = data
    order = np.argsort(x)
    assert_same(hx.summarize(x[order], y[order], **OPTIONS), hx.summarize(x, y, **OPTIONS))
    assert float(hx.summarize(np.arange(10), np.arange(10), **OPTIONS).sum_squares) == 285.0


def test_dask_arrays_and_frames_are_summarised_where_they_lie(data):
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    x, y, v = data
    whole = hx.summarize(x, y, weights=v, **OPTIONS)
    arrays = (da.from_array(a, chunks=600) for a in (x, y, v))
    X, Y, V = arrays
    assert_same(hx.summarize(X, Y, weights=V, **OPTIONS), whole)
    frame = dd.from_pandas(pd.DataFrame({"t": x, "flux": y, "w": v}), npartitions=7)
    assert_same(hx.summarize(frame, "flux", weights="w", columns=["t"], **OPTIONS), whole)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (([0.0, np.nan], [1.0, 2.0]), {}, r"X must be finite, got .*nan.* in row 1"),
        (([0.0, 1.0], [1.0, np.inf]), {}, r"y must be finite, got inf in row 1"),
        (([0.0, 1.0], [1.0]), {}, r"y must have one value for each row of X"),
        (([0.0, 1.0],), {}, r"chunk|y is missing|numbers|tuple|shape"),
        ((np.zeros(3),), {}, "y is missing"),
        ((["a"], [1.0]), {}, "arrays of numbers"),
        (([], []), {}, "empty"),
        (([0.0], [1.0]), {"max_frequency": -1.0}, "max_frequency must be positive.*-1.0"),
        (([0.0], [1.0]), {"max_frequency": [1.0, 2.0]}, "max_frequency has 2 values, but X has 1"),
        (([0.0], [1.0]), {"tolerance": 2.0}, "tolerance must be between 0 and 0.1, got 2.0"),
        (([0.0], [1.0]), {"tolerance": 1e-15}, "tolerance must be at least"),
        (([0.0], [1.0]), {"domain": (1.0, 0.0)}, "lo < hi"),
        (([0.0], [1.0]), {"weights": [-1.0]}, "weights must be positive, got -1.0"),
        (([1e12], [1.0]), {"max_frequency": 1e3}, "Subtract an offset"),
    ],
)
def test_bad_data_are_refused_by_name_and_value(args, kwargs, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hx.summarize(*args, **{**OPTIONS, **kwargs})

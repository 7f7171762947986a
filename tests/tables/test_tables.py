"""Tables as people have them: separators, headers, dates, gaps; what was read is what was written."""

import gzip
import io
import sys

import numpy as np
import pandas as pd
import pytest

from harmix.tables import TableError, TimeAxis, open_source, places, read, sources, stream
from harmix.tables.columns import time_axis

READ = sys.modules["harmix.tables.read"]


@pytest.fixture
def write(tmp_path):
    def make(content, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("t,v\n1,2.5\n2,3.5\n", "a.csv"),
        ("t\tv\n1\t2.5\n2\t3.5\n", "a.tsv"),
        ("t;v\n1;2,5\n2;3,5\n", "a.csv"),
        ("t v\n1 2.5\n2   3.5\n", "a.txt"),
        ("\ufefft,v\r\n1,2.5\r\n2,3.5\r\n", "a.csv"),
        ("# made by hand\n# t v\n1, 2.5\n\n2, 3.5\n", "a.csv"),
        ('"t","v"\n"1","2.5"\n2,3.5 # late\n', "a.csv"),
    ],
)
def test_however_it_is_written(write, text, name):
    table = read(open_source(write(text, name)))
    assert (table.x_names, table.y_name) == (("t",), "v")
    np.testing.assert_array_equal(table.x, [[1], [2]])
    np.testing.assert_array_equal(table.y, [2.5, 3.5])
    assert table.notes == ()


def test_compressed_and_through_a_pipe(write, monkeypatch):
    content = b"t,v\n1,2.5\n2,3.5\n"
    assert read(open_source(write(gzip.compress(content), "a.csv.gz"))).y.tolist() == [2.5, 3.5]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(content))))
    source = open_source("-")
    assert source.label == "standard input"
    assert read(source).y.tolist() == [2.5, 3.5]


def test_numbers_are_read_to_the_last_bit(write):
    values = np.random.default_rng(0).normal(size=500) * 10.0 ** np.random.default_rng(1).integers(-20, 20, 500)
    text = "t,v\n" + "".join(f"{i},{v!r}\n" for i, v in enumerate(values.tolist()))
    np.testing.assert_array_equal(read(open_source(write(text))).y, values)


def test_columns_by_name_whatever_their_case(write):
    source = open_source(write("Year,a,B\n1,2,3\n2,3,4\n"))
    table = read(source, x=["year"], y="b")
    assert (table.x_names, table.y_name, table.y.tolist()) == (("Year",), "B", [3, 4])
    assert read(source, x=["year", "a"]).y_name == "B"
    two = read(source, x=["B", "a"], y="Year")
    np.testing.assert_array_equal(two.x, [[3, 2], [4, 3]])
    with pytest.raises(TableError, match="no column 'c'"):
        read(source, x=["c"], y="B")


def test_missing_values_are_left_out_and_told(write):
    table = read(open_source(write("t,v\n1,2\n2,\n,3\n4,NA\n5,nan\n6,7\n")))
    assert table.x[:, 0].tolist() == [1, 6]
    assert table.notes == ("left out 4 of 6 rows with missing values (1 in 't', 3 in 'v')",)


def test_unsorted_rows_and_equal_places_are_fine(write):
    table = read(open_source(write("t,v\n3,1\n1,2\n1,5\n2,0\n")))
    assert table.x[:, 0].tolist() == [3, 1, 1, 2]


@pytest.mark.parametrize(
    ("cells", "unit", "last"),
    [
        (["2020-01-01", "2020-01-31"], "day", 30.0),
        (["2000-01-01", "2020-01-01"], "year", 7305 / 365.25),
        (["2020-01-01T00:00", "2020-01-01T12:30"], "hour", 12.5),
        (["2020-01-01 00:00:00Z", "2020-01-01T02:00:10+02:00"], "second", 10.0),
        (["1610-07-01", "2000-07-01"], "year", 390.0),
        (["2020-01", "2020-06"], "day", 152.0),
    ],
)
def test_dates_become_numbers_in_a_unit_that_fits(write, cells, unit, last):
    table = read(open_source(write("t,v\n" + "".join(f"{c},{i}\n" for i, c in enumerate(cells)))))
    assert table.axes[0].unit == unit
    assert table.x[-1, 0] - table.x[0, 0] == pytest.approx(last, rel=1e-4)
    assert f"counted in {unit}s" in table.notes[0]
    assert table.frame["t"].dtype.kind == "M"
    back = table.axes[0].moments(table.x[:, 0])
    assert np.all(np.abs(back - table.frame["t"].to_numpy()) <= np.timedelta64(1, "us"))


def test_a_unit_of_time_can_be_chosen():
    moments = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[us]")
    assert time_axis(moments, "hour") == TimeAxis("hour", "2020-01-01T00:00:00")


def test_parquet_in_memory_and_in_chunks_say_the_same(tmp_path, monkeypatch):
    frame = pd.DataFrame({"t": pd.date_range("2020-01-01", periods=50, tz="UTC"), "v": np.sin(np.arange(50.0)), "w": "text"})
    frame.loc[[3, 40], "v"] = np.nan
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.setattr(READ, "CHUNK_ROWS", 7)
    for name in ("a.parquet", "a.csv"):
        source = open_source(tmp_path / name)
        whole = read(source, x=["t"], y="v", time_unit="day")
        missing, rows = {}, [0]
        parts = list(stream(source, x=["t"], y="v", time_unit="day").chunks(missing, rows))
        assert len(parts) > 5
        np.testing.assert_array_equal(np.concatenate([p.x for p in parts]), whole.x)
        np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), whole.y)
        assert (missing, rows) == ({"v": 2}, [50])


def test_a_later_chunk_may_not_change_what_a_column_holds(write, monkeypatch):
    monkeypatch.setattr(READ, "CHUNK_ROWS", 3)
    source = open_source(write("t,v\n1,2\n2,3\n3,4\n2020-01-01,5\n2020-01-02,5\n"))
    with pytest.raises(TableError, match="column 't' holds dates, but numbers are needed"):
        list(stream(source).chunks())
    source = open_source(write("t,v\n1,2\n2,3\n3,4\n4,x\n"))
    with pytest.raises(TableError, match="'x' in row 4"):
        list(stream(source).chunks())


def test_places_to_predict_at_keep_how_they_are_written(write):
    source = open_source(write("a,T\nx,2020-01-01\ny,\nz,2020-01-03T06:00\n"))
    (found,) = places(source, ["t"], [True])
    assert found.cells == (["2020-01-01", "2020-01-03T06:00"],)
    assert found.left_out == 1
    assert list(found.frame.columns) == ["t"]
    (one,) = places(open_source(write("1\n2\n3\n", "b.csv")), ["t"], [False])
    assert one.frame["t"].tolist() == [1, 2, 3]
    with pytest.raises(TableError, match="no column 'u', which the model needs"):
        list(places(source, ["u"], [False]))
    with pytest.raises(TableError, match="column 'T' holds dates, but numbers are needed"):
        list(places(source, ["t"], [False]))


def test_a_table_of_a_million_columns_is_read_by_name(write):
    names = ",".join(f"c{i}" for i in range(200_000))
    row = ",".join("1" for _ in range(200_000))
    source = open_source(write(f"{names}\n{row}\n{row}\n"))
    assert read(source, x=["c7"], y="c199999").y.tolist() == [1, 1]
    assert source.size > sources._WIDE

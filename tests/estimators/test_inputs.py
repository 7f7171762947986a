"""Tables of people become numbers, the same way at fit and ever after; equal rows are one, to the last bit."""

import datetime

import numpy as np
import pandas as pd
import pytest

from harmix.estimators._inputs import as_numbers, input_units, merge

DAYS = pd.date_range("2020-01-01", periods=20, freq="D")


@pytest.mark.parametrize(
    "column",
    [
        DAYS,
        DAYS.tz_localize("UTC").tz_convert("Europe/Helsinki"),
        pd.Series(DAYS, name="day"),
        pd.DataFrame({"day": DAYS}),
        pd.DataFrame({"day": [d.date() for d in DAYS]}),
        pd.DataFrame({"day": [d.to_pydatetime() for d in DAYS]}, dtype=object),
        DAYS.to_numpy()[:, None],
        DAYS.to_numpy().astype("datetime64[D]")[:, None],
        np.array([[d.to_pydatetime()] for d in DAYS], dtype=object),
    ],
    ids=lambda c: type(c).__name__,
)
def test_times_in_any_form_are_days_since_the_first(column):
    numbers, (clock,) = as_numbers(column)
    assert clock.unit == "d"
    assert clock.origin == np.datetime64("2020-01-01")
    np.testing.assert_array_equal(np.asarray(numbers, float)[:, 0], np.arange(20.0))
    later, _ = as_numbers(DAYS[5:7], (clock,))  # origin and unit are frozen
    np.testing.assert_array_equal(np.asarray(later, float)[:, 0], [5.0, 6.0])
    np.testing.assert_array_equal(clock.times(np.arange(20.0)), DAYS.to_numpy().astype("datetime64[us]"))


def test_short_records_are_told_in_seconds_and_differences_have_no_origin():
    numbers, clocks = as_numbers(pd.DataFrame({"t": DAYS[:10] - DAYS[0], "v": np.arange(10.0)}))
    assert clocks == ((None, "s"), None)
    np.testing.assert_array_equal(numbers["t"], 86400.0 * np.arange(10))
    np.testing.assert_array_equal(numbers["v"], np.arange(10.0))
    assert list(numbers.columns) == ["t", "v"]
    np.testing.assert_array_equal(clocks[0].times(np.array([1.5])), np.array([1_500_000], "timedelta64[us]"))


def test_columns_must_stay_what_they_were():
    _, clocks = as_numbers(pd.DataFrame({"v": np.arange(20.0), "t": DAYS}))
    with pytest.raises(ValueError, match="column 't' of X had times when the model was fitted, and now has none"):
        as_numbers(pd.DataFrame({"v": [1.0], "t": [3.0]}), clocks)
    with pytest.raises(ValueError, match="column 'v' of X had numbers when the model was fitted, and now has times"):
        as_numbers(pd.DataFrame({"v": DAYS[:1], "t": DAYS[:1]}), clocks)
    numbers, _ = as_numbers(pd.DataFrame({"v": [1.0], "t": [pd.NaT]}).astype({"t": "datetime64[ns]"}), clocks)
    assert np.isnan(numbers["t"][0])  # which scikit-learn then refuses by name


def test_tables_without_times_are_left_alone():
    for X in ([[1.0]], np.ones((2, 2)), np.array([["a"]], dtype=object), pd.DataFrame({"a": [1]}), "nonsense"):
        assert as_numbers(X) == (X, ()) if not hasattr(X, "shape") else as_numbers(X)[0] is X
    assert as_numbers(pd.DataFrame({"d": [datetime.time(1)]}))[1] == ()


def test_a_row_of_weight_w_is_w_equal_rows_to_the_last_bit():
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(50, 2)), rng.normal(size=50) / 3, rng.integers(0, 6, 50)
    repeated = merge(X.repeat(weights, axis=0))
    used = weights > 0
    weighted = merge(X[used][::-1])
    np.testing.assert_array_equal(repeated.X, weighted.X)
    one = repeated.sum(y.repeat(weights))
    np.testing.assert_array_equal(one, weighted.sum((weights * y)[used][::-1]))
    np.testing.assert_allclose(np.sum(one), weights @ y, rtol=1e-14)
    for a, b in zip(
        input_units(repeated.X, repeated.sum(np.ones(weights.sum())), "it"),
        input_units(weighted.X, weighted.sum(1.0 * weights[used][::-1]), "it"),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_columns_that_do_not_vary_are_left_out_and_the_rest_is_brought_to_unit_deviation():
    X = np.column_stack([np.ones(4), [1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3]])
    varying, shift, spread = input_units(X, np.ones(4), "it")
    np.testing.assert_array_equal(varying, [False, True])
    scaled = (X[:, varying] - shift) / spread
    assert (np.mean(scaled), np.std(scaled)) == pytest.approx((0, 1), abs=1e-12)
    with pytest.raises(ValueError, match="all rows of X are the same"):
        input_units(np.ones((3, 2)), np.ones(3), "it")
    with pytest.raises(ValueError, match=r"column 1 of X reaches from -1e\+308 to 1e\+308"):
        input_units(np.array([[1.0, -1e308], [1.0, 1e308]]), np.ones(2), "it")

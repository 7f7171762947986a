"""One column of a table as numbers: what it holds, and what is refused."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from harmix.tables.sources import TableError, is_date

# Squares and products of what is larger, or of what is closer together than its inverse, leave the range of doubles.
LARGEST = 1e100
_COMPLEX = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?\s*[+-]\s*[\d.]+(e[+-]?\d+)?\s*\*?[ij]$", re.IGNORECASE)
_UNITS = {
    "year": 31_557_600 * 10**6,  # 365.25 days
    "day": 86_400 * 10**6,
    "hour": 3_600 * 10**6,
    "minute": 60 * 10**6,
    "second": 10**6,
    "millisecond": 1000,
    "microsecond": 1,
}
# The unit of a time axis is the longest that fits into the record so many times.
_FITS = 5


class TimeAxis(NamedTuple):
    """How dates have become numbers: in this unit, from this moment on.

    Attributes:
        unit: year (of 365.25 days), day, hour, minute, second, millisecond or microsecond.
        origin: an ISO date and time, UTC.
    """

    unit: str
    origin: str

    def numbers(self, moments: np.ndarray) -> np.ndarray:
        """Dates `(n,)` of type datetime64 as float64.

        Example:
            >>> TimeAxis("day", "2020-01-01T00:00:00").numbers(np.array(["2020-01-02T12:00"], dtype="datetime64[us]")).tolist()
            [1.5]
        """
        lag = moments.astype("datetime64[us]") - np.datetime64(self.origin, "us")
        return np.where(np.isnat(lag), np.nan, lag.astype(np.int64) / _UNITS[self.unit])

    def moments(self, numbers: np.ndarray) -> np.ndarray:
        """The inverse of `numbers`, to the microsecond."""
        ticks = np.round(np.asarray(numbers, float) * _UNITS[self.unit]).astype(np.int64)
        return np.datetime64(self.origin, "us") + ticks.astype("timedelta64[us]")


def time_axis(moments: np.ndarray, unit: str | None = None) -> TimeAxis:
    """The axis for dates `(n,)`: from the first day on, in the longest unit that fits into their range five times.

    Example:
        >>> time_axis(np.array(["2020-01-01", "2020-03-01"], dtype="datetime64[us]"))
        TimeAxis(unit='day', origin='2020-01-01T00:00:00')
    """
    first, last = np.nanmin(moments), np.nanmax(moments)
    span = int((last - first).astype("timedelta64[us]").astype(np.int64))
    chosen = next((name for name, size in _UNITS.items() if span >= _FITS * size), "microsecond") if unit is None else unit
    day = first.astype("datetime64[D]").astype("datetime64[s]")
    return TimeAxis(chosen, str(day))


def is_unit(name: str) -> bool:
    """Whether a time axis can be in this unit."""
    return name in _UNITS


UNITS = tuple(_UNITS)


class Column(NamedTuple):
    """Values of a column: numbers, with NaN where they are missing, or dates with NaT."""

    values: np.ndarray
    dates: bool


def column(series: Any, name: str, label: str, first_row: int = 0) -> Column:
    """Numbers or dates of a column of a data frame.

    Args:
        series: a pandas Series.
        name: of the column.
        label: of the file.
        first_row: how many rows came before.
    """
    import pandas
    from pandas.api import types

    row = lambda i: first_row + int(i) + 1
    place = f"{label}: column {name!r}"
    if types.is_bool_dtype(series.dtype):
        raise TableError(
            f"{place} holds true and false, not numbers; give another column, or classify (see harmix.HarmonizableGPClassifier)."
        )
    if types.is_complex_dtype(series.dtype):
        raise TableError(f"{place} holds complex numbers; give real and imaginary parts as columns of their own.")
    if isinstance(series.dtype, pandas.DatetimeTZDtype):
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    if types.is_datetime64_any_dtype(series.dtype):
        return Column(series.to_numpy().astype("datetime64[us]"), True)
    if types.is_numeric_dtype(series.dtype):
        return Column(_finite(series.to_numpy(dtype=float, na_value=np.nan), place, row), False)
    values = series.astype(object)
    present = values.notna().to_numpy()
    if not present.any():
        return Column(np.full(len(values), np.nan), False)
    odd = next((v for v in values[present] if isinstance(v, bool | list | dict | bytes | np.ndarray)), None)
    if odd is not None:
        raise TableError(f"{place} holds {type(odd).__name__} values such as {_short(odd)}, not numbers; give another column.")
    text = values[present].astype(str).str.strip()
    numbers = pandas.to_numeric(text, errors="coerce").to_numpy(dtype=float)
    where = np.flatnonzero(present)
    wrong = np.flatnonzero(np.isnan(numbers))
    if not len(wrong):
        result = np.full(len(values), np.nan)
        result[present] = numbers
        return Column(_finite(result, place, row), False)
    dates = np.array([is_date(t) for t in text])
    if dates.all():
        return Column(_dates(text, where, len(values), place, row), True)
    first = wrong[0]
    here = f"{_short(text.iloc[first])} in row {row(where[first])}"
    if dates.any() and (dates | ~np.isnan(numbers)).all():
        other = int(np.flatnonzero(~dates)[0])
        raise TableError(
            f"{place} mixes dates and numbers: {here}, but {_short(text.iloc[other])} in "
            f"row {row(where[other])}; write all of them one way."
        )
    if _COMPLEX.match(text.iloc[first]):
        raise TableError(f"{place} holds complex numbers, {here}; give real and imaginary parts as columns of their own.")
    if dates.any():
        first = int(np.flatnonzero(~dates)[0])
        raise TableError(
            f"{place} has {_short(text.iloc[first])} in row {row(where[first])}, which is no "
            "date; write dates as 2024-01-31 or 2024-01-31T12:00:00."
        )
    if len(wrong) == len(text):
        raise TableError(
            f"{place} is text, {here}; give a column of numbers, or dates written as 2024-01-31 or 2024-01-31T12:00:00."
        )
    raise TableError(f"{place} has {here}, which is no number; correct it, or leave the cell empty if the value is missing.")


def as_dates(values: Column, name: str, label: str, dates: bool) -> Column:
    """The column, refused when earlier rows of it held dates and these do not, or the other way round."""
    if values.dates == dates or not np.any(~np.isnan(values.values)):
        empty = np.full(len(values.values), np.datetime64("NaT", "us")) if dates else np.full(len(values.values), np.nan)
        return values if values.dates == dates else Column(empty, dates)
    raise TableError(f"{label}: column {name!r} mixes dates and numbers; write all of them one way.")


def _finite(values: np.ndarray, place: str, row: Any) -> np.ndarray:
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise TableError(
            f"{place} is infinite in row {row(infinite[0])}; correct it, or leave the cell empty if the value is missing."
        )
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if len(large):
        raise TableError(
            f"{place} has {values[large[0]]:g} in row {row(large[0])}, too large to compute with (above {LARGEST:g}); "
            "give it in another unit, or leave the cell empty if the value is missing."
        )
    return values


def _dates(text: Any, where: np.ndarray, count: int, place: str, row: Any) -> np.ndarray:
    import pandas

    result = np.full(count, np.datetime64("NaT", "us"))
    try:
        found = pandas.to_datetime(text, format="ISO8601", utc=True)
    except (ValueError, OverflowError):
        for at, value in zip(where, text, strict=True):
            try:
                pandas.to_datetime([value], format="ISO8601", utc=True)
            except (ValueError, OverflowError):
                raise TableError(
                    f"{place} has {_short(value)} in row {row(at)}, which is no date of the calendar; correct it."
                ) from None
        raise
    result[where] = found.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return result


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:36] + "...'"

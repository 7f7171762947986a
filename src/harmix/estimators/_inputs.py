"""From what a person passes in to what inference takes: times become numbers, equal rows become one, units are frozen at fit."""

from __future__ import annotations

import datetime
import math
from typing import Any, NamedTuple

import numpy as np

# A record of this many days or more is told in days, a shorter one in seconds.
LONG_RECORD = 10.0
_DAY, _SECOND = np.timedelta64(1, "D"), np.timedelta64(1, "s")


class Clock(NamedTuple):
    """How a column of times is read: `(time - origin) / unit`.

    Attributes:
        origin: the first time at fit; None for a column of time differences.
        unit: "d" or "s".
    """

    origin: np.datetime64 | None
    unit: str

    @property
    def step(self) -> np.timedelta64:
        """The unit."""
        return _DAY if self.unit == "d" else _SECOND

    def numbers(self, times: np.ndarray) -> np.ndarray:
        """Times as numbers, NaN where there is none."""
        return (times if self.origin is None else times - self.origin) / self.step

    def times(self, numbers: np.ndarray) -> np.ndarray:
        """The inverse, to the microsecond."""
        ticks = np.round(np.asarray(numbers, dtype=float) * (self.step / np.timedelta64(1, "us")))
        passed = ticks.astype("timedelta64[us]")
        return passed if self.origin is None else self.origin.astype("datetime64[us]") + passed


Clocks = tuple[Clock | None, ...]


def start_clock(times: np.ndarray) -> Clock:
    """The clock of a column at fit."""
    known = times[~np.isnat(times)]
    if not len(known):
        return Clock(None if times.dtype.kind == "m" else np.datetime64(0, "s"), "s")
    span = (known.max() - known.min()) / _DAY
    return Clock(None if times.dtype.kind == "m" else known.min(), "d" if span >= LONG_RECORD else "s")


def as_numbers(X: Any, clocks: Clocks | None = None) -> tuple[Any, Clocks]:
    """X with times as numbers, everything else as it is; and the clock of each column (empty if no column has times).

    Args:
        X: whatever scikit-learn takes, with columns of datetimes or time differences; or a single pandas column or index.
        clocks: those of the fit; None at fit.
    """
    if hasattr(X, "to_frame"):  # a Series or an Index: one column
        X = X.to_frame()
    columns = _time_columns(X)
    if clocks is None:
        if not columns:
            return X, ()
        clocks = tuple(start_clock(columns[i]) if i in columns else None for i in range(X.shape[1]))
    elif not columns and not any(clocks):
        return X, clocks
    frozen = clocks + (None,) * (max(columns, default=-1) + 1 - len(clocks))
    for i, clock in enumerate(frozen):
        if (clock is not None) != (i in columns) and i < np.shape(X)[-1]:
            had, has = ("times", "none") if clock else ("numbers", "times")
            raise ValueError(
                f"column {_label(X, i)} of X had {had} when the model was fitted, and now has {has}: give the same."
            )
    converted = {i: clock.numbers(columns[i]) for i, clock in enumerate(frozen) if clock is not None and i in columns}
    return _replaced(X, converted), clocks


def _label(X: Any, i: int) -> str:
    return repr(X.columns[i]) if hasattr(X, "columns") else str(i)


def _time_columns(X: Any) -> dict[int, np.ndarray]:
    """Columns made of datetimes or time differences, without time zones (in UTC)."""
    found = {}
    if hasattr(X, "iloc"):  # pandas
        for i in range(X.shape[1]):
            column = X.iloc[:, i]
            kind = getattr(column.dtype, "kind", "O")
            if kind == "O" and _is_time(column.iloc[0] if len(column) else None):
                import pandas as pd

                column, kind = pd.to_datetime(column), "M"
            if kind == "M" and getattr(column.dtype, "tz", None) is not None:
                column = column.dt.tz_convert("UTC").dt.tz_localize(None)
            if kind in "mM":
                found[i] = column.to_numpy()
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "mM":
        found = dict(enumerate(X.T))
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == object and len(X):
        found = {i: X[:, i].astype("datetime64[us]") for i in range(X.shape[1]) if _is_time(X[0, i])}
    return found


def _is_time(value: Any) -> bool:
    return isinstance(value, datetime.date | np.datetime64)


def _replaced(X: Any, columns: dict[int, np.ndarray]) -> Any:
    if hasattr(X, "iloc"):
        import pandas as pd

        parts = [pd.Series(columns[i], index=X.index) if i in columns else X.iloc[:, i] for i in range(X.shape[1])]
        return pd.concat(parts, axis=1).set_axis(X.columns, axis=1)
    if len(columns) == X.shape[1]:
        return np.stack([columns[i] for i in range(X.shape[1])], axis=1)
    X = X.copy()
    for i, values in columns.items():
        X[:, i] = values
    return X


def input_units(X: np.ndarray, weights: np.ndarray, estimator: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which columns vary, `(D,)`, and their mean and deviation, `(d,)` each; a weight is how many rows a row stands for."""
    varying = np.any(X[:1] != X, axis=0)
    if not np.any(varying):
        raise ValueError(f"all rows of X are the same: {estimator} needs two different ones at least.")
    used = X[:, varying]
    with np.errstate(over="ignore", invalid="ignore"):
        shift = np.average(used, axis=0, weights=weights)
        spread = np.sqrt(np.average((used - shift) ** 2, axis=0, weights=weights))
    if np.any(unusable := ~(np.isfinite(spread) & (spread > 0))):
        i = int(np.flatnonzero(unusable)[0])
        low, high = used[:, i].min(), used[:, i].max()
        raise ValueError(f"column {np.flatnonzero(varying)[i]} of X reaches from {low:g} to {high:g}: give it in other units.")
    return varying, shift, spread


def positive_weights(sample_weight: np.ndarray) -> np.ndarray:
    """Which rows count."""
    if np.any(sample_weight < 0):
        raise ValueError(f"sample_weight must not be negative, got {np.min(sample_weight):g}.")
    if not np.any(sample_weight > 0):
        raise ValueError("sample_weight is zero in every row: at least one weight must be positive.")
    return sample_weight > 0


class Rows(NamedTuple):
    """Rows that are equal in X as one, in lexicographic order.

    A row of weight w is the same as w equal rows, to the last bit: sums over a group are rounded once (`math.fsum`), whatever
    the number of their terms.

    Attributes:
        X: the different rows, `(G, D)`.
        place: which of them each row is, `(n,)`.
        counts: rows in each, `(G,)`.
    """

    X: np.ndarray
    place: np.ndarray
    counts: np.ndarray

    def sum(self, terms: np.ndarray) -> np.ndarray:
        """Sums `(G,)` of terms `(n,)`."""
        total = np.empty(len(self.X))
        alone = self.counts[self.place] == 1
        total[self.place[alone]] = terms[alone]
        shared = np.flatnonzero(~alone)
        shared = shared[np.argsort(self.place[shared], kind="stable")]
        ends = np.flatnonzero(np.diff(self.place[shared], append=-1)) + 1
        for rows in np.split(shared, ends[:-1]) if len(shared) else ():
            total[self.place[rows[0]]] = math.fsum(terms[rows])
        return total


def merge(X: np.ndarray) -> Rows:
    """Finds the rows that are equal."""
    keys = X[:, 0] if X.shape[1] == 1 else X
    distinct, place, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    return Rows(distinct.reshape(-1, X.shape[1]), place.reshape(-1), counts)

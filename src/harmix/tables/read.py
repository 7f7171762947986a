"""Tables as arrays: which columns are meant, which rows can be used, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from harmix.tables.columns import UNITS, Column, TimeAxis, as_dates, column, is_unit, time_axis
from harmix.tables.sources import Source, TableError, some

# Rows of a table that does not fit in memory that are looked at together.
CHUNK_ROWS = 1 << 18


class Table(NamedTuple):
    """A table in memory.

    Attributes:
        label: how messages call the file.
        x: `(n, D)`, without the rows in which something is missing.
        y: `(n,)`; None when no target was asked for.
        x_names: `(D,)`.
        y_name: of the target, or None.
        axes: for each input, how dates became numbers; None where it holds numbers.
        frame: the inputs as an estimator takes them: columns of numbers or dates.
        notes: what a person should know: rows left out, units of time.
        rows: how many rows the file has.
    """

    label: str
    x: np.ndarray
    y: np.ndarray | None
    x_names: tuple[str, ...]
    y_name: str | None
    axes: tuple[TimeAxis | None, ...]
    frame: Any
    notes: tuple[str, ...]
    rows: int


class Chunk(NamedTuple):
    """Rows of a long table."""

    x: np.ndarray
    y: np.ndarray


class Stream(NamedTuple):
    """A table that is read in chunks, again each time `chunks()` is called."""

    source: Source
    x_names: tuple[str, ...]
    y_name: str
    axes: tuple[TimeAxis | None, ...]

    def chunks(self, missing: dict[str, int] | None = None, rows: list[int] | None = None) -> Iterator[Chunk]:
        """Chunks without the rows in which something is missing.

        Args:
            missing: how many lack a value is added up here, by column.
            rows: how many there are is added up here, in its only element.
        """
        row = 0
        for frame in self.source.frames((*self.x_names, self.y_name), CHUNK_ROWS):
            values = _columns(frame, self.source.label, (*self.axes, None), row)
            row += len(frame)
            if rows is not None:
                rows[0] += len(frame)
            keep = _complete(values, (*self.x_names, self.y_name), {} if missing is None else missing)
            if keep.any():
                yield Chunk(_inputs(values[:-1], self.axes)[keep], values[-1].values[keep])


def read(
    source: Source,
    *,
    x: Sequence[str] = (),
    y: str | None = None,
    target: bool = True,
    axes: Sequence[TimeAxis | None] | None = None,
    time_unit: str | None = None,
) -> Table:
    r"""A table in memory.

    Args:
        source: from `open_source`.
        x: names of the inputs; where there are two columns, by default the one that is not the target, else the first.
        y: name of the target; by default the other one of two columns.
        target: whether there is one; to predict there is none.
        axes: of the dates, as the model has them; by default chosen to fit.
        time_unit: unit of new time axes.

    Example:
        >>> import pathlib, tempfile
        >>> from harmix.tables import open_source
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = pathlib.Path(directory, "a.csv")
        ...     _ = path.write_text("day,height\n2024-01-01,1\n2024-01-02,\n2024-01-31,3\n")
        ...     table = read(open_source(path))
        >>> table.x[:, 0].tolist(), table.axes[0].unit
        ([0.0, 30.0], 'day')
    """
    inputs, goal = choose(source, x, y, target)
    wanted = (*inputs, goal) if goal is not None else inputs
    (frame,) = source.frames(wanted, None)
    values = _columns(frame, source.label, axes, 0)
    if goal is not None and values[-1].dates:
        raise TableError(f"{source.label}: column {goal!r} holds dates, which cannot be the target; give --y another column.")
    missing: dict[str, int] = {}
    keep = _complete(values, wanted, missing)
    if not keep.any():
        empty = next((n for n, v in zip(wanted, values, strict=True) if np.all(np.isnan(v.values))), None)
        what = f"column {empty!r} has no values at all" if empty else "no row has a value in every column"
        raise TableError(f"{source.label}: {what} ({len(keep):,} rows, all missing); give another column with --x or --y.")
    found = _axes(values[: len(inputs)], axes, keep, time_unit)
    notes = missing_notes(missing, len(keep), int(np.sum(~keep))) + axis_notes(inputs, found)
    numbers = _inputs(values[: len(inputs)], found)[keep]
    return Table(
        source.label,
        numbers,
        None if goal is None else values[-1].values[keep],
        inputs,
        goal,
        found,
        _frame(inputs, values, keep),
        notes,
        len(keep),
    )


def _frame(names: Sequence[str], values: Sequence[Column], keep: np.ndarray) -> Any:
    import pandas

    columns = [pandas.Series(v.values[keep]) for v in values[: len(names)]]
    return pandas.concat(columns, axis=1).set_axis(list(names), axis=1)


class Places(NamedTuple):
    """Where predictions are asked for.

    Attributes:
        frame: the inputs as an estimator takes them.
        cells: the inputs as they are written in the file, one list for each, to be written out again.
        left_out: how many rows lacked a value.
    """

    frame: Any
    cells: tuple[list[Any], ...]
    left_out: int


def places(source: Source, names: Sequence[str], dates: Sequence[bool]) -> Iterator[Places]:
    """The inputs of a table that a model needs, chunk by chunk.

    Args:
        source: from `open_source`.
        names: of the inputs, as the model has learned them; a table with as many columns as that, of other names, will do.
        dates: whether each held dates.
    """
    alike = [[c for c in source.columns if c.casefold() == n.casefold()] for n in names]
    if all(len(found) == 1 or n in source.columns for n, found in zip(names, alike, strict=True)):
        wanted = tuple(n if n in source.columns else found[0] for n, found in zip(names, alike, strict=True))
    elif len(source.columns) == len(names):
        wanted = source.columns
    else:
        lacking = next(n for n, found in zip(names, alike, strict=True) if not found)
        raise TableError(
            f"{source.label} has no column {lacking!r}, which the model needs; its columns are {some(source.columns)}. Rename one."
        )
    # What an axis is does not matter here, only whether there is one: estimators take dates as they are.
    axes = [TimeAxis("day", "1970-01-01T00:00:00") if d else None for d in dates]
    row = total = 0
    for frame in source.frames(wanted, CHUNK_ROWS):
        values = _columns(frame, source.label, axes, row)
        row += len(frame)
        keep = _complete(values, wanted, {})
        if keep.any():
            total += int(keep.sum())
            cells = tuple(frame.iloc[:, i][keep].tolist() for i in range(len(wanted)))
            yield Places(_frame(names, values, keep), cells, int(np.sum(~keep)))
    if not total:
        raise TableError(f"{source.label}: no row has a value in {some(wanted)}; give places to predict at.")


def stream(source: Source, *, x: Sequence[str] = (), y: str | None = None, time_unit: str | None = None) -> Stream:
    """A long table, to be read in chunks; columns and time axes are settled by its first chunk.

    Args:
        source: from `open_source`.
        x: names of the inputs, as for `read`.
        y: name of the target.
        time_unit: unit of time axes.
    """
    inputs, goal = choose(source, x, y, True)
    assert goal is not None
    frame = next(iter(source.frames((*inputs, goal), CHUNK_ROWS)))
    values = _columns(frame, source.label, None, 0)
    if values[-1].dates:
        raise TableError(f"{source.label}: column {goal!r} holds dates, which cannot be the target; give --y another column.")
    keep = _complete(values[:-1], inputs, {})
    if not keep.any():
        raise TableError(
            f"{source.label}: columns {some(inputs)} have no values in the first {len(keep):,} rows; give others with --x."
        )
    return Stream(source, inputs, goal, _axes(values[:-1], None, keep, time_unit))


def choose(source: Source, x: Sequence[str], y: str | None, target: bool) -> tuple[tuple[str, ...], str | None]:
    """Input columns and target column, by name; upper and lower case may differ where that is no question."""
    names = source.columns
    inputs = tuple(_named(source, "--x", name) for name in x)
    goal = _named(source, "--y", y) if target and y is not None else None
    if len(set(inputs)) < len(inputs) or goal in inputs:
        raise TableError(
            f"{source.label}: a column is asked for twice ({some((*inputs, *([goal] if goal else [])))}); each can be used once."
        )
    rest = [name for name in names if name not in inputs and name != goal]
    if target and goal is None:
        if len(names) == 1:
            raise TableError(
                f"{source.label} has one column, {some(names)}; two are needed: where (--x) and what (--y) was measured."
            )
        if len(rest) != 1 + (not inputs) or (not inputs and len(names) != 2):
            raise TableError(f"{source.label} has {len(names):,} columns ({some(names)}); say which to learn with --y and --x.")
        goal = rest[-1]
        rest = rest[:-1]
    if not inputs:
        if len(rest) != 1:
            raise TableError(f"{source.label} has {len(names):,} columns ({some(names)}); say which is the input with --x.")
        inputs = (rest[0],)
    for name in (*inputs, *([goal] if goal else [])):
        if names.count(name) > 1:
            raise TableError(f"{source.label} has {names.count(name)} columns called {name!r}; give them different names.")
    return inputs, goal


def _named(source: Source, option: str, name: str) -> str:
    if name in source.columns:
        return name
    alike = [c for c in source.columns if c.strip().casefold() == name.strip().casefold()]
    if len(alike) == 1:
        return alike[0]
    raise TableError(f"{source.label} has no column {name!r} ({option}); its columns are {some(source.columns)}.")


def _columns(frame: Any, label: str, axes: Sequence[TimeAxis | None] | None, first_row: int) -> list[Column]:
    values = [column(frame.iloc[:, i], str(name), label, first_row) for i, name in enumerate(frame.columns)]
    if axes is not None:
        for i, axis in enumerate(axes):
            if values[i].dates != (axis is not None) and np.any(~np.isnan(values[i].values)):
                have, need = ("dates", "numbers") if values[i].dates else ("numbers", "dates, written as 2024-01-31")
                raise TableError(
                    f"{label}: column {str(frame.columns[i])!r} holds {have}, but {need} are needed, as in what the model has learned."
                )
            values[i] = as_dates(values[i], str(frame.columns[i]), label, axis is not None)
    return values


def _complete(values: Sequence[Column], names: Sequence[str], missing: dict[str, int]) -> np.ndarray:
    """Which rows have every value; how many lack one is added up by column."""
    keep = np.ones(len(values[0].values), bool)
    for name, value in zip(names, values, strict=True):
        lacking = np.isnan(value.values)  # of dates, too
        if lacking.any():
            missing[name] = missing.get(name, 0) + int(lacking.sum())
        keep &= ~lacking
    return keep


def _axes(
    values: Sequence[Column], axes: Sequence[TimeAxis | None] | None, keep: np.ndarray, unit: str | None
) -> tuple[TimeAxis | None, ...]:
    if unit is not None and not is_unit(unit):
        raise TableError(f"--time-unit must be one of {', '.join(UNITS)}, got {unit!r}.")
    if axes is not None:
        return tuple(axes)
    return tuple(time_axis(v.values[keep], unit) if v.dates else None for v in values)


def _inputs(values: Sequence[Column], axes: Sequence[TimeAxis | None]) -> np.ndarray:
    return np.stack([v.values if a is None else a.numbers(v.values) for v, a in zip(values, axes, strict=True)], axis=1)


def missing_notes(missing: dict[str, int], rows: int, dropped: int) -> tuple[str, ...]:
    """What was left out, in words."""
    if not dropped:
        return ()
    where = ", ".join(f"{count:,} in {name!r}" for name, count in missing.items())
    return (f"left out {dropped:,} of {rows:,} rows with missing values ({where})",)


def axis_notes(names: Sequence[str], axes: Sequence[TimeAxis | None]) -> tuple[str, ...]:
    """In which unit dates are counted, in words."""
    return tuple(
        f"{name!r} holds dates, counted in {axis.unit}s{' of 365.25 days' if axis.unit == 'year' else ''} from {axis.origin}"
        for name, axis in zip(names, axes, strict=True)
        if axis is not None
    )

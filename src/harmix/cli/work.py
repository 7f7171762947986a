"""What `harmix fit`, `predict` and `report` do, once their options have been read."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import platform
import shlex
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

import harmix
from harmix import tables
from harmix.cli import models
from harmix.cli.large import fit_stream
from harmix.estimators import HarmonizableGPRegressor
from harmix.experiments._output import prepare
from harmix.report import HeldOut, scores, write
from harmix.report.words import bands
from harmix.tables import Table, TableError

# Fewer rows cannot tell a signal from noise.
FEWEST_ROWS = 8
# Fewer rows are all needed for learning.
FEWEST_TO_HOLD_OUT = 40


@contextlib.contextmanager
def plain_warnings(say: Any) -> Iterator[None]:
    """Warnings as notes of one line each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("always", RuntimeWarning)
        yield
    for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning | RuntimeWarning)):
        say(text)


# --- fit ---------------------------------------------------------------------------------------------------------------


def run_fit(
    data: str,
    out: Path,
    *,
    x: Sequence[str],
    y: str | None,
    settings: dict[str, Any],
    holdout: float,
    report: bool,
    time_unit: str | None,
    say: Any,
) -> dict[str, Any]:
    """Fits a model to a table and writes it into a directory; returns what `--json` prints.

    Args:
        data: file, or "-".
        out: directory.
        x: names of the inputs.
        y: name of the target.
        settings: of the estimator.
        holdout: fraction that is held out from learning.
        report: whether to write one.
        time_unit: of the report, for dates.
        say: called with notes for people.
    """
    began = time.perf_counter()
    source = tables.open_source(data)
    out = prepare(out)
    large = source.size > tables.LARGEST_IN_MEMORY
    if large:
        found = fit_stream(tables.stream(source, x=x, y=y, time_unit=time_unit), settings, holdout, say)
    else:
        found = _fit_table(tables.read(source, x=x, y=y, time_unit=time_unit), settings, holdout, say)
    estimator, details, table, held, before = found
    details |= {
        "settings": settings,
        "source": {"file": data, "sha256": models.fingerprint(source.path), "rows": table.rows, "used": details.pop("used")},
        "command": _command(data, out, table, settings, holdout, time_unit),
        "versions": {name: version(name) for name in ("jax", "numpy", "scipy", "scikit-learn")}
        | {"python": platform.python_version()},
    }
    details["seconds"] = time.perf_counter() - began
    details["held_out"] = None if held is None else scores(held)
    estimator.save(out / models.MODEL, details=details)
    result = {**details, "model": str((out / models.MODEL).resolve()), **_findings(estimator, details, table.axes)}
    (out / models.SUMMARY).write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    result["report"] = None
    if report:
        path = out / models.REPORT
        _report(path, estimator, details, table, held, before)
        result["report"] = str(path.resolve())
    return result


def _fit_table(table: Table, settings: dict[str, Any], holdout: float, say: Any) -> tuple[Any, ...]:
    _refuse_useless(table)
    notes = list(table.notes)
    for text in notes:
        say(text)
    assert table.y is not None
    out = hold_out(table.x, holdout, settings["random_state"] or 0)
    if not out.any() and holdout > 0:
        notes.append(f"nothing was held out: {len(table.y)} rows are all needed for learning")
        say(notes[-1])
    estimator = HarmonizableGPRegressor(**settings)

    def note(text: str) -> None:
        notes.append(text)
        say(text)

    with plain_warnings(note):
        estimator.fit(table.frame[~out], table.y[~out])
        held, before = None, None
        if out.any():
            mean, deviation = estimator.predict(table.frame[out], return_std=True)
            held = HeldOut(table.x[out][:, estimator.varying_], table.y[out], mean, deviation)
            before = models.fitted(estimator, table.axes)
            estimator.partial_fit(table.frame[out], table.y[out])
    details = {
        "x": list(table.x_names),
        "y": table.y_name,
        "axes": [None if a is None else list(a) for a in table.axes],
        "notes": notes,
        "used": len(table.y),
    }
    return estimator, details, table, held, before


def _refuse_useless(table: Table) -> None:
    """What no model can be learned from."""
    assert table.y is not None
    n = len(table.y)
    if n < FEWEST_ROWS:
        rows = f"{n} row{'s' if n != 1 else ''}" + (f" without missing values, of {table.rows}," if table.rows > n else "")
        raise TableError(
            f"{table.label} has {rows} to learn from, and {FEWEST_ROWS} at least are needed; give a longer record."
        )
    if np.all(table.y == table.y[0]):
        raise TableError(
            f"{table.label}: column {table.y_name!r} is {table.y[0]:g} in every row; there is nothing to learn, give another --y."
        )
    for i, name in enumerate(table.x_names):
        values = table.x[:, i]
        if np.all(values == values[0]):
            raise TableError(f"{table.label}: column {name!r} is the same in every row; give another --x.")
        # Differences are what a kernel sees: they must survive rounding.
        if np.ptp(values) < 1e-10 * np.max(np.abs(values)):
            raise TableError(
                f"{table.label}: column {name!r} varies by less than can be told apart in double precision; subtract an offset from it."
            )


def hold_out(x: np.ndarray, fraction: float, seed: int) -> np.ndarray:
    """Which rows are held out, `(n,)`: a few stretches inside the record, one in each even part of it; single rows if D > 1.

    Stretches, as neighbours of a point say too much about it.

    Example:
        >>> hold_out(np.arange(100.0)[:, None], 0.2, 0).sum()
        np.int64(20)
    """
    n, D = x.shape
    held = np.zeros(n, bool)
    count = round(fraction * n)
    if n < FEWEST_TO_HOLD_OUT or count < 1:
        return held
    rng = np.random.default_rng([seed, 20])
    if D > 1:
        held[rng.choice(n, count, replace=False)] = True
        return held
    order = np.argsort(x[:, 0], kind="stable")
    stretches = int(np.clip(round(math.sqrt(count) / 2), 1, 12))
    lengths = np.full(stretches, count // stretches)
    lengths[: count % stretches] += 1
    edges = np.linspace(0, n, stretches + 1).astype(int)
    for low, high, length in zip(edges[:-1], edges[1:], lengths, strict=True):
        start = low + 1 + rng.integers(max(1, high - low - length - 1))
        held[order[start : start + length]] = True
    return held


def _command(data: str, out: Path, table: Table, settings: dict[str, Any], holdout: float, time_unit: str | None) -> str:
    words = [
        "harmix",
        "fit",
        data,
        *(w for n in table.x_names for w in ("--x", n)),
        "--y",
        str(table.y_name),
        "--out",
        str(out),
    ]
    for name, value in settings.items():
        if name != "verbose":
            words += [f"--{_OPTIONS.get(name, name).replace('_', '-')}", str(value)]
    words += ["--holdout", f"{holdout:g}", *(["--time-unit", time_unit] if time_unit else [])]
    return shlex.join(words)


_OPTIONS = {"n_restarts": "restarts", "random_state": "seed"}


def _findings(estimator: HarmonizableGPRegressor, details: dict[str, Any], axes: Any) -> dict[str, Any]:
    """What was found, for people and machines."""
    view = models.fitted(estimator, axes)
    result = estimator.result_
    names = models.names(estimator, details, axes, "")
    low, high = float(view.domain[0, 0]), float(view.domain[1, 0])
    found = bands(view.components(), (low, high), names.x[0], names.unit) if view.input_dim == 1 else []
    return {
        "noise": view.noise,
        "bound": float(result.bound),
        "converged": bool(result.converged),
        "inference": str(result.inference),
        "components": [b._asdict() | {"frequency": list(b.frequency)} for b in found if b.share > 0.005],
    }


def _report(
    path: Path,
    estimator: HarmonizableGPRegressor,
    details: dict[str, Any],
    table: Table | None,
    held: HeldOut | None,
    before: Any,
) -> None:
    axes = table.axes if table is not None else models.Model(estimator, details, path).axes
    source = details.get("source", {})
    names = models.names(estimator, details, axes, f"{details.get('y', 'y')} · {Path(source.get('file', path.stem)).name}")
    how = []
    if command := details.get("command"):
        how.append(("The model, from the shell", command))
        how.append(("Forecasts, from the shell", f"harmix predict {shlex.quote(str(path.parent))} places.csv"))
    how.append(
        (
            "Forecasts, from Python",
            f"import harmix as hx, pandas as pd\nmodel = hx.load({str(path.parent / models.MODEL)!r})\n"
            f"places = pd.DataFrame({{{', '.join(f'{n!r}: [...]' for n in details.get('x', names.x))}}})\n"
            "mean, deviation = model.predict(places, return_std=True)",
        )
    )
    if source:
        how.append(("The data", f"{source['file']}: {source['used']:,} of {source['rows']:,} rows, SHA-256 {source['sha256']}"))
    versions = {"harmix": harmix.__version__} | details.get("versions", {})
    how.append(("Versions", ", ".join(f"{name} {v}" for name, v in versions.items())))
    x = None if table is None else table.x[:, estimator.varying_]
    write(
        path,
        models.fitted(estimator, axes),
        names,
        x=x,
        y=None if table is None else table.y,
        held=held,
        before=before,
        notes=details.get("notes", ()),
        how=how,
        scored=details.get("held_out"),
    )


# --- predict -----------------------------------------------------------------------------------------------------------


def run_predict(place: Path, data: str, out: str, *, level: float, signal: bool, as_json: bool, say: Any) -> None:
    """Writes predictions at the rows of a table, in their order.

    Args:
        place: of the model.
        data: file, or "-".
        out: file, or "-" for standard output.
        level: probability of the interval.
        signal: whether the error is that of the signal without noise.
        as_json: as JSON, one object a line.
        say: called with notes for people.
    """
    model = models.open_model(place)
    source = tables.open_source(data)
    inputs = models.input_names(model)
    clocks = model.estimator._clocks or (None,) * len(inputs)
    reach = float(ndtri(0.5 + level / 2))
    head = (*inputs, "mean", "std", "lower", "upper")
    left_out = 0
    with _target(out) as file:
        line = _json_lines(file, head) if as_json else csv.writer(file, lineterminator="\n").writerow
        for i, part in enumerate(tables.places(source, inputs, [c is not None for c in clocks])):
            if i == 0 and not as_json:  # not sooner: after a refusal standard output is empty
                line(head)
            left_out += part.left_out
            with plain_warnings(say):
                mean, deviation = model.estimator.predict(part.frame, return_std=True, noise=not signal)
            numbers = (mean, deviation, mean - reach * deviation, mean + reach * deviation)
            for row in zip(*part.cells, *(np.asarray(a).tolist() for a in numbers), strict=True):
                line([_cell(value) for value in row])
    if left_out:
        say(f"left out {left_out:,} rows in which {' or '.join(map(repr, inputs))} is missing")


def _cell(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _json_lines(file: Any, head: Sequence[str]) -> Any:
    return lambda row: file.write(json.dumps(dict(zip(head, row, strict=True)), allow_nan=False) + "\n")


@contextlib.contextmanager
def _target(out: str) -> Iterator[Any]:
    """A file that is there only if all went well, or the standard output."""
    if out == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    path = Path(out)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file with --out.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the directory {path.parent} does not exist; make it first, or choose another with --out.")
    buffer = io.StringIO(newline="")
    yield buffer
    try:
        path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    except OSError as error:
        raise OSError(f"cannot write {path} ({error.strerror}); choose another one with --out.") from None


# --- report ------------------------------------------------------------------------------------------------------------


def run_report(place: Path, data: str | None, out: Path | None, *, say: Any) -> Path:
    """Writes the report of a model, with data if there are any, and returns where it is.

    Args:
        place: of the model.
        data: file, "-", or None.
        out: the HTML file; beside the model by default.
        say: called with notes for people.
    """
    model = models.open_model(place)
    path = model.path.with_name(models.REPORT) if out is None else out
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file with --out.")
    table = None
    if data is not None:
        source = tables.open_source(data)
        inputs, goal = models.input_names(model), model.details.get("y")
        table = tables.read(source, x=inputs, y=goal if goal in source.columns else None, axes=model.axes)
        for note in table.notes:
            say(note)
    with plain_warnings(say):
        _report(path, model.estimator, model.details, table, None, None)
    return path

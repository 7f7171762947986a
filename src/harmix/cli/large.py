"""Tables that do not fit in memory: a few passes over their chunks make summaries, and everything else works on those."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from harmix.cli import models
from harmix.estimators import HarmonizableGPRegressor
from harmix.report import HeldOut
from harmix.summary import summarize
from harmix.tables import Chunk, Stream, Table, TableError
from harmix.tables.read import axis_notes, missing_notes

# Rows kept for pictures and checks.
_KEPT = 4000
# Averages along the record, from which the highest frequency is told; higher ones count as noise unless they are asked for.
_BINS = 1 << 14
# What is held out: so many stretches of the record.
_STRETCHES = 8
# Windows that a record is cut into, at most; relative accuracy of summaries.
_WINDOWS, _TOLERANCE = 12, 1e-7
# Power that stands out from that of noise.
_SIGNIFICANT = 8.0


class Sizes(NamedTuple):
    """What one pass says of a table.

    Attributes:
        used: rows without missing values.
        low, high: range of the inputs, `(D,)`.
        shift, scale: mean and standard deviation of the inputs, `(D,)`.
        y_shift, y_scale: of the target.
        missing: rows without a value, by column.
        rows: all of them.
    """

    used: int
    low: np.ndarray
    high: np.ndarray
    shift: np.ndarray
    scale: np.ndarray
    y_shift: float
    y_scale: float
    missing: dict[str, int]
    rows: int


def measure(stream: Stream) -> Sizes:
    """One pass: how many rows, where, and how large (means and deviations are merged chunk by chunk, as Chan et al. do)."""
    missing: dict[str, int] = {}
    count, mean, squares = 0, np.zeros(len(stream.x_names) + 1), np.zeros(len(stream.x_names) + 1)
    low, high = np.full(len(stream.x_names), np.inf), np.full(len(stream.x_names), -np.inf)
    total = [0]
    for x, y in stream.chunks(missing, total):
        both = np.column_stack([x, y])
        n, here = len(both), np.mean(both, axis=0)
        squares += np.sum((both - here) ** 2, axis=0) + (here - mean) ** 2 * count * n / (count + n)
        mean += (here - mean) * n / (count + n)
        count += n
        low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
    if not count:
        raise TableError(f"{stream.source.label}: no row has a value in every column; give others with --x and --y.")
    scale = np.sqrt(squares / count)
    for name, s in zip((*stream.x_names, stream.y_name), scale, strict=True):
        if not s > 0:
            raise TableError(f"{stream.source.label}: column {name!r} is the same in every row; give another one.")
    return Sizes(count, low, high, mean[:-1], scale[:-1], float(mean[-1]), float(scale[-1]), missing, total[0])


def highest_frequency(stream: Stream, sizes: Sizes) -> float:
    """Where the spectrum of averages along the record sinks into its noise, in cycles per unit of x, and a third more."""
    span = float(sizes.high[0] - sizes.low[0])
    # Several rows to a bin: between empty bins a regular record would have images of its lines.
    bins = 1 << int(np.clip(np.log2(sizes.used / 4), 6, np.log2(_BINS)))
    sums, counts = np.zeros(bins), np.zeros(bins)
    for x, y in stream.chunks():
        place = np.minimum((bins * (x[:, 0] - sizes.low[0]) / span).astype(int), bins - 1)
        sums += np.bincount(place, (y - sizes.y_shift) / sizes.y_scale, bins)
        counts += np.bincount(place, minlength=bins)
    values = np.divide(sums, counts, out=np.zeros(bins), where=counts > 0) * np.hanning(bins)
    power = np.convolve(np.abs(np.fft.rfft(values)) ** 2, np.ones(9) / 9, mode="same")
    floor = float(np.median(power[bins // 4 :]))
    loud = np.flatnonzero(power > max(_SIGNIFICANT * floor, 1e-4 * np.max(power)))
    return 1.3 * max(float(loud[-1]) if len(loud) else 0.0, 8.0) / span


def fit_stream(
    stream: Stream, settings: dict[str, Any], holdout: float, say: Callable[[str], None]
) -> tuple[HarmonizableGPRegressor, dict[str, Any], Table, HeldOut | None, Any]:
    """A model of a table that is read in chunks: estimator, details, rows to draw, the held-out check, the model before it."""
    from harmix.learning.fit import fit

    label = stream.source.label
    say(f"{label} is large: reading it in chunks, learning from a summary")
    sizes = measure(stream)
    one = len(stream.x_names) == 1
    highest = settings["max_frequency"]
    if highest == "auto":
        if not one:
            raise TableError(
                f"{label} is too large to search for frequencies in {len(stream.x_names)} "
                "columns; say how high they are with --max-frequency."
            )
        highest = highest_frequency(stream, sizes)
    notes = [*missing_notes(sizes.missing, sizes.rows, sizes.rows - sizes.used), *axis_notes(stream.x_names, stream.axes)]
    notes.append(
        f"learned from a summary of {sizes.used:,} rows, with frequencies up to {highest:.3g}; --max-frequency changes that"
    )
    for note in notes:
        say(note)
    gaps = _stretches(sizes, holdout if one else 0.0, settings["random_state"] or 0)
    held_out = lambda x: np.any((x[:, :1] > gaps[:, 0]) & (x[:, :1] < gaps[:, 1]), axis=1)

    def scaled(inside: bool, keep: list[Chunk]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Scaled rows inside or outside of the stretches; some of them are kept as they are."""
        every = max(1, math.ceil(sizes.used * (holdout if inside else 1.0) / _KEPT))
        seen = 0
        for x, y in stream.chunks():
            some = held_out(x) == inside
            if not some.any():
                continue
            x, y = x[some], y[some]
            pick = np.arange(-seen % every, len(y), every)
            keep.append(Chunk(x[pick], y[pick]))
            seen += len(y)
            yield (x - sizes.shift) / sizes.scale, (y - sizes.y_shift) / sizes.y_scale

    band = highest * sizes.scale
    outside: list[Chunk] = []
    # The summary must carry more than the highest line: the width of the narrowest windows that are tried, with room to learn.
    carried = 1.25 * band + 4.0 * _WINDOWS * sizes.scale / (sizes.high - sizes.low)
    summary = summarize(scaled(False, outside), max_frequency=carried, tolerance=_TOLERANCE)
    estimator = HarmonizableGPRegressor(**settings)
    scaled_band = float(band[0]) if one else tuple(map(float, band))
    result = fit(
        summary,
        **{k: v for k, v in settings.items() if k not in ("verbose", "max_frequency")},
        max_frequency=scaled_band,
        progress=bool(settings["verbose"]),
    )
    _assemble(estimator, stream, sizes, result)
    held, before = None, None
    inside: list[Chunk] = []
    if len(gaps):
        more = list(scaled(True, inside)) if sizes.used * holdout < 1e5 else None
        try:
            new = summarize(
                iter(more) if more is not None else scaled(True, inside), max_frequency=carried, tolerance=_TOLERANCE
            )
        except ValueError:  # no row of the table lies in the stretches
            new = None
        if new is not None:
            before = models.fitted(estimator, stream.axes)
            x, y = _together(inside)
            mean, deviation = before.predict(x, noise=True)
            held = HeldOut(x, y, mean, deviation)
            estimator.result_ = dataclasses.replace(result, posterior=result.posterior.update(new))
    x, y = _together([*outside, *inside])
    table = Table(label, x, y, stream.x_names, stream.y_name, stream.axes, None, tuple(notes), sizes.rows)
    details = {
        "x": list(stream.x_names),
        "y": stream.y_name,
        "axes": [None if a is None else list(a) for a in stream.axes],
        "notes": [*notes, f"{len(y):,} rows, evenly chosen, are shown and checked"],
        "used": sizes.used,
    }
    return estimator, details, table, held, before


def _stretches(sizes: Sizes, fraction: float, seed: int) -> np.ndarray:
    """Intervals of the input that are held out, `(G, 2)`: one in each even part of the record, away from its ends."""
    if fraction <= 0:
        return np.zeros((0, 2))
    span = float(sizes.high[0] - sizes.low[0])
    edges = np.linspace(float(sizes.low[0]), float(sizes.high[0]), _STRETCHES + 1)
    width = fraction * span / _STRETCHES
    free = span / _STRETCHES - width
    starts = edges[:-1] + free * (0.1 + 0.8 * np.random.default_rng([seed, 21]).uniform(size=_STRETCHES))
    return np.stack([starts, starts + width], axis=1)


def _together(chunks: list[Chunk]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.concatenate([c.x for c in chunks]), np.concatenate([c.y for c in chunks])
    order = np.argsort(x[:, 0], kind="stable")
    return x[order], y[order]


def _assemble(estimator: HarmonizableGPRegressor, stream: Stream, sizes: Sizes, result: Any) -> None:
    """What `fit` of the estimator would have left behind: units frozen, and the result."""
    from harmix.estimators._base import SUPPORT
    from harmix.estimators._inputs import start_clock

    shift, scale, domain = sizes.shift.copy(), sizes.scale.copy(), np.stack([sizes.low, sizes.high])
    clocks: list[Any] = []
    for d, axis in enumerate(stream.axes):
        if axis is None:
            clocks.append(None)
            continue
        clock = start_clock(axis.moments(domain[:, d]))
        # From numbers of the axis to numbers of the estimator's clock: an affine change of units.
        zero, one = clock.numbers(axis.moments(np.array([0.0, 1.0])))
        domain[:, d] = zero + (one - zero) * domain[:, d]
        shift[d], scale[d] = zero + (one - zero) * shift[d], (one - zero) * scale[d]
        clocks.append(clock)
    estimator._clocks = tuple(clocks) if any(c is not None for c in clocks) else ()
    estimator.n_features_in_ = len(stream.x_names)
    estimator.feature_names_in_ = np.array(stream.x_names, dtype=object)
    estimator.varying_ = np.ones(len(stream.x_names), bool)
    estimator.x_shift_, estimator.x_scale_ = shift, scale
    estimator.y_shift_, estimator.y_scale_ = sizes.y_shift, sizes.y_scale
    estimator.domain_, estimator.reach_ = domain, SUPPORT
    estimator.result_ = result

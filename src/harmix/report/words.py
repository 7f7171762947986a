"""The components of a model in words a person can read aloud."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from harmix.report.fitted import Component

# A band is there where its amplitude is above this fraction of its largest.
_PRESENT = 0.4
# Frequencies that change by less than this are steady.
_STEADY = 0.1


class Band(NamedTuple):
    """Components that belong together: one line, or the trend, through consecutive windows.

    Attributes:
        kind: "trend" or "oscillation".
        frequency: lowest and highest, weighted with power; cycles per unit.
        share: of the variance of the prior within the record.
        window: width of its windows.
        lengthscale: over which it keeps its phase.
        start, stop: where it is present.
        strongest: where it has most power.
        amplitude: standard deviation there.
        words: all this in a sentence.
    """

    kind: str
    frequency: tuple[float, float]
    share: float
    window: float
    lengthscale: float
    start: float
    stop: float
    strongest: float
    amplitude: float
    words: str


def number(value: float, digits: int = 3) -> str:
    """A number as people write it.

    Example:
        >>> number(0.090312), number(1610.53, 4), number(12_345.6)
        ('0.0903', '1611', '12300')
    """
    if value == 0 or not np.isfinite(value):
        return "0" if value == 0 else "infinite"
    text = (
        f"{float(f'{value:.{digits}g}'):.10f}".rstrip("0").rstrip(".") if 1e-5 < abs(value) < 1e9 else f"{value:.{digits - 1}e}"
    )
    return text.replace("-", "\N{MINUS SIGN}")


def groups(components: Sequence[Component]) -> list[list[Component]]:
    """Consecutive components of one shape whose centres rise: a band of windows."""
    found: list[list[Component]] = []
    for c in components:
        last = found[-1][-1] if found else None
        if (
            last is not None
            and np.array_equal(last.window, c.window)
            and np.array_equal(last.lengthscale, c.lengthscale)
            and c.center[0] > last.center[0]
        ):
            found[-1].append(c)
        else:
            found.append([c])
    return found


def place(value: float, span: float) -> str:
    """A place on the axis, with as many digits as the record's length needs."""
    digits = max(0, int(np.ceil(-np.log10(max(span, 1e-300)) + 1.5)))
    return f"{value:.{min(digits, 12)}f}".replace("-", "\N{MINUS SIGN}")


def bands(components: Sequence[Component], domain: tuple[float, float], x_name: str, unit: str) -> list[Band]:
    """The bands of a model with one input, strongest first.

    Args:
        components: of the kernel, in its order.
        domain: where the data lie.
        x_name: what the input is called.
        unit: its unit, or "".

    Example:
        >>> one = lambda center, f: Component(*map(np.array, ([center], [2.0], [5.0], [f])), power=1.0)
        >>> band = bands([one(0.0, 0.5), one(2.0, 0.5), one(4.0, 0.5)], (0.0, 4.0), "t", "s")[0]
        >>> band.words
        'An oscillation of frequency 0.5 per s (period 2 s), throughout; amplitude about 2.1; it keeps its phase over about 2 cycles.'
    """
    low, high = domain
    span = max(high - low, 1e-300)
    grid = np.linspace(low, high, 400)
    entries = []
    for group in groups(components):
        power = [c.power * np.exp(-0.5 * ((grid - c.center[0]) / c.window[0]) ** 2) for c in group]
        entries.append((group, np.sum(power, axis=0), [float(np.mean(p)) for p in power]))
    total = sum(float(np.mean(profile)) for _, profile, _ in entries) or 1.0
    per, of = (f"per {unit}", f" {unit}") if unit else (f"per unit of {x_name}", "")
    found = []
    for group, profile, means in entries:
        frequencies = np.array([abs(c.frequency[0]) for c in group])
        counted = np.array(means) > 0.02 * max(means) if max(means) > 0 else np.ones(len(group), bool)
        lowest, highest = float(np.min(frequencies[counted])), float(np.max(frequencies[counted]))
        window, lengthscale = float(group[0].window[0]), float(group[0].lengthscale[0])
        # A frequency that the window and the phase cannot tell from 0 is no oscillation.
        trend = highest < float(np.max([c.spread[0] for c in group]))
        there = grid[np.sqrt(profile) >= _PRESENT * np.sqrt(np.max(profile))]
        start, stop, strongest = float(there[0]), float(there[-1]), float(grid[np.argmax(profile)])
        amplitude = float(np.sqrt(np.max(profile)))
        whole = start - low < 0.05 * span and high - stop < 0.05 * span
        at = lambda v: place(v, span)
        when = "throughout" if whole else f"from {x_name} {at(start)} to {at(stop)}"
        steady = np.ptp(np.sqrt(profile)) < 0.3 * np.sqrt(np.max(profile))
        if not steady:
            when += f", strongest near {at(strongest)}"
        if trend:
            slow = number(min(lengthscale, window))
            words = (
                f"A slow variation without oscillation, {when}; standard deviation up to {number(amplitude)}; "
                f"it changes over about {slow}{of}."
            )
        else:
            middle = (lowest + highest) / 2
            tone = f"An oscillation of frequency {number(middle)} {per} (period {number(1 / middle)}{of})"
            if highest - lowest > _STEADY * middle:
                tone = f"An oscillation {_drift(frequencies[counted])} {per}"
            cycles = number(min(lengthscale, window * 2) * middle, 2)
            words = (
                f"{tone}, {when}; amplitude about {number(np.sqrt(2) * amplitude)}; "
                f"it keeps its phase over about {cycles} cycles."
            )
        found.append(
            Band(
                "trend" if trend else "oscillation",
                (lowest, highest),
                float(np.mean(profile)) / total,
                window,
                lengthscale,
                start,
                stop,
                strongest,
                amplitude,
                words,
            )
        )
    return sorted(found, key=lambda b: -b.share)


def _drift(frequencies: np.ndarray) -> str:
    """How frequencies change from window to window."""
    first, last = float(frequencies[0]), float(frequencies[-1])
    low, high = float(np.min(frequencies)), float(np.max(frequencies))
    if (first, last) == (low, high):
        return f"rising from frequency {number(low)} to {number(high)}"
    if (last, first) == (low, high):
        return f"falling from frequency {number(high)} to {number(low)}"
    return f"varying between frequency {number(low)} and {number(high)}"


def components_in_words(components: Sequence[Component], names: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each component of a model with several inputs, strongest first."""
    total = sum(c.power * float(np.prod(c.window)) for c in components) or 1.0
    list_of = lambda values: ", ".join(f"{n} {number(float(v))}" for n, v in zip(names, values, strict=True))
    rows = [
        {
            "share": c.power * float(np.prod(c.window)) / total,
            "words": f"Around {list_of(c.center)}; as wide as {list_of(c.window)}; frequencies {list_of(c.frequency)} cycles per unit; "
            f"standard deviation {number(np.sqrt(c.power))}.",
        }
        for c in components
    ]
    return sorted(rows, key=lambda r: -float(r["share"]))

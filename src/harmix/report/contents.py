"""The numbers behind every figure of a report, as JSON holds them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from harmix.kernels import NoClosedFormError
from harmix.report.fitted import LEVEL, Component, Fitted

# How much of its length is shown beyond either end of a record.
MARGIN = 0.02
# Points that are drawn; more would only be slow.
MOST_POINTS = 4000
# Values along a curve, and cells of a picture.
_CURVE = (600, 5000)
TIMES, FREQUENCIES = 180, 110


class HeldOut(NamedTuple):
    """Observations the model had not seen when it predicted them.

    Attributes:
        x: `(n, D)`.
        y: `(n,)`.
        mean: predicted, `(n,)`.
        deviation: of a new observation there, `(n,)`.
    """

    x: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


def scores(held: HeldOut) -> dict[str, Any]:
    """How good the predictions of held-out observations were, and how honest their error bars.

    Example:
        >>> found = scores(HeldOut(np.zeros((2, 1)), np.array([1.0, 2.0]), np.array([1.0, 1.0]), np.ones(2)))
        >>> found["count"], found["rmse"], found["coverage"]
        (2, 0.7071067811865476, 1.0)
    """
    z = (held.y - held.mean) / held.deviation
    return {
        "count": len(held.y),
        "rmse": float(np.sqrt(np.mean((held.y - held.mean) ** 2))),
        "spread": float(np.std(held.y)),
        "coverage": float(np.mean(np.abs(z) <= ndtri(0.5 + LEVEL / 2))),
        "level": LEVEL,
        "log_density": float(np.mean(-0.5 * z**2 - np.log(held.deviation) - 0.5 * np.log(2 * np.pi))),
    }


def signal(
    fitted: Fitted,
    x: np.ndarray | None,
    y: np.ndarray | None,
    held: HeldOut | None,
    highest: float,
    *,
    before: Fitted | None = None,
    truth: Any = None,
) -> dict[str, Any]:
    """The record, the posterior band, and a band for new observations, along one input.

    Args:
        fitted: the model.
        x: `(n,)` or None.
        y: `(n,)` or None.
        held: what was held out.
        highest: frequency that the curve must resolve.
        before: the model before it saw what was held out.
        truth: the noiseless signal as a function, where it is known.
    """
    low, high = float(fitted.domain[0, 0]), float(fitted.domain[1, 0])
    span = high - low
    count = int(np.clip(10 * highest * span, *_CURVE))
    grid = np.linspace(low - MARGIN * span, high + MARGIN * span, count)
    result: dict[str, Any] = {"domain": [grid[0], grid[-1]], "x": _list(grid, 12), **_curve(fitted, grid)}
    if before is not None:
        result["before"] = _curve(before, grid)
    if truth is not None:
        result["truth"] = _list(truth(grid))
    points = np.zeros((0, 2)) if x is None or y is None else np.stack([x, y], axis=1)
    unseen = np.zeros((0, 2)) if held is None else np.stack([held.x[:, 0], held.y], axis=1)
    result["points"], result["held"] = _points(points), _points(unseen)
    result["shown"], result["count"] = min(len(points), MOST_POINTS), len(points)
    return result


def _curve(fitted: Fitted, grid: np.ndarray) -> dict[str, Any]:
    mean, deviation = fitted.predict(grid)
    lower, upper = fitted.band(mean, deviation)
    below, above = fitted.band(*fitted.predict(grid, noise=True))
    names = ("mean", "lower", "upper", "below", "above")
    return dict(zip(names, map(_list, (mean, lower, upper, below, above)), strict=True))


def _points(points: np.ndarray) -> dict[str, list[float]]:
    """Points in order, thinned evenly where they are many."""
    if len(points) > MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).astype(int)]
    points = points[np.argsort(points[:, 0], kind="stable")]
    return {"x": _list(points[:, 0], 12), "y": _list(points[:, 1])}


def window_width(components: Sequence[Component], span: float) -> float:
    """The width of a spectrogram's window: somewhat narrower than the windows of the model, a twelfth of the record at most."""
    power = np.array([c.power for c in components])
    windows = np.array([c.window[0] for c in components])
    order = np.argsort(windows)
    middle = windows[order][np.searchsorted(np.cumsum(power[order]), 0.5 * np.sum(power))]
    return float(np.clip(0.7 * middle, span / 200, span / 12))


def highest_frequency(components: Sequence[Component], width: float) -> float:
    """Where the spectrum of the model ends, as a window of this width shows it."""
    power = np.array([c.power for c in components])
    ends = np.array([abs(c.frequency[0]) + 2 * c.spread[0] for c in components])
    return float(np.max(ends[power > 1e-3 * np.max(power)]) + 1.5 / (2 * np.pi * width))


def picture(fitted: Fitted, highest: float, width: float, *, wigner: bool = True) -> dict[str, Any]:
    """Time and frequency: amplitudes with their band, the Wigner distribution, the marginals, and what the model is made of."""
    low, high = float(fitted.domain[0, 0]), float(fitted.domain[1, 0])
    times = np.linspace(low - MARGIN * (high - low), high + MARGIN * (high - low), TIMES)
    frequencies = np.linspace(highest / FREQUENCIES, highest, FREQUENCIES)
    power = fitted.spectrogram(times, frequencies, width)
    mean, lower, upper = (np.sqrt(np.maximum(np.asarray(p), 0)) for p in (power.mean, power.lower, power.upper))
    top = float(np.quantile(mean, 0.998)) or 1.0
    sequential = {"colours": "sequential", "low": 0.0, "high": top}
    resolution = 1 / (2 * np.pi * width)
    window = f"Seen through a Gaussian window of standard deviation {width:.3g}, which resolves frequencies to about {resolution:.2g}."
    layers: list[dict[str, Any]] = [
        {
            "name": "amplitude",
            "short": "amplitude",
            "note": f"Amplitude of the oscillation at each time and frequency, posterior mean. {window}",
            "packed": packed(mean),
            "bounds": [packed(lower), packed(upper)],
            **sequential,
        },
        {
            "name": "amplitude that is certain",
            "short": "amplitude",
            "note": f"Lower end of the {LEVEL:.0%} band of the amplitude: what the data leave "
            f"no doubt about. It goes dark inside gaps. {window}",
            "packed": packed(lower),
            **sequential,
        },
    ]
    notes = []
    if wigner:
        try:
            W = fitted.wigner(times, frequencies)
        except (NoClosedFormError, ValueError) as error:
            notes.append(f"The Wigner distribution is left out: {error}")
        else:
            limit = float(np.quantile(np.abs(W), 0.995)) or 1.0
            layers.append(
                {
                    "name": "Wigner distribution",
                    "short": "Wigner",
                    "note": "Expected Wigner-Ville distribution given the data: sharper than any window, but with signed interference "
                    "between what is apart. White is zero, red positive, blue negative.",
                    "packed": packed(W),
                    "colours": "diverging",
                    "low": -limit,
                    "high": limit,
                }
            )
    # A sine of amplitude a has the power a^2 at its frequency and sqrt(pi) width int |.| dw = a^2 over all of them.
    step = frequencies[1] - frequencies[0]
    total = lambda p: np.sqrt(np.maximum(np.sqrt(np.pi) * width * step * np.sum(np.asarray(p), axis=1), 0))
    parts = fitted.components()
    strong = [c for c in parts if c.power > 1e-3 * max(p.power for p in parts) and low <= c.center[0] <= high]
    inducing = fitted.inducing()
    return {
        "times": _list(times, 12),
        "frequencies": _list(frequencies, 12),
        "width": width,
        "layers": layers,
        "notes": notes,
        "spectrum": {
            n: _list(np.mean(np.asarray(p), axis=0))
            for n, p in (("mean", power.mean), ("lower", power.lower), ("upper", power.upper))
        },
        "envelope": {n: _list(total(p)) for n, p in (("mean", power.mean), ("lower", power.lower), ("upper", power.upper))},
        "components": [
            {"center": float(c.center[0]), "frequency": abs(float(c.frequency[0])), "width": float(0.5 * c.window[0])}
            for c in strong
        ],
        "inducing": {"x": _list(inducing[:, 0], 12), "y": _list(np.abs(inducing[:, 1]))},
    }


def checks(fitted: Fitted, x: np.ndarray, y: np.ndarray, held: HeldOut | None) -> dict[str, Any]:
    """Residuals in standard deviations, how often bands hold what they promise, and a histogram against the normal density.

    Where something was held out only that counts for the bands: what a model was fitted to always lies within them.

    Args:
        fitted: the model.
        x: `(n, D)`.
        y: `(n,)`.
        held: what was held out.
    """
    if held is not None:
        # In `x` the held-out places occur as well, as the model sees them now; what counts is how it saw them then.
        row = lambda place, value: (*map(float, place), float(value))
        unseen = set(map(row, held.x, held.y))
        fresh = np.array([row(place, value) not in unseen for place, value in zip(x, y, strict=True)])
        x, y = x[fresh], y[fresh]
    if len(x) > MOST_POINTS:
        some = np.linspace(0, len(x) - 1, MOST_POINTS).astype(int)
        x, y = x[some], y[some]
    mean, deviation = fitted.predict(x, noise=True)
    z = (y - mean) / deviation
    out = np.zeros(0) if held is None else (held.y - held.mean) / held.deviation
    along = lambda places, values: places[:, 0] if fitted.input_dim == 1 else values
    at = np.concatenate([along(x, mean), along(held.x, held.mean) if held is not None else out])
    both, which = np.concatenate([z, out]), np.concatenate([np.zeros(len(z), int), np.ones(len(out), int)])
    order = np.argsort(at, kind="stable")
    judged = out if len(out) else z
    levels = np.concatenate([np.arange(0.05, 1.0, 0.05), [0.99]])
    found = [float(np.mean(np.abs(judged) <= ndtri(0.5 + level / 2))) for level in levels]
    n = len(judged)
    edges = np.linspace(-max(4.0, min(8.0, np.max(np.abs(judged)))), max(4.0, min(8.0, np.max(np.abs(judged)))), 25)
    density, _ = np.histogram(np.clip(judged, edges[0], edges[-1]), edges, density=True)
    line = np.linspace(edges[0], edges[-1], 121)
    return {
        "held_out": len(out) > 0,
        "residuals": {"x": _list(at[order], 12), "z": _list(both[order]), "held": which[order].tolist()},
        "along": None if fitted.input_dim == 1 else [float(np.min(at)), float(np.max(at))],
        "coverage": {
            "level": _list(levels),
            "found": found,
            "low": _list(binom.ppf(0.025, n, levels) / n),
            "high": _list(binom.ppf(0.975, n, levels) / n),
        },
        "histogram": {
            "edges": _list(edges),
            "density": _list(density),
            "normal": {"x": _list(line), "y": _list(np.exp(-0.5 * line**2) / np.sqrt(2 * np.pi))},
        },
        "tail": float(np.mean(np.abs(judged) > ndtri(0.5 + LEVEL / 2))),
        "two_sided": float(2 * min(ndtr(np.mean(judged) * np.sqrt(n)), ndtr(-np.mean(judged) * np.sqrt(n)))),
    }


def history(fitted: Fitted) -> list[dict[str, Any]]:
    """How every restart climbed."""
    return [
        {"name": str(r["name"]), "objective": _list(np.asarray(r["objective"], float), 9), "chosen": i == fitted.chosen}
        for i, r in enumerate(fitted.restarts)
        if len(r["objective"])
    ]


def colours() -> dict[str, str]:
    """Colour maps that colour-blind readers can follow, 256 RGB triples each: one from dark to bright, one through white."""
    from matplotlib import colormaps

    table = lambda name: base64.b64encode(
        (colormaps[name](np.arange(256))[:, :3] * 255).round().astype(np.uint8).tobytes()
    ).decode()
    return {"sequential": table("cividis"), "diverging": table("RdBu_r")}


def packed(values: np.ndarray) -> dict[str, Any]:
    """A picture in 16 bits a value: a fifteen-thousandth of its range is below what an eye or a readout tells."""
    low, high = float(np.min(values)), float(np.max(values))
    scaled = (values - low) / (high - low) if high > low else np.zeros_like(values)
    data = base64.b64encode(np.round(scaled * 65535).astype("<u2").tobytes()).decode()
    return {"data": data, "low": low, "high": high if high > low else low + 1.0}


def _list(values: Any, digits: int = 6) -> list[float]:
    """Numbers rounded to so many digits, to keep the page small."""
    return [float(f"{v:.{digits}g}") for v in np.asarray(values, float).ravel()]

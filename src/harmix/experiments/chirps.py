"""Ten signals whose frequency changes, with gaps: how well they are filled, and how well the ridge follows the true frequency.

Beside an exact Gaussian process with a spectral mixture (for the gaps), and the ridge of a windowed Lomb-Scargle periodogram of
the width that is best for each signal (looked up with the truth, which favours it).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from harmix.datasets import Dataset, make_chirp
from harmix.experiments import baselines
from harmix.experiments._output import BLUE, INK, ORANGE, VERMILION, prepare, save_json, save_picture, style
from harmix.experiments.solar import scores
from harmix.learning.fit import FitResult, fit
from harmix.learning.initialize import periodogram, record_of
from harmix.summary import Summary

KINDS = ("linear", "quadratic", "crossing", "jump", "burst")
POINTS = 300
TIMES, FREQUENCIES = np.linspace(0.25, 9.75, 96), np.linspace(0.1, 6.0, 160)
# Standard deviations of the windows that the periodogram may have.
WIDTHS = (0.25, 0.4, 0.6, 0.9, 1.4)
MIXTURE, STARTS = 5, 5


def ridge_error(ridge: np.ndarray, data: Dataset) -> float:
    """Mean distance of the ridge `(T,)` at `TIMES` from the nearest true frequency, where the signal is not faint.

    Example:
        >>> signal = make_chirp(50, random_state=0)
        >>> ridge_error(signal.truth.frequency(TIMES)[:, 0], signal)
        0.0
    """
    distance = np.min(np.abs(ridge[:, None] - data.truth.frequency(TIMES)), axis=1)
    amplitude = np.max(data.truth.amplitude(TIMES), axis=1)
    return float(np.mean(distance[amplitude > 0.3 * amplitude.max()]))


def ridge_of(power: Any) -> np.ndarray:
    """The frequency of the largest power at each time, from `(T, F)`: the top of the parabola through the logarithms of the largest
    and its neighbours, since `FREQUENCIES` are farther apart than the errors.

    Example:
        >>> power = np.exp(-((FREQUENCIES - 2.01) ** 2) / 0.02)
        >>> bool(abs(ridge_of(power[None])[0] - 2.01) < 1e-9)
        True
    """
    top = np.clip(np.argmax(power, axis=1), 1, len(FREQUENCIES) - 2)
    before, at, after = (np.log(np.asarray(power)[np.arange(len(top)), top + i] + 1e-300) for i in (-1, 0, 1))
    curvature = before - 2 * at + after
    shift = np.where(curvature < 0, 0.5 * (before - after) / np.where(curvature < 0, curvature, 1.0), 0.0)
    return FREQUENCIES[top] + np.clip(shift, -1, 1) * (FREQUENCIES[1] - FREQUENCIES[0])


def smoothing(found: FitResult) -> float:
    """The window through which the posterior is seen, by the rule that estimators have: half a typical component's, at most a tenth
    of the record. (On its own, a Wigner distribution has interference between a line and itself across a gap.)
    """
    return min(float(np.median(np.asarray(found.kernel.windows))) / 2, 1.0)


def one(kind: str, seed: int) -> dict[str, Any]:
    """One signal: figures of all methods, and what the picture needs."""
    data = make_chirp(POINTS, kind=kind, random_state=seed)
    X, y, Z, truth = data.data[data.train], data.target[data.train], data.data[data.test], data.target[data.test]
    began = time.perf_counter()
    found = fit((X, y), random_state=seed)
    posterior = found.posterior
    seconds = time.perf_counter() - began
    mean, variance = posterior.mean(Z), posterior.variance(Z)
    ridge = ridge_of(posterior.spectrogram(TIMES, FREQUENCIES, smoothing(found)).mean)
    starts = baselines.spectral_mixture_starts(X, y, MIXTURE, STARTS, np.random.default_rng(seed))
    stationary = baselines.learn(starts, None, 0.1 * float(np.var(y)), X, y).posterior
    record = record_of(Summary.exact(X, y))
    ridges = [ridge_of(periodogram(record, record.b, TIMES[:, None], np.array([w]), FREQUENCIES[:, None])) for w in WIDTHS]
    local = min(ridges, key=lambda r: ridge_error(r, data))
    hmk = scores(mean, variance, truth)
    sm = scores(stationary.mean(Z), stationary.variance(Z), truth)
    return {
        "kind": kind,
        "seed": seed,
        "hmk": hmk | {"ridge": ridge_error(ridge, data), "seconds": seconds},
        "sm": sm,
        "periodogram": {"ridge": ridge_error(local, data)},
        "better": {"gaps": hmk["rmse"] < sm["rmse"], "ridge": ridge_error(ridge, data) < ridge_error(local, data)},
        "picture": (data, posterior, ridge, local),
    }


def run(out: Path, *, seed: int = 0) -> dict[str, Any]:
    """Ten signals, two of each kind, with default settings; `chirps.png`, `chirps.txt` and `chirps.json`.

    Args:
        out: a directory; it is made if need be.
        seed: signals have the seeds `seed` and `seed + 1`.

    Example:
        >>> run(Path("outputs/chirps"))["better_on"]  # doctest: +SKIP
        8
    """
    out = prepare(out)
    found = [one(kind, s) for kind in KINDS for s in (seed, seed + 1)]
    with style():
        save_picture(draw([f.pop("picture") for f in found]), out / "chirps.png", dpi=110)
    lines = [
        f"{'signal':14s} {'RMSE in gaps: HMK':>18s} {'SM':>7s} {'coverage':>9s} {'ridge error: HMK':>18s} {'periodogram':>12s}"
    ]
    for f in found:
        h = f["hmk"]
        lines.append(
            f"{f['kind'] + ' ' + str(f['seed']):14s} {h['rmse']:18.3f} {f['sm']['rmse']:7.3f} {h['coverage']:9.2f} "
            f"{h['ridge']:18.3f} {f['periodogram']['ridge']:12.3f}"
        )
    (out / "chirps.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = {
        "experiment": "chirps",
        "seed": seed,
        "signals": found,
        "better_in_gaps": sum(f["better"]["gaps"] for f in found),
        "better_ridge": sum(f["better"]["ridge"] for f in found),
        "better_on": sum(f["better"]["gaps"] and f["better"]["ridge"] for f in found),
        "table": lines,
        "pictures": ["chirps.png"],
    }
    return save_json(out / "chirps.json", result)


def draw(found: list[tuple[Dataset, Any, np.ndarray, np.ndarray]]) -> Figure:
    """Each signal with its posterior band, and the ridges beside the true frequencies."""
    figure = Figure(figsize=(13.0, 2.0 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), 2, squeeze=False)
    x = np.linspace(0, 10, 700)
    for (signal, picture), (data, posterior, ridge, local) in zip(axes, found, strict=True):
        mean, deviation = posterior.mean(x), np.sqrt(posterior.variance(x))
        for start, stop in data.gaps:
            signal.axvspan(start, stop, color="#ececec", lw=0)
            picture.axvspan(start, stop, color="#ececec", lw=0)
        signal.fill_between(x, mean - 1.96 * deviation, mean + 1.96 * deviation, color=BLUE, alpha=0.25, lw=0)
        signal.plot(x, data.truth(x), color=VERMILION, lw=0.8, label="truth")
        signal.plot(x, mean, color=BLUE, lw=1, label="posterior")
        signal.plot(data.data[data.train], data.target[data.train], ".", color=INK, ms=2)
        signal.set(xlim=(0, 10), ylabel=data.kind)
        picture.plot(TIMES, data.truth.frequency(TIMES), color=VERMILION, lw=1, label="true frequency")
        picture.plot(TIMES, ridge, ".", color=BLUE, ms=4, label="ridge of the posterior")
        picture.plot(TIMES, local, "x", color=ORANGE, ms=3, label="ridge of the periodogram")
        picture.set(xlim=(0, 10), ylim=(0, 6), ylabel="frequency")
    for ax in axes[0]:
        handles, labels = ax.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        ax.legend(unique.values(), unique.keys(), loc="upper right", ncols=3)
    return figure

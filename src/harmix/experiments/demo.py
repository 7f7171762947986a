"""What `harmix demo` shows: a chirp with gaps, what an estimator makes of it, and how near it comes to the truth."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from harmix import plots
from harmix.datasets import Dataset, make_chirp
from harmix.experiments._output import BLUE, GREEN, INK, prepare, save_json, save_picture, style

POINTS = 400
# Starts of learning; the default of five takes two cores longer than the minute and a half that a demo may.
RESTARTS = 3
BAND = 5.0


def draw(chirp: Dataset, model: Any, power: Any) -> Figure:
    """The record with the posterior and the truth above; below, when the model has which frequencies: through a window, and as
    the expected Wigner-Ville distribution.

    Args:
        chirp: from `make_chirp`, with a single oscillation.
        model: a regressor fitted to its training points.
        power: its spectrogram.
    """
    figure = Figure(figsize=(10.0, 7.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 1.5))
    signal, window, wigner = figure.add_subplot(grid[0, :]), figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])

    for i, (start, stop) in enumerate(chirp.gaps):
        signal.axvspan(start, stop, color="#ececec", lw=0, label="gaps: no data" if i == 0 else None)
    fine = np.linspace(0, chirp.duration, 1501)
    data = chirp.data[chirp.train], chirp.target[chirp.train]
    plots.posterior(model, fine, data=data, ax=signal, unit="s", color=BLUE)
    signal.plot(fine, chirp.truth(fine), "--", color=GREEN, lw=1.2, label="truth")
    signal.set(xlim=(0, chirp.duration), xlabel="time (s)", ylabel="signal")
    signal.set_title("Uneven, noisy samples with gaps, and what harmix makes of them", loc="left", fontweight="bold", pad=22)
    signal.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, borderaxespad=0.2)

    times, frequencies = np.asarray(power["time"]), np.asarray(power["frequency"])
    # As the amplitude of a sine: pi (a width)^2 / 2 is its power.
    amplitude = np.sqrt(2 * np.asarray(power["mean"]) / np.pi) / power.attrs["width"]
    mesh = window.pcolormesh(times, frequencies, amplitude.T, cmap="cividis", vmin=0, shading="nearest", rasterized=True)
    figure.colorbar(mesh, ax=window, label="amplitude")
    window.set_title("When it has which frequencies, through a window", loc="left", fontweight="bold")
    values = np.asarray(model.wigner(times, frequencies))
    limit = float(np.quantile(np.abs(values), 0.995))
    mesh = wigner.pcolormesh(
        times, frequencies, values.T, cmap=plots.SIGNED, vmin=-limit, vmax=limit, shading="nearest", rasterized=True
    )
    figure.colorbar(mesh, ax=wigner, label=r"$W(x, \omega)$")
    wigner.set_title("The same as a Wigner distribution", loc="left", fontweight="bold")
    for ax in (window, wigner):
        ax.plot(
            times,
            chirp.truth.frequency(times)[:, 0],
            "--",
            color="white" if ax is window else INK,
            lw=1.4,
            label="true frequency",
        )
        ax.set(xlim=(0, chirp.duration), ylim=(0, BAND), xlabel="time (s)", ylabel="frequency (cycles per s)")
    legend = window.legend(loc="upper left")
    for text in legend.get_texts():
        text.set_color("white")
    signal.spines[["top", "right"]].set_visible(False)
    return figure


def run(out: Path, *, seed: int = 0) -> dict[str, Any]:
    """Fits an estimator to a chirp, draws `out/demo.png`, and writes `report.html`, `model.harmix`, `chirp.csv` (the
    data) and `demo.json`.

    Args:
        out: a directory; it is made if need be.
        seed: of the chirp and of learning.

    Example:
        >>> run(Path("outputs/demo"))["report"]  # doctest: +SKIP
        'report.html'
    """
    out = prepare(out)
    from harmix import estimators
    from harmix.cli.models import fitted
    from harmix.report import HeldOut, Names, scores, write
    from harmix.report.contents import FREQUENCIES, TIMES

    started = time.perf_counter()
    chirp = make_chirp(POINTS, random_state=seed)
    x, y = chirp.data[chirp.train], chirp.target[chirp.train]
    table = np.column_stack([x, y])
    np.savetxt(out / "chirp.csv", table, fmt="%.17g", delimiter=",", header="time,signal", comments="")
    model = estimators.HarmonizableGPRegressor(n_restarts=RESTARTS, random_state=seed, verbose=1).fit(x, y)
    learned = time.perf_counter() - started
    # As many cells as in the report: what is compiled for one serves the other.
    frequencies = np.linspace(0, BAND, FREQUENCIES + 1)[1:]
    power = model.spectrogram(np.linspace(0, chirp.duration, TIMES), frequencies)
    with style():
        save_picture(draw(chirp, model, power), out / "demo.png", dpi=110)
    # In the gaps the data set has the truth; a check of observations needs noise on it.
    places = chirp.data[chirp.test]
    noise = chirp.noise * np.random.default_rng([seed, 1]).standard_normal(len(places))
    held = HeldOut(places, chirp.target[chirp.test] + noise, *model.predict(places, return_std=True))
    model.save(out / "model.harmix", details={"x": ["time"], "y": "signal"})
    write(
        out / "report.html",
        fitted(model, (None,)),
        Names("Demo: a chirp with gaps", ("time",), "signal", "s"),
        x=x,
        y=y,
        held=held,
        truth=chirp.truth,
        how=[("This page", f"harmix demo --seed {seed}"), ("A model of the same data", "harmix fit chirp.csv --out mine/")],
    )
    strongest = frequencies[np.argmax(np.asarray(power["mean"]), axis=1)]
    true = chirp.truth.frequency(np.asarray(power["time"]))[:, 0]
    result = {
        "experiment": "demo",
        "seed": seed,
        "training_points": int(chirp.train.sum()),
        "noise": chirp.noise,
        "noise_found": float(model.y_scale_ * np.sqrt(model.result_.noise_variance)),
        "gaps": chirp.gaps,
        "held_out": scores(held),
        "frequency_error": float(np.median(np.abs(strongest - true))),
        "seconds_learning": learned,
        "seconds": time.perf_counter() - started,
        "pictures": ["demo.png"],
        "report": "report.html",
    }
    return save_json(out / "demo.json", result)

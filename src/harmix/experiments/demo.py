"""What `harmix demo` shows: a chirp with gaps, and a harmonizable mixture kernel laid along it."""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from harmix import plots
from harmix.datasets import Dataset, make_chirp
from harmix.experiments._output import BLUE, INK, prepare, save_json, save_picture, style
from harmix.kernels import HarmonizableMixture

COMPONENTS = 24
BAND = 5.0


def kernel_along(chirp: Dataset, *, P: int = COMPONENTS) -> HarmonizableMixture:
    """An HMK of the true variance, with P components evenly spaced in time, each at the frequency the chirp
    has there.

    Args:
        chirp: from `make_chirp`, with a single oscillation of amplitude 1.
        P: how many components, at least 6: two lie beyond each end.

    Example:
        >>> kernel_along(make_chirp(50, random_state=0), P=12).frequencies.shape
        (12, 1, 1)
    """
    spacing = chirp.duration / (P - 5)
    # Two beyond either end, or the variance would fall off there.
    centers = spacing * (np.arange(P) - 2)
    # A cosine of amplitude 1 has the variance 1/2; windows as wide as their spacing add up to sqrt(2 pi).
    weight = 0.5 / np.sqrt(2 * np.pi)
    return HarmonizableMixture(
        centers=centers[:, None],
        windows=[[spacing]],
        lengthscales=[[0.75]],
        frequencies=chirp.truth.frequency(centers)[:, None, :1],
        weights=[[[weight]]],
    )


def draw(chirp: Dataset, kernel: HarmonizableMixture, *, resolution: int = 401) -> Figure:
    """The signal above, the kernel's matrix and its Wigner distribution below."""
    x = np.linspace(0, chirp.duration, resolution)
    figure = Figure(figsize=(10.0, 7.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 1.75), width_ratios=(1, 1.04))
    signal, matrix, picture = (
        figure.add_subplot(grid[0, :]),
        figure.add_subplot(grid[1, 0]),
        figure.add_subplot(grid[1, 1]),
    )

    for i, (start, stop) in enumerate(chirp.gaps):
        signal.axvspan(start, stop, color="#ececec", lw=0, label="gaps: no data" if i == 0 else None)
    fine = np.linspace(0, chirp.duration, 2001)
    signal.plot(fine, chirp.truth(fine), color=BLUE, lw=1.1, alpha=0.8, label="truth")
    signal.plot(
        chirp.data[chirp.train],
        chirp.target[chirp.train],
        ".",
        color=INK,
        ms=4,
        label="noisy, uneven samples",
    )
    signal.set(xlim=(0, chirp.duration), xlabel="time (s)", ylabel="signal")
    signal.set_title("A signal whose frequency changes", loc="left", fontweight="bold")
    signal.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)

    plots.kernel(kernel, x, ax=matrix, unit="s", colorbar=False)
    matrix.set(xlabel="time (s)", ylabel="time (s)")
    matrix.set_title("A kernel for it: covariance of two times", loc="left", fontweight="bold")

    plots.wigner(kernel, x, np.linspace(0, BAND, resolution), ax=picture, unit="s")
    picture.plot(x, chirp.truth.frequency(x)[:, 0], "--", color=INK, lw=1.2, label="true frequency of the signal")
    picture.plot(
        kernel.centers[2:-2, 0],
        kernel.frequencies[2:-2, 0, 0],
        "o",
        color="white",
        mec=INK,
        ms=4.5,
        label="components of the kernel",
    )
    picture.set(xlim=(0, chirp.duration), ylim=(0, BAND), xlabel="time (s)")
    picture.set_title("When it has which frequencies: Wigner distribution", loc="left", fontweight="bold")
    picture.legend(loc="upper left")
    matrix.set_anchor("N")
    for ax in (signal, matrix, picture):
        ax.spines[["top", "right"]].set_visible(False)
    return figure


def run(out: Path, *, seed: int = 0) -> dict[str, Any]:
    """Makes a chirp, draws it and a kernel into `out/demo.png`, and writes `demo.json`.

    Args:
        out: a directory; it is made if need be.
        seed: of the chirp.

    Example:
        >>> run(Path("outputs/demo"))["pictures"]  # doctest: +SKIP
        ['demo.png']
    """
    out = prepare(out)
    started = time.perf_counter()
    chirp = make_chirp(260, kind="quadratic", random_state=seed)
    kernel = kernel_along(chirp)
    with style():
        save_picture(draw(chirp, kernel), out / "demo.png", dpi=110)
    result = {
        "experiment": "demo",
        "seed": seed,
        "training_points": chirp.train.sum(),
        "noise": chirp.noise,
        "gaps": chirp.gaps,
        "components": COMPONENTS,
        "seconds": time.perf_counter() - started,
        "pictures": ["demo.png"],
    }
    return save_json(out / "demo.json", result)

"""Figure 1 of the paper, and the supplement's figure of a GSM kernel approximated by an HMK.

Six kernels side by side: the covariance, the Wigner distribution, the real and the imaginary part of the
generalised spectral density (GSD). A stationary kernel has its spectral mass on the line `w = xi` and no
density in the plane; nor has one that goes on for ever, like the GSK on a stationary base and the GSM here.
Those are shown through a Gaussian window, and the panels say so. What is drawn is checked as it is drawn: the
Wigner distribution by its marginal, the GSD by transforming it back.
"""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from harmix import plots
from harmix.experiments import approximation
from harmix.experiments._output import prepare, save_json, save_picture, scale_of, shown, style
from harmix.kernels import (
    GeneralizedSpectral,
    GeneralizedSpectralMixture,
    HarmonizableMixture,
    Kernel,
    SparseSpectrum,
    SpectralMixture,
    SquaredExponential,
)

EXTENT = 1.0  # x runs from -EXTENT to EXTENT
BAND = 8.0  # frequencies from -BAND to BAND, cycles per input unit
WINDOW = 0.35  # standard deviation of the windows, over x for the GSD and over the lag for the Wigner distribution
DOMAIN = (-2.5, 2.5)  # where the numerical spectra look; the window is 8e-12 at its ends
ROWS = ("kernel", "Wigner distribution", "GSD, real part", "GSD, imaginary part")
# Below this fraction of the other part, a part of the GSD is rounding.
_NOTHING = 1e-9


@dataclasses.dataclass(frozen=True)
class Column:
    """One kernel of the figure.

    Attributes:
        label: its short name.
        name: what that stands for.
        about: its parameters, in words.
        kernel: the kernel.
        gsd: how to compute the GSD where there is no closed form: arguments of `harmix.spectral.numeric`.
        wigner: likewise for the Wigner distribution.
    """

    label: str
    name: str
    about: str
    kernel: Kernel
    gsd: dict[str, Any] = dataclasses.field(default_factory=lambda: {"domain": DOMAIN, "window": WINDOW})
    wigner: dict[str, Any] = dataclasses.field(default_factory=dict)


def columns() -> list[Column]:
    """The six kernels, each with what is characteristic of it."""
    return [
        Column("SE", "squared exponential", "variance 1, lengthscale 0.2", SquaredExponential(1.0, 0.2)),
        Column(
            "SS",
            "sparse spectrum",
            "weights 0.6 and 0.4 at the frequencies 2 and 5",
            SparseSpectrum([0.6, 0.4], [[2.0], [5.0]]),
            wigner={"domain": DOMAIN, "window": WINDOW},
        ),
        Column(
            "SM",
            "spectral mixture",
            "weights 0.6 and 0.4 at the frequencies 2 and 5, of standard deviations 0.3 and 0.6",
            SpectralMixture([0.6, 0.4], [[2.0], [5.0]], [[0.3], [0.6]]),
        ),
        Column(
            "GSK",
            "generalised spectral",
            "squared exponential of lengthscale 0.45 with the frequencies 2 and 5, which beat",
            GeneralizedSpectral(SquaredExponential(1.0, 0.45), [0.25], [[[2.0], [5.0]]], [[1.0]]),
        ),
        Column(
            "GSM",
            "generalised spectral mixture",
            "weight 1, lengthscale 0.3, nominal frequency 3.2 + 0.8 x: oscillates at 3.2 + 1.6 x",
            GeneralizedSpectralMixture([lambda x: 1.0], [lambda x: 3.2 + 0.8 * x], [lambda x: 0.3]),
            wigner={"domain": DOMAIN, "window": None},
        ),
        Column(
            "HMK",
            "harmonizable mixture",
            "around -0.4: frequencies 1.5 and 5, coupled by a complex weight; around 0.5: frequency 3.25",
            HarmonizableMixture(
                centers=[[-0.4], [0.5]],
                windows=[[0.22], [0.22]],
                lengthscales=[[0.5], [0.5]],
                frequencies=[[[1.5], [5.0]], [[3.25], [3.25]]],
                weights=[[[0.5, 0.4j], [-0.4j, 0.5]], [[1.0, 0.0], [0.0, 0.0]]],
            ),
            gsd={},
        ),
    ]


def draw(columns: list[Column], *, resolution: int = 201) -> Figure:
    """The figure: `figure.axes` has, for each of `ROWS`, one axes a kernel; and then the colour bar."""
    x, w = np.linspace(-EXTENT, EXTENT, resolution), np.linspace(-BAND, BAND, resolution)
    figure = Figure(figsize=(14.0, 10.2), layout="constrained")
    grid = figure.subplots(len(ROWS), len(columns), sharex="row", sharey="row")
    for axes, column in zip(grid.T, columns, strict=True):
        _draw_column(list(axes), column, x, w)
    for axes, title in zip(grid, ROWS, strict=True):
        for ax in axes[1:]:
            ax.set_ylabel("")
        # The row's name is larger than the axis label beside it, which one text cannot be.
        axes[0].annotate(
            title,
            (0, 0.5),
            xytext=(-52, 0),
            xycoords="axes fraction",
            textcoords="offset points",
            rotation=90,
            ha="center",
            va="center",
            fontsize=11,
            fontweight="bold",
        )
    bar = figure.colorbar(
        ScalarMappable(Normalize(-1, 1), plots.SIGNED),
        ax=grid,
        shrink=0.45,
        aspect=40,
        pad=0.01,
        ticks=[-1, 0, 1],
    )
    bar.set_label("value / scale of the panel (both parts of a GSD have the same)")
    return figure


def _draw_column(axes: Sequence[Axes], column: Column, x: np.ndarray, w: np.ndarray) -> None:
    k = column.kernel
    plots.kernel(k, x, ax=axes[0], colorbar=False)
    plots.wigner(k, x, w, ax=axes[1], colorbar=False, **column.wigner)
    for ax, part in zip(axes[2:], ("real", "imag"), strict=True):
        plots.generalized_density(k, w, w, part=part, ax=ax, colorbar=False, **column.gsd)
        ax.set(xticks=[-8, -4, 0, 4, 8], yticks=[-8, -4, 0, 4, 8])
    axes[1].set_yticks([-8, -4, 0, 4, 8])
    axes[0].set_title(f"{column.label}\n", fontsize=14, fontweight="bold")
    axes[0].text(0.5, 1.04, column.name, transform=axes[0].transAxes, ha="center", fontsize=9)
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    for ax in axes:
        text = f"scale {scale_of(ax):.2g}" if _largest(ax) > _NOTHING * scale_of(ax) else "zero"
        ax.text(0.03, 0.03, text, transform=ax.transAxes, fontsize=7, va="bottom", bbox=box)


def _largest(ax: Axes) -> float:
    return float(np.max(np.abs(shown(ax))))


def check(axes: Sequence[Axes], column: Column) -> dict[str, Any]:
    """Holds the drawn spectra of one column against the kernel itself.

    Args:
        axes: the column's four panels.
        column: what they show.

    Returns:
        What each panel is and its largest value; `marginal_error`, of `int W dw = k(x, x)`;
        `inversion_error`, of the GSD transformed back to the (windowed) kernel; both relative to the largest
        variance.
    """
    resolution = len(shown(axes[0]))
    x, w = np.linspace(-EXTENT, EXTENT, resolution), np.linspace(-BAND, BAND, resolution)
    step = w[1] - w[0]
    K = np.asarray(column.kernel(x, x))
    variance = np.real(np.diagonal(K))
    window = column.gsd.get("window")
    h = np.ones_like(x) if window is None else np.exp(-0.5 * (x / window) ** 2)
    waves = np.exp(2j * np.pi * np.outer(x, w)) * step
    back = waves @ (shown(axes[2]) + 1j * shown(axes[3])).T @ waves.conj().T
    lag_window = column.wigner.get("window")
    return {
        "about": column.about,
        "wigner": {
            "source": f"lag window, sd {lag_window}" if lag_window else "numeric" if column.wigner else "closed form",
            "largest": _largest(axes[1]),
            "marginal_error": np.max(np.abs(shown(axes[1]).sum(axis=0) * step - variance)) / np.max(variance),
        },
        "generalized_density": {
            "source": "closed form" if window is None else f"window over x, sd {window}",
            "largest_real": _largest(axes[2]),
            "largest_imaginary": _largest(axes[3]),
            "inversion_error": np.max(np.abs(back - h[:, None] * K * h)) / np.max(variance * h**2),
        },
    }


def run(out: Path, *, seed: int = 0, resolution: int = 201) -> dict[str, Any]:
    """Draws both figures into `out` and writes `figure1.json`.

    Args:
        out: a directory; it is made if need be.
        seed: of the start of the fit of the HMK to the GSM.
        resolution: points along each side of a panel.

    Returns:
        What `figure1.json` holds: for each kernel the sources, largest values and errors of its spectra; for
        the fitted HMK its errors and parameters; timings in seconds; the names of the pictures.

    Example:
        >>> run(Path("outputs/figure1"))["approximation"]["relative_error"] < 0.02  # doctest: +SKIP
        True
    """
    out = prepare(out)
    started = time.perf_counter()
    with style():
        family = columns()
        figure = draw(family, resolution=resolution)
        checks = {c.label: check(figure.axes[i : len(ROWS) * len(family) : len(family)], c) for i, c in enumerate(family)}
        save_picture(figure, out / "figure1.png")
        drawn = time.perf_counter()
        gsm = approximation.gsm_kernel()
        hmk, report = approximation.fit(gsm, seed=seed)
        save_picture(approximation.draw(gsm, hmk, report, resolution=resolution), out / "gsm_by_hmk.png")
    result = {
        "experiment": "figure1",
        "seed": seed,
        "kernels": checks,
        "approximation": report,
        "seconds": {"figure1": drawn - started, "gsm_by_hmk": time.perf_counter() - drawn},
        "pictures": ["figure1.png", "gsm_by_hmk.png"],
    }
    return save_json(out / "figure1.json", result)

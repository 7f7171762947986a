"""The paper's recovery experiment: harmonizable mixtures (HMK) that equal kernels of other families, and the theorems.

Six covariances on a grid of 120 x 120, none of them an HMK: inverted fractional Brownian motion, rough and without bound
towards 0, and generalised spectral mixtures (GSM), whose frequency changes on the way. An HMK is fitted to each. How the
error falls as components and frequencies are added is Theorem 3; Theorem 2 is the same for stationary kernels. The fit sees
pairs of grid points only; errors are reported between them, too.
"""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from harmix import plots
from harmix.experiments import matching
from harmix.experiments._output import BLUE, GREEN, INK, ORANGE, SKY, VERMILION, prepare, save_json, save_picture, style
from harmix.experiments.theorems import theorem_2, theorem_3
from harmix.kernels import (
    GeneralizedSpectralMixture,
    HarmonizableMixture,
    InvertedFractionalBrownian,
    Kernel,
    Matern,
    SquaredExponential,
)

COMPONENTS, FREQUENCIES, POINTS = 12, 4, 120
FRACTIONAL, GSM = "inverted fractional Brownian motion", "generalised spectral mixture"
# Mean squared errors: what the paper reports, and what we promise.
PAPER = {FRACTIONAL: 8e-4, GSM: 3.3e-3}
PROMISED = {FRACTIONAL: 1e-5, GSM: 3e-4}


@dataclasses.dataclass(frozen=True)
class Target:
    """A kernel to recover.

    Attributes:
        name: a short one.
        family: `FRACTIONAL` or `GSM`.
        about: its parameters, in words.
        kernel: the kernel.
        ends: the grid runs from the first of them, exclusive where the kernel is infinite at 0, to the second.
        band: the highest frequency at which components start, cycles per input unit.
    """

    name: str
    family: str
    about: str
    kernel: Kernel
    ends: tuple[float, float]
    band: float

    def grid(self, points: int) -> np.ndarray:
        """Evenly spaced, `(points,)`."""
        if self.family == FRACTIONAL:
            return np.linspace(*self.ends, points + 1)[1:]
        return np.linspace(*self.ends, points)


def targets() -> list[Target]:
    """Three of each family. All lengthscales are short beside the domain and long beside the grid."""
    fractional = [
        Target(f"fractional-{h}", FRACTIONAL, f"Hurst {h}", InvertedFractionalBrownian(h), (0.1, 1.1), 2.0)
        for h in (0.3, 0.5, 0.7)
    ]

    def gsm(name: str, about: str, frequency: Callable, lengthscale: Callable, band: float) -> Target:
        return Target(
            name, GSM, about, GeneralizedSpectralMixture([lambda x: 1.0], [frequency], [lengthscale]), (-1.0, 1.0), band
        )

    return [
        *fractional,
        gsm("gsm-linear", "frequency 3 + x, lengthscale 0.4", lambda x: 3 + x, lambda x: 0.4, 5.0),
        gsm(
            "gsm-sweep",
            "frequency sweeps from 1.5 to 4.5, lengthscale 0.4 - 0.1 x",
            lambda x: 1.5 * 3 ** ((x + 1) / 2),
            lambda x: 0.4 - 0.1 * x,
            7.0,
        ),
        gsm(
            "gsm-wave",
            "frequency 2 + 0.5 sin(pi x), lengthscale 0.4",
            lambda x: 2 + 0.5 * jnp.sin(jnp.pi * x),
            lambda x: 0.4,
            4.0,
        ),
    ]


def recover(
    target: Target,
    *,
    P: int = COMPONENTS,
    Q: int = FREQUENCIES,
    points: int = POINTS,
    steps: int = 150,
    seed: int = 0,
) -> tuple[HarmonizableMixture, dict[str, Any]]:
    """The HMK that was fitted to a target, and how near it is.

    Args:
        target: the kernel, and where.
        P: components.
        Q: frequencies in each.
        points: of the grid.
        steps: of the last refinement.
        seed: of the candidates for components.

    Returns:
        The kernel; mean squared errors over all pairs of grid points (`grid`), of points midway between two (`between`) and of
        one of these and one of those (`across`); seconds; parameters.

    Example:
        >>> k, report = recover(targets()[1], P=4, Q=2, points=20, steps=45)
        >>> report["mean_squared_error"]["grid"] < PAPER[FRACTIONAL]
        True
    """
    started, worked = time.perf_counter(), time.process_time()
    x = target.grid(points)
    mixture = matching.match(matching.problem(target.kernel, x), P, Q, band=target.band, seed=seed, steps=steps)
    kernel = mixture.kernel()
    seconds = {"wall": time.perf_counter() - started, "cpu": time.process_time() - worked}
    both = np.linspace(x[0], x[-1], 2 * points - 1)  # grid points, and those midway, in turn
    squares = (np.asarray(kernel(both, both)) - np.asarray(target.kernel(both, both))) ** 2
    report = {
        "family": target.family,
        "about": target.about,
        "components": P,
        "frequencies": Q,
        "mean_squared_error": {
            "grid": float(np.mean(squares[::2, ::2])),
            "between": float(np.mean(squares[1::2, 1::2])),
            "across": float(np.mean(squares[::2, 1::2])),
        },
        "largest_variance": float(np.max(np.asarray(target.kernel.diag(x)))),
        "seconds": seconds,
        "parameters": {
            name: np.asarray(getattr(kernel, name)) for name in ("centers", "windows", "lengthscales", "frequencies", "weights")
        },
    }
    return kernel, report


def draw_kernels(found: list[tuple[Target, HarmonizableMixture, dict[str, Any]]], *, points: int = POINTS) -> Figure:
    """Each kernel, what was recovered of it, and the difference: `figure.axes` holds these three row by row, then colour bars.

    Two kernels side by side make a row of the picture. Inverted fractional Brownian motion is drawn on a logarithmic scale.
    """
    blocks = sorted({target.family for target, _, _ in found}, reverse=True)
    columns = [[entry for entry in found if entry[0].family == family] for family in blocks]
    rows = max(map(len, columns))
    figure = Figure(figsize=(6.9 * len(columns), 2.35 * rows + 0.5), layout="constrained")
    outer = figure.subfigures(1, len(columns), squeeze=False)[0]
    for sub, entries in zip(outer, columns, strict=True):
        sub.suptitle(entries[0][0].family, fontsize=12, fontweight="bold")
        grid = sub.subplots(rows, 3, squeeze=False, sharex=True, sharey=True)
        for axes, (target, kernel, report) in zip(grid, entries, strict=False):
            _draw_kernel(list(axes), target, kernel, report, target.grid(points))
        for ax, title in zip(grid[0], ("true", "recovered", "recovered - true"), strict=True):
            ax.set_title(title + "\n" + ax.get_title())
        for ax in grid[len(entries) - 1]:
            ax.set_xlabel("$x$")
        for ax in grid[len(entries) :].ravel():
            ax.remove()
    return figure


def _draw_kernel(axes: list[Axes], target: Target, kernel: HarmonizableMixture, report: dict[str, Any], x: np.ndarray) -> None:
    true, recovered = (np.asarray(k(x, x)) for k in (target.kernel, kernel))
    difference, largest = recovered - true, np.max(np.abs(true))
    if target.family == FRACTIONAL:
        look: dict[str, Any] = {"norm": LogNorm(np.min(true), largest), "cmap": "viridis"}
    else:
        look = {"norm": Normalize(-largest, largest), "cmap": plots.SIGNED}
    limit = np.max(np.abs(difference))
    looks = (look, look, {"norm": Normalize(-limit, limit), "cmap": plots.SIGNED})
    for ax, values, how in zip(axes, (true, recovered, difference), looks, strict=True):
        image = ax.pcolormesh(x, x, values.T, rasterized=True, **how)
        ax.set_box_aspect(1)
        if ax is not axes[0]:
            bar = ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.03)
            bar.ax.tick_params(labelsize=7)
    axes[0].set_ylabel("$x'$")
    axes[0].set_title(target.about.replace(", ", ",\n"), fontsize=8)
    axes[2].set_title(f"mean squared error {report['mean_squared_error']['grid']:.1e}", fontsize=8)


def draw_theorems(third: dict[str, dict[str, Any]], second: dict[str, Any]) -> Figure:
    """The tables as curves on logarithmic axes, one panel for each kernel of Theorem 3 and one for Theorem 2."""
    panels = len(third) + 1
    columns = min(4, panels)
    figure = Figure(figsize=(3.4 * columns, 3.1 * -(-panels // columns)), layout="constrained")
    grid = figure.subplots(-(-panels // columns), columns, squeeze=False).ravel()
    colours = (VERMILION, ORANGE, GREEN, BLUE, SKY)
    for ax, (name, table) in zip(grid, third.items(), strict=False):
        for row, between, Q, colour in zip(table["grid"], table["between"], table["Q"], colours, strict=False):
            ax.loglog(table["P"], row, "o-", color=colour, ms=4, label=f"Q = {Q}")
            ax.loglog(table["P"], between, ":", color=colour, lw=1.2)
        _label(ax, f"Theorem 3: {name}", "components P", table["P"])
    grid[0].plot([], [], ":", color=INK, label="between grid points")
    grid[0].legend(loc="lower left")
    ax = grid[len(third)]
    ax.loglog(second["Q"], second["grid"], "o-", color=INK, ms=4, label="grid")
    ax.loglog(second["Q"], second["between"], ":", color=INK, lw=1.2, label="between grid points")
    ax.legend(loc="lower left")
    _label(ax, "Theorem 2: Matern-3/2", "terms Q", second["Q"])
    for ax in grid[panels:]:
        ax.remove()
    return figure


def _label(ax: Axes, title: str, xlabel: str, ticks: list[int]) -> None:
    ax.set(title=title, xlabel=xlabel, ylabel="mean squared error")
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.grid(alpha=0.3)


def table(reports: dict[str, dict[str, Any]]) -> list[str]:
    """Every recovery beside the paper's figure, as the lines of a Markdown table."""
    lines = [
        "| kernel | | mean squared error | between | across | paper | promised | seconds (CPU) |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, r in reports.items():
        errors = " | ".join(f"{r['mean_squared_error'][key]:.1e}" for key in ("grid", "between", "across"))
        seconds = f"{r['seconds']['wall']:.0f} ({r['seconds']['cpu']:.0f})"
        lines.append(
            f"| {name} | {r['about']} | {errors} | {PAPER[r['family']]:.1e} | {PROMISED[r['family']]:.0e} | {seconds} |"
        )
    return lines


def run(
    out: Path,
    *,
    seed: int = 0,
    points: int = POINTS,
    P: int = COMPONENTS,
    Q: int = FREQUENCIES,
    steps: int = 150,
    Ps: tuple[int, ...] = (1, 2, 4, 8),
    Qs: tuple[int, ...] = (1, 2, 3, 4),
    terms: tuple[int, ...] = (1, 2, 4, 8),
) -> dict[str, Any]:
    """Recovers every kernel, measures both theorems, draws them into `out` and writes `recovery.json` and `recovery.md`.

    Args:
        out: a directory; it is made if need be.
        seed: of the candidates for components.
        points: of the grid.
        P: components of the recovered kernels.
        Q: frequencies in each.
        steps: of the last refinement of each; in the table of Theorem 3 half as many.
        Ps: numbers of components in that table.
        Qs: numbers of frequencies in it.
        terms: numbers of terms in the table of Theorem 2.

    Returns:
        What `recovery.json` holds: for every kernel errors, seconds and parameters; the tables of both theorems; the figures
        of the paper; `table`, the lines of `recovery.md`; the names of the pictures.

    Example:
        >>> run(Path("outputs/recovery"))["recovered"]["gsm-sweep"]["mean_squared_error"]["grid"] < 3e-4  # doctest: +SKIP
        True
    """
    out = prepare(out)
    chosen = targets()
    found = [(target, *recover(target, P=P, Q=Q, points=points, steps=steps, seed=seed)) for target in chosen]
    third = {
        t.name: theorem_3(t.kernel, t.grid(points), band=t.band, Ps=Ps, Qs=Qs, steps=steps // 2, seed=seed) for t in chosen
    }
    second = theorem_2(Matern(1.5, 1.0, 0.5), SquaredExponential(1.0, 1.0), Qs=terms, points=points)
    with style():
        save_picture(draw_kernels(found, points=points), out / "recovery.png")
        save_picture(draw_theorems(third, second), out / "theorems.png")
    reports = {target.name: report for target, _, report in found}
    lines = table(reports)
    (out / "recovery.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = {
        "experiment": "recovery",
        "seed": seed,
        "grid_points": points,
        "recovered": reports,
        "theorem_3": third,
        "theorem_2": second,
        "paper": PAPER,
        "promised": PROMISED,
        "table": lines,
        "pictures": ["recovery.png", "theorems.png"],
    }
    return save_json(out / "recovery.json", result)

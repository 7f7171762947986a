"""The supplement's figure: a generalised spectral mixture (GSM) kernel approximated by a harmonizable mixture
(HMK).

The HMK is fitted to the GSM's covariance matrix on a grid by least squares. The picture shows both kernels
and both Wigner distributions; the ridge of the latter follows the derivative of the phase, not the GSM's
nominal frequency.
"""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import time
from typing import Any

import numpy as np
from jaxtyping import Array, Inexact
from matplotlib import patheffects
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from harmix import plots
from harmix.experiments import matching
from harmix.experiments._output import INK, scale_of, shown
from harmix.kernels import GeneralizedSpectralMixture, HarmonizableMixture, Kernel
from harmix.precision import in_float64

SHOWN = (0.0, 4.0)
# The Wigner distribution at x looks at the kernel around x: fit somewhat more than is shown. The numerical
# one integrates until the kernel has decayed.
FITTED = (-0.5, 4.5)
INTEGRATED = (-1.5, 5.5)
BAND = 5.0
LENGTHSCALE = 0.4
COMPONENTS, FREQUENCIES = 12, 3
ENLARGED = 20  # how much stronger the colours of the difference are


def nominal_frequency(x: Any) -> Any:
    """`mu(x)`, the frequency function that the GSM kernel is given."""
    return 1.5 + 0.9 * x - 0.15 * x**2


def ridge_frequency(x: Any) -> Any:
    """`d(mu(x) x)/dx`, the frequency at which the GSM kernel oscillates near x."""
    return 1.5 + 1.8 * x - 0.45 * x**2


def gsm_kernel() -> GeneralizedSpectralMixture:
    """The kernel to approximate: one oscillation of variance 1 whose frequency rises and falls."""
    return GeneralizedSpectralMixture([lambda x: 1.0], [nominal_frequency], [lambda x: LENGTHSCALE])


@in_float64
def fit(
    target: Kernel,
    *,
    domain: tuple[float, float] = FITTED,
    band: float = BAND,
    P: int = COMPONENTS,
    Q: int = FREQUENCIES,
    points: int = 90,
    steps: int = 150,
    seed: int = 0,
) -> tuple[HarmonizableMixture, dict[str, Any]]:
    """The HMK whose covariance matrix on a grid is nearest to that of `target`, in the Frobenius norm.

    Args:
        target: a real kernel in one dimension.
        domain: the grid's ends.
        band: the highest frequency at which components start.
        P: how many components.
        Q: how many frequencies in each.
        points: of the grid.
        steps: of the last refinement (see `matching.match`).
        seed: of the candidates for components.

    Returns:
        The kernel, and a report with the relative errors `|K - G| / |G|` on the grid and on one between its
        points.

    Example:
        >>> k, report = fit(gsm_kernel(), P=4, Q=1, points=30, steps=20)
        >>> report["relative_error"] < 0.5
        True
    """
    started = time.perf_counter()
    x = np.linspace(*domain, points)
    mixture = matching.match(matching.problem(target, x), P, Q, band=band, seed=seed, steps=steps)
    kernel = mixture.kernel()
    between = (x[1:] + x[:-1]) / 2
    report = {
        "components": P,
        "frequencies": Q,
        "grid_points": points,
        "fitted_on": list(domain),
        "relative_error": relative_error(kernel(x), target(x)),
        "relative_error_between_grid_points": relative_error(kernel(between), target(between)),
        "seconds": time.perf_counter() - started,
        "parameters": {
            name: np.asarray(getattr(kernel, name)) for name in ("centers", "windows", "lengthscales", "frequencies", "weights")
        },
    }
    return kernel, report


def relative_error(K: Inexact[Array, "n m"] | np.ndarray, G: Inexact[Array, "n m"] | np.ndarray) -> float:
    """`|K - G| / |G|` in the Frobenius norm."""
    return float(np.linalg.norm(np.asarray(K) - np.asarray(G)) / np.linalg.norm(np.asarray(G)))


def draw(gsm: Kernel, hmk: HarmonizableMixture, report: dict[str, Any], *, resolution: int = 201) -> Figure:
    """Covariances above, Wigner distributions below, in each row to one scale; and the difference, enlarged.

    `figure.axes` holds row by row GSM, HMK, difference, and then the colour bars.
    """
    x, w = np.linspace(*SHOWN, resolution), np.linspace(0, BAND, resolution)
    figure = Figure(figsize=(11.5, 7.6), layout="constrained")
    grid = figure.subplots(2, 3, sharex=True, sharey="row")
    for ax, k in zip(grid[0], (gsm, hmk), strict=False):
        plots.kernel(k, x, ax=ax, limit=1.0, colorbar=False)
    plots.wigner(gsm, x, w, ax=grid[1, 0], domain=INTEGRATED, window=None, colorbar=False)
    plots.wigner(hmk, x, w, ax=grid[1, 1], limit=scale_of(grid[1, 0]), colorbar=False)
    for (left, middle, right), up in zip(grid, (x, w), strict=True):
        limit = scale_of(left) / ENLARGED
        values = shown(middle) - shown(left)
        right.pcolormesh(x, up, values, cmap=plots.SIGNED, vmin=-limit, vmax=limit, rasterized=True)
        for ax in (left, middle, right):
            ax.set_box_aspect(1)
    for ax, title in zip(grid[0], ("GSM", "HMK", f"HMK - GSM, colours x {ENLARGED}"), strict=True):
        ax.set_title(title, fontsize=12, fontweight="bold")
        ax.set_xlabel("")
    grid[1, 2].set_xlabel(grid[1, 0].get_xlabel())
    halo = [patheffects.withStroke(linewidth=3.2, foreground="white", alpha=0.8)]
    for ax in grid[1, :2]:
        for curve, dashes, label in (
            (ridge_frequency, "-", r"ridge  $d(\mu(x)\,x)/dx$"),
            (nominal_frequency, (0, (4, 3)), r"nominal  $\mu(x)$"),
        ):
            ax.plot(x, curve(x), color=INK, lw=1.3, ls=dashes, label=label, path_effects=halo)
    grid[1, 0].legend(loc="upper left")
    for row, label in zip(grid, ("$k(x, x')$", r"$W(x, \omega)$"), strict=True):
        for ax in row[1:]:
            ax.set_ylabel("")
        scale = Normalize(-scale_of(row[0]), scale_of(row[0]))
        figure.colorbar(ScalarMappable(scale, plots.SIGNED), ax=row, label=label, pad=0.01)
    figure.suptitle(
        "A GSM kernel approximated by an HMK: {components} components of {frequencies} frequencies, "
        "relative error {relative_error:.2%} of the covariance matrix".format(**report)
    )
    return figure

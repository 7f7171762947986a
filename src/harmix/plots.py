"""Pictures of kernels and their spectra with Matplotlib. Every function takes and returns an `ax`.

Signed quantities are drawn on a diverging colour map with white at zero that colour-blind readers can follow
(red and blue, with equal limits on both sides). Spectra are closed forms where the kernel has them, else
numerical ones over a `domain`; the panel then says "numeric", or "windowed" when what it shows is the kernel
seen through a Gaussian window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from harmix import spectral
from harmix.arguments import points, positive_number
from harmix.kernels import Kernel, NoClosedFormError
from harmix.precision import in_float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGNED = "RdBu_r"
INPUT_UNIT = "input unit"
_PARTS = {"real": np.real, "imag": np.imag}


def kernel(
    kernel: Callable[..., Any],
    x: Any,
    *,
    part: str = "real",
    ax: Axes | None = None,
    unit: str = INPUT_UNIT,
    limit: float | None = None,
    colorbar: bool = True,
) -> Axes:
    """The covariance `k(x, x')` as a heat map, x to the right and x' upwards.

    Args:
        kernel: a harmix kernel, or any function `k(X1, X2)`.
        x: places `(n,)` or `(n, 1)`.
        part: "real" or "imag" (of the kernel of a complex process).
        ax: where to draw; a new figure when left out.
        unit: the unit of x, for the labels.
        limit: the colour scale runs from -limit to limit; by default, what the values need.
        colorbar: whether to draw one.

    Example:
        >>> import harmix as hx, numpy as np
        >>> ax = hx.plots.kernel(hx.kernels.SquaredExponential(1.0, 0.5), np.linspace(0, 2, 50))
        >>> ax.get_xlabel()
        '$x$ (input unit)'
    """
    take = _part(part)
    x = _line("x", x)
    values = take(np.asarray(kernel(x, x)))
    ax = _heat_map(x, x, values.T, "$k(x, x')$", ax=ax, limit=limit, colorbar=colorbar)
    ax.set_aspect("equal")
    ax.set(xlabel=f"$x$ ({unit})", ylabel=f"$x'$ ({unit})")
    return ax


def wigner(
    kernel: Callable[..., Any],
    x: Any,
    w: Any,
    *,
    ax: Axes | None = None,
    domain: tuple[float, float] | None = None,
    window: float | str | None = "auto",
    unit: str = INPUT_UNIT,
    limit: float | None = None,
    colorbar: bool = True,
) -> Axes:
    """The Wigner distribution `W(x, w)` as a heat map: when, and at which frequencies, a kernel has its
    power.

    Args:
        kernel: a harmix kernel, or any function `k(X1, X2)`.
        x: places `(n,)` or `(n, 1)`, to the right.
        w: frequencies `(m,)` or `(m, 1)`, in cycles per input unit, upwards.
        ax: where to draw; a new figure when left out.
        domain: `(lo, hi)`, needed where there is no closed form: see `harmix.spectral.numeric.wigner`.
        window: there, the standard deviation of a Gaussian window in the lag, None, or "auto".
        unit: the unit of x, for the labels.
        limit: the colour scale runs from -limit to limit; by default, what the values need.
        colorbar: whether to draw one.

    Example:
        >>> import harmix as hx, numpy as np
        >>> k = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
        >>> hx.plots.wigner(k, np.linspace(-2, 2, 40), np.linspace(-2, 2, 40)).get_ylabel()
        'frequency (cycles per input unit)'
    """
    x, w = _line("x", x), _line("w", w)
    values, note = _spectrum("wigner", kernel, (x, w), domain, window)
    ax = _heat_map(x, w, values.T, r"$W(x, \omega)$", ax=ax, limit=limit, colorbar=colorbar)
    ax.set(xlabel=f"$x$ ({unit})", ylabel=f"frequency (cycles per {unit})")
    return _annotate(ax, note)


def generalized_density(
    kernel: Callable[..., Any],
    w: Any,
    xi: Any,
    *,
    part: str = "real",
    ax: Axes | None = None,
    domain: tuple[float, float] | None = None,
    window: float | str | None = "auto",
    unit: str = INPUT_UNIT,
    limit: float | None = None,
    colorbar: bool = True,
) -> Axes:
    """The real or imaginary part of the generalised spectral density `S(w, xi)`: which frequencies go
    together.

    Args:
        kernel: a harmix kernel, or any function `k(X1, X2)`.
        w: frequencies `(m1,)` or `(m1, 1)`, in cycles per input unit, to the right.
        xi: frequencies `(m2,)` or `(m2, 1)`, upwards.
        part: "real" or "imag".
        ax: where to draw; a new figure when left out.
        domain: `(lo, hi)`, needed where there is no closed form: see
            `harmix.spectral.numeric.generalized_density`.
        window: there, the standard deviation of a Gaussian window over the domain, None, or "auto".
        unit: the unit of x, for the labels.
        limit: the colour scale runs from -limit to limit; by default, what both parts need, so that the
            pictures of the real and of the imaginary part can be compared.
        colorbar: whether to draw one.

    Example:
        >>> import harmix as hx, numpy as np
        >>> k = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
        >>> ax = hx.plots.generalized_density(k, np.linspace(-2, 2, 40), np.linspace(-2, 2, 40), part="imag")
    """
    take = _part(part)
    w, xi = _line("w", w), _line("xi", xi)
    values, note = _spectrum("generalized_density", kernel, (w, xi), domain, window)
    if limit is None:
        limit = float(max(np.max(np.abs(values.real)), np.max(np.abs(values.imag)))) or None
    name = rf"$\mathrm{{{part.capitalize()[:2]}}}\,S(\omega, \xi)$"
    ax = _heat_map(w, xi, take(values).T, name, ax=ax, limit=limit, colorbar=colorbar)
    ax.set_aspect("equal")
    ax.set(xlabel=rf"$\omega$ (cycles per {unit})", ylabel=rf"$\xi$ (cycles per {unit})")
    return _annotate(ax, note)


def _part(part: str) -> Callable[[np.ndarray], np.ndarray]:
    if part not in _PARTS:
        raise ValueError(f'part must be "real" or "imag", got {part!r}.')
    return _PARTS[part]


@in_float64
def _line(name: str, value: Any) -> np.ndarray:
    """Places or frequencies of one dimension, `(n,)`, ascending."""
    array = np.asarray(points(name, value, 1))[:, 0]
    if len(array) < 2 or np.any(np.diff(array) <= 0):
        raise ValueError(f"{name} must be at least two values in ascending order, to be an axis of a picture.")
    return array


def _spectrum(
    which: str,
    kernel: Any,
    at: tuple[np.ndarray, np.ndarray],
    domain: tuple[float, float] | None,
    window: Any,
) -> tuple[np.ndarray, str | None]:
    """A spectrum in closed form, or else a numerical one and the note that says so."""
    complaint = f"{kernel!r} is not a harmix kernel, and so has no closed form."
    if isinstance(kernel, Kernel):
        try:
            return np.asarray(getattr(spectral, which)(kernel, *at)), None
        except NoClosedFormError as error:
            complaint = str(error)
    if domain is None:
        raise ValueError(f"{complaint} For a numerical picture give domain=(lo, hi).")
    values = np.asarray(getattr(spectral.numeric, which)(kernel, *at, domain=domain, window=window))
    if window is None:
        return values, "numeric"
    return values, "numeric, auto window" if window == "auto" else f"windowed, sd {window:g}"


@in_float64
def _heat_map(
    x: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    name: str,
    *,
    ax: Axes | None,
    limit: float | None,
    colorbar: bool,
) -> Axes:
    """`values`, of shape `(len(y), len(x))`, with a colour scale that is symmetric about zero."""
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    if limit is None:
        limit = float(np.max(np.abs(values))) or 1.0  # a picture of nothing but zeros needs some scale, too
    limit = float(positive_number("limit", limit))
    # Rasterised: a vector file of 40 000 rectangles is slow to open and shows seams.
    mesh = ax.pcolormesh(x, y, values, cmap=SIGNED, vmin=-limit, vmax=limit, shading="nearest", rasterized=True)
    if colorbar:
        ax.figure.colorbar(mesh, ax=ax, label=name)
    return ax


def _annotate(ax: Axes, note: str | None) -> Axes:
    if note is not None:
        box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        ax.text(0.97, 0.97, note, transform=ax.transAxes, ha="right", va="top", fontsize="small", bbox=box)
    return ax

"""Pictures of kernels, their spectra and what was learned, with Matplotlib. Every function takes and returns an `ax`.

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
# Okabe and Ito's palette: told apart with any colour vision, and in grey.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
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


def posterior(
    model: Any,
    x: Any,
    *,
    data: tuple[Any, Any] | None = None,
    level: float = 0.9,
    ax: Axes | None = None,
    unit: str = INPUT_UNIT,
    color: str = PALETTE[0],
) -> Axes:
    """The posterior mean along one input with its credible band, and the data.

    Args:
        model: a `harmix.Posterior` (or a mixture of them), or a fitted regressor with `predict(X, return_std=True)`.
        x: places `(n,)` or `(n, 1)`, ascending.
        data: `(X, y)`, drawn as points.
        level: probability of the band, of the signal without noise.
        ax: where to draw; a new figure when left out.
        unit: the unit of x, for the label.
        color: of line and band.

    Example:
        >>> import harmix as hx, numpy as np
        >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
        >>> hx.plots.posterior(post, np.linspace(0, 1, 50), data=([0.0, 1.0], [1.0, 2.0])).get_xlabel()
        '$x$ (input unit)'
    """
    from scipy.special import ndtri

    if not isinstance(level, int | float) or not 0 < level < 1:
        raise ValueError(f"level must be a probability strictly between 0 and 1, got {level!r}.")
    reach = float(ndtri(0.5 + level / 2))
    x = _line("x", x)
    if hasattr(model, "variance"):
        mean, deviation = np.asarray(model.mean(x)), np.sqrt(np.asarray(model.variance(x)))
    elif hasattr(model, "predict"):
        from inspect import signature

        signal = {"noise": False} if "noise" in signature(model.predict).parameters else {}
        mean, deviation = model.predict(x[:, None], return_std=True, **signal)
    else:
        raise TypeError(f"model must have mean and variance, or predict, got {type(model).__name__}.")
    if np.iscomplexobj(mean):
        raise TypeError("model is of a complex process: draw its real and imaginary parts one by one.")
    ax = _axes(ax)
    ax.fill_between(
        x, mean - reach * deviation, mean + reach * deviation, color=color, alpha=0.3, lw=0, label=f"{level:.0%} band"
    )
    ax.plot(x, mean, color=color, lw=1.4, label="posterior mean")
    if data is not None:
        X, y = (np.asarray(part) for part in data)
        ax.plot(X.reshape(len(y)), y, ".", color="#222222", ms=4, label="data")
    ax.set(xlabel=f"$x$ ({unit})", ylabel="$f(x)$")
    return ax


def decision_boundary(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    resolution: int = 150,
    ax: Axes | None = None,
    colorbar: bool = True,
) -> Axes:
    """What a classifier says in the plane: the probability of its second class, or of several classes the likeliest.

    Args:
        model: a fitted classifier of two inputs, with `predict_proba` and `classes_`.
        X: `(n, 2)`; the picture is a little larger than their range.
        y: labels `(n,)`: the rows of X are drawn as points, in a colour and a shape of their class.
        resolution: cells to either side.
        ax: where to draw; a new figure when left out.
        colorbar: whether to draw one (for two classes).

    Example:
        >>> import numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> ax = decision_boundary(LogisticRegression().fit(X, X[:, 0] > 0), X, X[:, 0] > 0, resolution=20)
        >>> len(ax.collections) > 0
        True
    """
    X = np.asarray(points("X", X, 2))
    if not isinstance(resolution, int) or resolution < 2:
        raise ValueError(f"resolution must be an integer of at least 2, got {resolution!r}.")
    low, high = X.min(axis=0), X.max(axis=0)
    margin = 0.08 * np.where(high > low, high - low, 1.0)
    sides = [np.linspace(a - m, b + m, resolution) for a, b, m in zip(low, high, margin, strict=True)]
    places = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    chances = np.asarray(model.predict_proba(places)).reshape(resolution, resolution, -1)
    classes = np.asarray(model.classes_)
    ax = _axes(ax)
    if len(classes) == 2:
        mesh = ax.pcolormesh(*sides, chances[..., 1], cmap=SIGNED, vmin=0, vmax=1, shading="nearest", rasterized=True)
        ax.contour(
            *sides,
            chances[..., 1],
            levels=[0.1, 0.5, 0.9],
            colors="#222222",
            linewidths=[0.7, 1.6, 0.7],
            linestyles=["--", "-", "--"],
        )
        if colorbar:
            ax.figure.colorbar(mesh, ax=ax, label=f"probability of {classes[1]}")
        # As the map has them: blue where the second class is improbable, red where it is likely.
        colours: tuple[str, ...] = ("#2166AC", "#B2182B")
    else:
        from matplotlib.colors import to_rgb

        colours = tuple(PALETTE[i % len(PALETTE)] for i in range(len(classes)))
        mixed = np.tensordot(chances, np.array([to_rgb(c) for c in colours]), axes=1)
        ax.imshow(
            0.4 * mixed + 0.6, extent=(sides[0][0], sides[0][-1], sides[1][0], sides[1][-1]), origin="lower", aspect="auto"
        )
        best = np.argmax(chances, axis=-1)
        for c in range(len(classes)):
            if 0 < np.mean(best == c) < 1:
                ax.contour(*sides, (best == c).astype(float), levels=[0.5], colors="#222222", linewidths=1.0)
    if y is not None:
        y = np.asarray(y)
        for c, (label, colour) in enumerate(zip(classes, colours, strict=True)):
            some = X[y == label]
            ax.plot(some[:, 0], some[:, 1], "os^DvP*X"[c % 8], color=colour, mec="white", mew=0.6, ms=5, label=str(label))
        ax.legend(loc="best")
    ax.set(xlabel="$x_0$", ylabel="$x_1$", xlim=(sides[0][0], sides[0][-1]), ylim=(sides[1][0], sides[1][-1]))
    return ax


def training(result: Any, *, ax: Axes | None = None) -> Axes:
    """How learning went: the objective of every restart after each iteration, the chosen one in front.

    Args:
        result: what `harmix.fit` or `harmix.learning.classify.fit_classifier` returned, or an estimator with `result_`.
        ax: where to draw; a new figure when left out.

    Example:
        >>> from types import SimpleNamespace as Run
        >>> two = [Run(name="a", objective=np.array([-3.0, -1.0])), Run(name="b", objective=np.array([-3.0, -2.0]))]
        >>> [line.get_label() for line in training(Run(restarts=two, chosen=0)).lines]
        ['b', 'a (chosen)']
    """
    result = getattr(result, "result_", result)
    if not hasattr(result, "restarts"):
        raise TypeError(f"result must have restarts, as what harmix.fit returns, got {type(result).__name__}.")
    ax = _axes(ax)
    # The chosen one last, so that it lies above the others.
    for i in sorted(range(len(result.restarts)), key=lambda i: i == result.chosen):
        restart, is_chosen = result.restarts[i], i == result.chosen
        values = np.asarray(restart.objective if hasattr(restart, "objective") else restart.history)
        look: dict[str, Any] = {"color": PALETTE[1], "lw": 2.0} if is_chosen else {"color": "#9a9a9a", "lw": 1.0}
        name = getattr(restart, "name", f"restart {i + 1}")
        ax.plot(np.arange(1, len(values) + 1), values, **look, label=f"{name} (chosen)" if is_chosen else name)
    ax.set(xlabel="iteration", ylabel="objective")
    # The first steps climb from far below; what matters is how the ends compare.
    everything = [np.asarray(getattr(r, "objective", getattr(r, "history", None))) for r in result.restarts]
    low, high = min(v[min(3, len(v) - 1)] for v in everything), max(v[-1] for v in everything)
    if high > low:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    return ax


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
    ax = _axes(ax)
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

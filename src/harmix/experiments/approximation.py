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
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Inexact
from matplotlib import patheffects
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from scipy.optimize import minimize

from harmix import plots
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


class _Unconstrained(eqx.Module):
    """An HMK in coordinates without constraints: logarithms of widths, a factor F of `B = F F^H`."""

    centers: Float[Array, "P 1"]
    log_windows: Float[Array, "P 1"]
    log_lengthscales: Float[Array, "1 1"]  # shared: a Gram matrix is then one product, ten times faster to fit
    frequencies: Float[Array, "P Q 1"]
    factor: Float[Array, "P Q Q 2"]  # real and imaginary part

    def kernel(self) -> HarmonizableMixture:
        F = self.factor[..., 0] + 1j * self.factor[..., 1]
        weights = F @ jnp.conj(jnp.swapaxes(F, -1, -2))
        return HarmonizableMixture(
            self.centers, jnp.exp(self.log_windows), jnp.exp(self.log_lengthscales), self.frequencies, weights
        )


def _start(domain: tuple[float, float], frequency: Callable[[np.ndarray], np.ndarray], P: int, Q: int, seed: int) -> Any:
    """Evenly spaced components that add up to about variance 1, at the local frequencies."""
    rng = np.random.default_rng(seed)
    centers = np.linspace(*domain, P)
    spacing = centers[1] - centers[0]
    # Windows as wide as their spacing add up to sqrt(2 pi) nearly everywhere. The frequencies of a component
    # spread over what the chirp covers within it; some noise, or they would stay mirror images of each other.
    factor = np.zeros((P, Q, Q, 2))
    factor[..., 0] = np.eye(Q) / np.sqrt(Q * np.sqrt(2 * np.pi))
    factor += 0.05 * rng.standard_normal(factor.shape)
    spread = 0.3 * np.linspace(-1, 1, Q) if Q > 1 else np.zeros(1)
    return _Unconstrained(
        centers=jnp.asarray(centers[:, None]),
        log_windows=jnp.full((P, 1), np.log(spacing)),
        log_lengthscales=jnp.full((1, 1), np.log(LENGTHSCALE)),
        frequencies=jnp.asarray(frequency(centers)[:, None, None] + spread[None, :, None]),
        factor=jnp.asarray(factor),
    )


@in_float64
def fit(
    target: Kernel,
    *,
    domain: tuple[float, float] = FITTED,
    frequency: Callable[[np.ndarray], np.ndarray] = ridge_frequency,
    P: int = COMPONENTS,
    Q: int = FREQUENCIES,
    points: int = 90,
    max_iterations: int = 2000,
    seed: int = 0,
) -> tuple[HarmonizableMixture, dict[str, Any]]:
    """The HMK whose covariance matrix on a grid is nearest to that of `target`, in the Frobenius norm.

    Args:
        target: a real kernel in one dimension.
        domain: the grid's ends.
        frequency: where the frequencies start, as a function of the centres `(P,)`.
        P: how many components.
        Q: how many frequencies in each.
        points: of the grid.
        max_iterations: of L-BFGS-B.
        seed: of the noise in the start.

    Returns:
        The kernel, and a report with the relative errors `|K - G| / |G|` on the grid and on one between its
        points.

    Example:
        >>> k, report = fit(gsm_kernel(), P=4, Q=1, points=30, max_iterations=20)
        >>> report["relative_error"] < report["relative_error_at_start"]
        True
    """
    started = time.perf_counter()
    x = np.linspace(*domain, points)
    X, G = jnp.asarray(x[:, None]), jnp.asarray(target(x))
    scale = jnp.sum(G**2)
    start, unravel = ravel_pytree(_start(domain, frequency, P, Q, seed))

    @jax.jit
    @jax.value_and_grad
    def loss(v: Float[Array, " n"]) -> Float[Array, ""]:
        return jnp.sum((unravel(v).kernel().gram(X, X) - G) ** 2) / scale

    as_numpy = lambda v: tuple(np.asarray(a, dtype=float) for a in loss(v))
    found = minimize(
        as_numpy,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iterations, "maxfun": 2 * max_iterations},
    )
    kernel = unravel(jnp.asarray(found.x)).kernel()
    between = (x[1:] + x[:-1]) / 2
    report = {
        "components": P,
        "frequencies": Q,
        "grid_points": points,
        "fitted_on": list(domain),
        "relative_error": relative_error(kernel(x), G),
        "relative_error_between_grid_points": relative_error(kernel(between), target(between)),
        "relative_error_at_start": float(np.sqrt(as_numpy(start)[0])),
        "iterations": int(found.nit),
        "stopped": str(found.message),
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

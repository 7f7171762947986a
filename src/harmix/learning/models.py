"""What learning moves: harmonizable mixtures laid out as bands, with few parameters for many components.

A harmonizable mixture with everything free overfits: every window invents frequencies of its own. Here K bands (a trend at
frequency 0, and lines) run through P windows. A band has one lengthscale and one window width; what may differ from window
to window is its amplitude and, where the data ask for it, its frequency, and both are tied to their neighbours by a prior.
With equal amplitudes and wide windows a band is a stationary spectral line: that is where everything starts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from harmix.features import FourierFrequencies
from harmix.kernels import HarmonizableMixture

# Standard deviations of the priors, all of logarithms or relative to a natural unit; see `Bands.log_prior`.
WINDOW_SPREAD = 0.3
LENGTHSCALE_SPREAD = 1.0
AMPLITUDE_SPREAD = 1.5
LOCAL_SPREAD = 0.7
NOISE_SPREAD = 2.0
OFFSET_SPREAD = 2.0


class Layout(NamedTuple):
    """What a set of bands is measured against; fixed while they are learned.

    Attributes:
        centers: of the windows, `(P, D)`.
        edges: pairs of neighbouring windows, `(E, 2)`.
        window: the width that windows start from and are drawn to, `(D,)`.
        frequencies: where each band starts, window by window, `(K, P, D)`.
        drift: how far the frequencies of neighbouring windows may lie apart, `(D,)`; 0 ties them together.
        amplitudes: log standard deviations that bands start from, `(K,)`.
        noise: log noise variance to start from, a number.
        real: whether the process is real.
    """

    centers: Float[Array, "P D"]
    edges: np.ndarray
    window: Float[Array, " D"]
    frequencies: Float[Array, "K P D"]
    drift: Float[Array, " D"]
    amplitudes: Float[Array, " K"]
    noise: Float[Array, ""]
    real: bool


class Model(NamedTuple):
    """A prior, its inducing features and the noise: what a bound takes."""

    kernel: HarmonizableMixture
    features: FourierFrequencies
    noise_variance: Float[Array, ""]


class Bands(eqx.Module):
    """Unconstrained coordinates of K bands in P windows; all start at 0, where the prior is highest.

    Attributes:
        window: log width relative to the layout's, `(K, D)`.
        lengthscale: logit of the lengthscale relative to the window, `(K, D)`.
        frequency: shift of a whole band, in units of a window's spectral width, `(K, D)`.
        drift: shifts window by window, in units of the layout's drift, `(K, P, D)`; size 0 in P when tied.
        amplitude: log standard deviation relative to the layout's, `(K,)`.
        local: log amplitude of each window relative to the band's, `(K, P)`.
        noise: log noise variance relative to the layout's.
        offsets: inducing frequencies relative to the band's, in units of a window's spectral width, `(K, M, D)`.
    """

    window: Float[Array, "K D"]
    lengthscale: Float[Array, "K D"]
    frequency: Float[Array, "K D"]
    drift: Float[Array, "K _ D"]
    amplitude: Float[Array, " K"]
    local: Float[Array, "K P"]
    noise: Float[Array, ""]
    offsets: Float[Array, "K M D"]


def initial_bands(layout: Layout, M: int) -> Bands:
    """All coordinates at 0, and inducing frequencies side by side: upwards from 0 for a trend, to both sides of a line."""
    K, P, D = layout.frequencies.shape
    drifts = P if float(jnp.max(layout.drift)) > 0 else 0
    is_trend = np.all(np.asarray(layout.frequencies) == 0, axis=(1, 2)) & layout.real
    steps = np.where(is_trend[:, None, None], _star(M, D, one_sided=True), _star(M, D, one_sided=False))  # (K, M, D)
    return Bands(
        jnp.zeros((K, D)),
        jnp.zeros((K, D)),
        jnp.zeros((K, D)),
        jnp.zeros((K, drifts, D)),
        jnp.zeros(K),
        jnp.zeros((K, P)),
        jnp.zeros(()),
        jnp.asarray(SPACING * steps),
    )


def _star(M: int, D: int, *, one_sided: bool) -> np.ndarray:
    """M places `(M, D)` at whole steps from 0 along the axes in turn, to both sides or to one (-w says what w does)."""
    if D == 1:
        return (np.arange(M) - (0 if one_sided else (M - 1) / 2))[:, None]
    number = np.arange(M - 1)
    rays = np.eye(D) if one_sided else np.concatenate([np.eye(D), -np.eye(D)])
    return np.concatenate([np.zeros((1, D)), (1 + number // len(rays))[:, None] * rays[number % len(rays)]])


# Neighbouring inducing frequencies of a window are correlated like exp(-SPACING^2 / 2): closer ones say little new.
SPACING = 1.6


def build(bands: Bands, layout: Layout) -> Model:
    """The kernel with P K components of one frequency each (band by band), its features and the noise."""
    K, P, D = layout.frequencies.shape
    windows = layout.window * jnp.exp(bands.window)  # (K, D)
    # Below the window: an oscillation that outlasts its window is a deterministic wave packet, sure of itself in every gap.
    lengthscales = windows * jax.nn.sigmoid(bands.lengthscale)
    unit = 1 / (2 * jnp.pi * windows)  # standard deviation of a window's spectrum
    frequencies = layout.frequencies + (bands.frequency * unit)[:, None, :]
    if bands.drift.shape[1]:
        frequencies = frequencies + bands.drift * layout.drift
    if layout.real:  # a trend stays at 0: elsewhere it would be a line
        frequencies = jnp.where(jnp.all(layout.frequencies == 0, axis=(1, 2))[:, None, None], 0.0, frequencies)
    rates = _slopes(frequencies, layout.centers[:, 0]) if bands.drift.shape[1] and D == 1 and P > 1 else None
    deviation = (layout.amplitudes + bands.amplitude)[:, None] + bands.local  # (K, P)
    each = lambda v: jnp.repeat(v, P, axis=0)
    inducing = frequencies[:, :, None, :] + (bands.offsets * unit[:, None, :])[:, None]  # (K, P, M, D)
    kernel = HarmonizableMixture(
        jnp.tile(layout.centers, (K, 1)),
        each(windows),
        each(lengthscales),
        frequencies.reshape(K * P, 1, D),
        jnp.exp(2 * deviation).reshape(K * P, 1, 1),
        real=layout.real,
        rates=None if rates is None else rates.reshape(K * P, 1),
    )
    features = FourierFrequencies(inducing.reshape(K * P, -1, D))
    return Model(kernel, features, jnp.exp(layout.noise + bands.noise))


def _slopes(frequencies: Float[Array, "K P 1"], centers: Float[Array, " P"]) -> Float[Array, "K P 1"]:
    """How fast each band's frequency changes at each window, from those of its neighbours: a window follows the path that it is on."""
    inner = (frequencies[:, 2:] - frequencies[:, :-2]) / (centers[2:] - centers[:-2])[:, None]
    ends = (frequencies[:, 1:] - frequencies[:, :-1]) / (centers[1:] - centers[:-1])[:, None]
    return jnp.concatenate([ends[:, :1], inner, ends[:, -1:]], axis=1)


def log_prior(bands: Bands, layout: Layout) -> Float[Array, ""]:
    """Log density of independent normals over the coordinates, up to what does not depend on them but with every constant that
    depends on how many they are, so that models of different size can be compared.

    Neighbouring windows differ in log amplitude by `LOCAL_SPREAD`, in frequency by the layout's drift.
    """

    def normal(value: Array, deviation: Any) -> Array:
        return jnp.sum(-0.5 * (value / deviation) ** 2 - jnp.log(deviation) - 0.5 * jnp.log(2 * jnp.pi))

    i, j = layout.edges[:, 0], layout.edges[:, 1]
    P = layout.centers.shape[0]
    total = (
        normal(bands.window, WINDOW_SPREAD)
        + normal(bands.lengthscale, LENGTHSCALE_SPREAD)
        + normal(bands.frequency, 1.0)
        + normal(bands.amplitude, AMPLITUDE_SPREAD)
        + normal(bands.noise, NOISE_SPREAD)
        # A random walk says nothing of the mean, which the band's own amplitude has: it is held near 0.
        + normal(jnp.sum(bands.local, axis=1) / jnp.sqrt(P), LOCAL_SPREAD)
        + normal((bands.local[:, i] - bands.local[:, j]) / jnp.sqrt(2.0), LOCAL_SPREAD)
    )
    if bands.drift.shape[1]:
        total = (
            total + normal(jnp.sum(bands.drift, axis=1) / jnp.sqrt(P), 1.0) + normal(bands.drift[:, i] - bands.drift[:, j], 1.0)
        )
    # Inducing frequencies are variational parameters: they have no prior, any are right.
    return total

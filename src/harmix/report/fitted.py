"""A fitted model in the units of a person: what the report, its pictures and its table are made from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from harmix.inference.power import Spectrogram

# Probability of every band that is drawn.
LEVEL = 0.9


class Fitted(NamedTuple):
    """`y = y_shift + y_scale f((x - x_shift) / x_scale) + noise`, with the posterior of f.

    Attributes:
        posterior: `harmix.Posterior`, or a mixture of them.
        kernel: the prior, a harmonizable mixture.
        features: its inducing frequencies.
        noise_variance: of the scaled observations.
        x_shift, x_scale: `(D,)`.
        y_shift, y_scale: numbers.
        domain: lowest and highest place of the data in the person's units, `(2, D)`.
        restarts: how learning went: dicts with name, objective, bound, iterations, converged, message, seconds.
        chosen: which of them was kept.
        inference: "map", "ensemble" or "nuts".
    """

    posterior: Any
    kernel: Any
    features: Any
    noise_variance: float
    x_shift: np.ndarray
    x_scale: np.ndarray
    y_shift: float
    y_scale: float
    domain: np.ndarray
    restarts: tuple[dict[str, Any], ...] = ()
    chosen: int = 0
    inference: str = "map"

    @property
    def input_dim(self) -> int:
        """D."""
        return len(self.x_shift)

    @property
    def noise(self) -> float:
        """Standard deviation of the noise, in units of y."""
        return float(self.y_scale * np.sqrt(self.noise_variance))

    def inside(self, X: np.ndarray) -> np.ndarray:
        """Places `(n, D)` as the posterior takes them."""
        return (np.asarray(X, float).reshape(-1, self.input_dim) - self.x_shift) / self.x_scale

    def predict(self, X: np.ndarray, *, noise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation `(n,)` of the signal at `(n, D)` places, or of new observations there."""
        inner = self.inside(X)
        mean = self.y_shift + self.y_scale * np.asarray(self.posterior.mean(inner))
        return mean, self.y_scale * np.sqrt(np.asarray(self.posterior.variance(inner, noise=noise)))

    def components(self) -> list[Component]:
        """The terms of the kernel in the person's units, in the order of the kernel."""
        k = self.kernel
        weights = np.asarray(k.weights)
        P = max(len(np.asarray(a)) for a in (k.centers, k.windows, k.lengthscales, k.frequencies, weights))
        full = lambda a: np.broadcast_to(np.asarray(a), (P, *np.shape(a)[1:]))
        centers = self.x_shift + self.x_scale * full(k.centers)
        windows, lengthscales = (self.x_scale * full(a) for a in (k.windows, k.lengthscales))
        frequencies, weights = full(k.frequencies) / self.x_scale, full(weights)
        return [
            Component(
                centers[p], windows[p], lengthscales[p], frequencies[p, q], float(self.y_scale**2 * np.real(weights[p, q, q]))
            )
            for p in range(P)
            for q in range(frequencies.shape[1])
        ]

    def inducing(self) -> np.ndarray:
        """Inducing frequencies in the person's units, each with the centre of its component: `(M, 2 D)`."""
        if not hasattr(self.features, "frequencies"):
            return np.zeros((0, 2 * self.input_dim))
        frequencies = np.asarray(self.features.frequencies) / self.x_scale  # (P, M, D)
        centers = self.x_shift + self.x_scale * np.asarray(self.kernel.centers)
        centers = np.broadcast_to(centers[:, None], frequencies.shape)
        return np.concatenate([centers, frequencies], axis=2).reshape(-1, 2 * self.input_dim)

    def spectrogram(self, times: np.ndarray, frequencies: np.ndarray, width: float) -> Spectrogram:
        """Squared amplitude of the sine that a window shows, with its band: `2 |G|^2 / (pi width^2)`, `(T, F)`."""
        scale = float(self.x_scale[0])
        power = self.posterior.spectrogram(self.inside(times)[:, 0], frequencies * scale, width / scale, level=LEVEL)
        unit = 2 * self.y_scale**2 / (np.pi * (width / scale) ** 2)
        return power._replace(
            times=times, frequencies=frequencies, mean=unit * power.mean, lower=unit * power.lower, upper=unit * power.upper
        )

    def wigner(self, times: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
        """The expected Wigner-Ville distribution `(T, F)`, in squared units of y per frequency."""
        scale = float(self.x_scale[0])
        return np.asarray(self.posterior.wigner(self.inside(times)[:, 0], frequencies * scale)) * self.y_scale**2 * scale

    def band(self, mean: np.ndarray, deviation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The interval around the mean that holds with probability `LEVEL`."""
        reach = float(ndtri(0.5 + LEVEL / 2)) * deviation
        return mean - reach, mean + reach


class Component(NamedTuple):
    """One oscillation of one component of the kernel.

    Attributes:
        center: `(D,)`.
        window: standard deviation of its variance envelope, `(D,)`.
        lengthscale: over which it keeps its phase, `(D,)`.
        frequency: cycles per unit, `(D,)`.
        power: variance at its centre.
    """

    center: np.ndarray
    window: np.ndarray
    lengthscale: np.ndarray
    frequency: np.ndarray
    power: float

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation of its spectrum, `sqrt(Sigma2)`."""
        return np.sqrt(1 / (16 * np.pi**2 * self.window**2) + 1 / (4 * np.pi**2 * self.lengthscale**2))

"""Signals to try harmix on: chirps made here, whose truth is known, and the two data sets of the paper.

Every loader returns a `Dataset` with `data`, `target` and the masks `train` and `test`. The real data sets
are not part of the package: `load_solar` and `load_banana` read `$HARMIX_DATA`, then the user's cache
directory.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SNR = 10.0  # dB, of `make_chirp` when neither snr nor noise is given
GAP_COUNT = 3
SOLAR_GAPS = ((1620.0, 1650.0), (1700.0, 1720.0), (1780.0, 1800.0), (1850.0, 1870.0), (1930.0, 1950.0))


class Dataset(dict[str, Any]):
    """A data set with named fields, as keys and as attributes: `d.target` is `d["target"]`.

    Example:
        >>> d = Dataset(target=np.zeros(3))
        >>> d.target is d["target"]
        True
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this data set has no field {name!r}; it has {', '.join(self)}.") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]

    def __repr__(self) -> str:
        return f"Dataset({', '.join(self)})"


# --- chirps -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Shape:
    """One oscillation over the unit interval: frequency, its integral over u, amplitude."""

    frequency: Callable[[np.ndarray], np.ndarray]
    cycles: Callable[[np.ndarray], np.ndarray]
    amplitude: Callable[[np.ndarray], np.ndarray] = np.ones_like


def _power_sweep(start: float, stop: float, power: int) -> _Shape:
    """`start + (stop - start) u^power`, and its integral."""
    return _Shape(
        lambda u: start + (stop - start) * u**power,
        lambda u: start * u + (stop - start) * u ** (power + 1) / (power + 1),
    )


def _jump(before: float, after: float) -> _Shape:
    # The phase is continuous: only the frequency jumps.
    return _Shape(
        lambda u: np.where(u < 0.5, before, after),
        lambda u: np.where(u < 0.5, before * u, before * 0.5 + after * (u - 0.5)),
    )


_KINDS: dict[str, tuple[_Shape, ...]] = {
    "linear": (_power_sweep(0.5, 4.0, 1),),
    "quadratic": (_power_sweep(0.5, 4.0, 2),),
    "crossing": (_power_sweep(0.5, 4.0, 1), _power_sweep(4.0, 0.5, 1)),
    "jump": (_jump(1.0, 3.0),),
    "burst": (
        dataclasses.replace(_power_sweep(2.0, 2.0, 1), amplitude=lambda u: 0.15 + np.exp(-0.5 * ((u - 0.5) / 0.1) ** 2)),
    ),
}


@dataclasses.dataclass(frozen=True)
class Chirp:
    """The noiseless signal behind `make_chirp`: call it, or ask it for amplitudes, phases and frequencies.

    `f(x) = sum_r a_r(x) cos(2 pi phi_r(x))`, R = 2 oscillations for `kind="crossing"` and 1 for the others.

    Attributes:
        kind: one of linear, quadratic, crossing, jump, burst.
        duration: the signal lives on `[0, duration]`; frequencies are those stated at `u = x / duration`.

    Example:
        >>> truth = Chirp("linear", 10.0)
        >>> truth.frequency([0.0, 10.0])[:, 0].tolist()
        [0.5, 4.0]
    """

    kind: str
    duration: float

    def __call__(self, x: Any) -> np.ndarray:
        """The signal `(n,)` at `x`, `(n,)` or `(n, 1)`."""
        return np.sum(self.amplitude(x) * np.cos(2 * np.pi * self.phase(x)), axis=1)

    def amplitude(self, x: Any) -> np.ndarray:
        """`a_r(x)`, `(n, R)`."""
        return self._evaluate(lambda shape, u: shape.amplitude(u), x)

    def phase(self, x: Any) -> np.ndarray:
        """`phi_r(x)` in cycles, `(n, R)`."""
        return self.duration * self._evaluate(lambda shape, u: shape.cycles(u), x)

    def frequency(self, x: Any) -> np.ndarray:
        """The instantaneous frequency `d phi_r / dx` in cycles per input unit, `(n, R)`."""
        return self._evaluate(lambda shape, u: shape.frequency(u), x)

    def _evaluate(self, of: Callable[[_Shape, np.ndarray], np.ndarray], x: Any) -> np.ndarray:
        u = np.asarray(x, dtype=float).reshape(-1) / self.duration
        return np.stack([of(shape, u) for shape in _KINDS[self.kind]], axis=1)


def make_chirp(
    n: int,
    *,
    kind: str = "linear",
    snr: float | None = None,
    noise: float | None = None,
    gaps: float = 0.3,
    duration: float = 10.0,
    random_state: int | np.random.Generator | None = None,
) -> Dataset:
    """A signal with changing frequency, unevenly sampled, noisy and with gaps; its truth is known.

    Of the n points, `round(gaps * n)` lie inside the gaps and are the test set: their target is the noiseless
    truth. The others are the training set, with noise. Fit on `d.data[d.train], d.target[d.train]`.

    Args:
        n: how many points, training and test together.
        kind: "linear" or "quadratic" (a sweep from 0.5 to 4 cycles per input unit), "crossing" (a sweep up
            and one down), "jump" (from 1 to 3 halfway, phase continuous), "burst" (frequency 2, a burst of
            amplitude in the middle).
        snr: signal-to-noise ratio in dB: the mean square of the signal over that of the noise. Default 10.
        noise: standard deviation of the noise, instead of `snr`; 0 for none.
        gaps: the fraction of `[0, duration]` without training points, in three gaps of random places and
            lengths.
        duration: the signal lives on `[0, duration]`; a longer one has more cycles, of the same frequencies.
        random_state: an integer, a `numpy.random.Generator`, or None for different numbers each time.

    Returns:
        A `Dataset`: `data` (n, 1) ascending; `target` (n,); `train`, `test` (n,) bool; `truth`, a `Chirp`:
        the noiseless signal as a function; `frequency` (n, R) and `amplitude` (n, R) at the data; `gaps` (G,
        2), open intervals; `noise`, the standard deviation; `kind`; `duration`.

    Example:
        >>> import harmix as hx
        >>> d = hx.datasets.make_chirp(200, kind="crossing", random_state=0)
        >>> d.data.shape, int(d.train.sum()), d.frequency.shape
        ((200, 1), 140, (200, 2))
    """
    n = _whole("n", n, at_least=1)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}; got {kind!r}.")
    gaps = _number("gaps", gaps)
    if not 0 <= gaps < 1:
        raise ValueError(f"gaps must be a fraction from 0 to below 1, got {gaps!r}; 0.3 leaves out 30 % of the record.")
    duration = _number("duration", duration)
    if duration <= 0:
        raise ValueError(f"duration must be positive, got {duration!r}.")
    if snr is not None and noise is not None:
        raise ValueError(f"give snr or noise, not both (snr = {snr!r} dB, noise = {noise!r}).")
    rng = _generator(random_state)
    truth = Chirp(kind, duration)
    if noise is None:
        power = float(np.mean(truth(np.linspace(0, duration, 20_001)) ** 2))
        deviation = float(np.sqrt(power / 10 ** (_number("snr", SNR if snr is None else snr) / 10)))
    else:
        deviation = _number("noise", noise)
        if deviation < 0:
            raise ValueError(f"noise is a standard deviation and must not be negative, got {noise!r}.")

    intervals = _place_gaps(gaps, duration, rng)
    n_test = round(gaps * n)
    edges = np.concatenate([[0.0], intervals.ravel(), [duration]]).reshape(-1, 2)
    x = np.concatenate([_uniform_on(edges, n - n_test, rng), _uniform_on(intervals, n_test, rng)])
    order = np.argsort(x, kind="stable")
    x, test = x[order], (np.arange(n) >= n - n_test)[order]
    target = truth(x) + np.where(test, 0.0, deviation * rng.standard_normal(n))
    return Dataset(
        data=x[:, None],
        target=target,
        train=~test,
        test=test,
        truth=truth,
        frequency=truth.frequency(x),
        amplitude=truth.amplitude(x),
        gaps=intervals,
        noise=deviation,
        kind=kind,
        duration=duration,
    )


def _place_gaps(fraction: float, duration: float, rng: np.random.Generator) -> np.ndarray:
    """Gaps `(G, 2)` that touch neither each other nor the ends: no piece is below half an even share."""
    if fraction == 0:
        return np.empty((0, 2))
    share = lambda parts: 0.5 / parts + 0.5 * rng.dirichlet(np.ones(parts))
    lengths = np.empty(2 * GAP_COUNT + 1)
    lengths[0::2] = (1 - fraction) * duration * share(GAP_COUNT + 1)
    lengths[1::2] = fraction * duration * share(GAP_COUNT)
    return np.cumsum(lengths)[:-1].reshape(-1, 2)


def _uniform_on(intervals: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """`n` points, uniform on a union of disjoint intervals `(G, 2)`."""
    if n == 0:
        return np.empty(0)
    lengths = intervals[:, 1] - intervals[:, 0]
    which = rng.choice(len(intervals), size=n, p=lengths / lengths.sum())
    return intervals[which, 0] + lengths[which] * rng.random(n)


# --- the paper's data sets ----------------------------------------------------------------------------------


def load_solar() -> Dataset:
    """Solar irradiance from 1610 to 2000 (Lean, 2004), with the five intervals that every comparison leaves
    out.

    Returns:
        A `Dataset`: `data` (391, 1), the year standardised; `target` (391,), total irradiance standardised
        with all 391 values; `test` (391,), strictly inside the intervals (110 points), and `train`, the
        others (281); `year` and `irradiance` (391,), as in the file, in years and W/m2; `gaps` (5, 2) in
        years.

    Example:
        >>> solar = hx.datasets.load_solar()  # doctest: +SKIP
        >>> model.fit(solar.data[solar.train], solar.target[solar.train])  # doctest: +SKIP
    """
    table = _read_table("solar_irradiance.csv", rows=391, columns=3)
    year, irradiance = table[:, 0], table[:, 2]
    gaps = np.array(SOLAR_GAPS)
    test = np.any((year[:, None] > gaps[:, 0]) & (year[:, None] < gaps[:, 1]), axis=1)
    return Dataset(
        data=_standardise(year)[:, None],
        target=_standardise(irradiance),
        train=~test,
        test=test,
        year=year,
        irradiance=irradiance,
        gaps=gaps,
    )


def load_banana() -> Dataset:
    """The banana classification problem (Raetsch's benchmark, first training split): two classes in the
    plane.

    Returns:
        A `Dataset`: `data` (400, 2); `target` (400,), integers 0 and 1; `train` (400,), all true, and `test`,
        all false: this file has no test split.

    Example:
        >>> hx.datasets.load_banana().data.shape  # doctest: +SKIP
        (400, 2)
    """
    table = _read_table("banana.csv", rows=400, columns=3)
    everything = np.ones(len(table), dtype=bool)
    return Dataset(data=table[:, :2], target=table[:, 2].astype(int), train=everything, test=~everything)


def data_directories() -> list[Path]:
    """Where the loaders look, in this order: `$HARMIX_DATA` when it is set, then the user's cache.

    The cache is `$XDG_CACHE_HOME/harmix`; without that variable, what the platform prescribes.

    Example:
        >>> data_directories()[-1].is_absolute()
        True
    """
    chosen = os.environ.get("HARMIX_DATA")
    return [*([Path(chosen).expanduser()] if chosen else []), _user_cache() / "harmix"]


def _user_cache() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(xdg):  # the XDG specification says to ignore a relative path
        return Path(xdg)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".cache"


def _read_table(filename: str, *, rows: int, columns: int) -> np.ndarray:
    """The numbers `(rows, columns)` of a data file, from the first directory that has it."""
    directories = data_directories()
    path = next((d / filename for d in directories if (d / filename).is_file()), None)
    if path is None:
        cache = directories[-1]
        environment = f"HARMIX_DATA, {directories[0]}" if len(directories) > 1 else "the directory HARMIX_DATA (it is not set)"
        raise FileNotFoundError(
            f"{filename} is neither in {environment}, nor in the cache, {cache}. "
            f"Set HARMIX_DATA to a directory that holds it, or put it into {cache}."
        )
    try:
        table = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} is not the table harmix expects ({error}); replace the file.") from None
    if table.shape != (rows, columns) or not np.all(np.isfinite(table)):
        raise ValueError(
            f"{path} should hold {rows} rows of {columns} finite numbers, but its shape is {table.shape}; replace the file."
        )
    return table


def _standardise(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


# --- checks of arguments; harmix.arguments would do, but it imports JAX, which nothing here needs -----------


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"{name} must be a number, got {value!r}.")
    if not np.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value!r}.")
    return float(value)


def _whole(name: str, value: Any, *, at_least: int) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {value!r}.")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value!r}.")
    return int(value)


def _generator(random_state: Any) -> np.random.Generator:
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    if isinstance(random_state, bool | np.bool_) or not isinstance(random_state, int | np.integer):
        raise TypeError(f"random_state must be an integer, a numpy.random.Generator or None, got {random_state!r}.")
    return np.random.default_rng(_whole("random_state", random_state, at_least=0))

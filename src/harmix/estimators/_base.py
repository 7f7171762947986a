"""What the estimators share: inputs in the user's units, the support of the model, and its pictures and table."""

from __future__ import annotations

import abc
import dataclasses
import warnings
from os import PathLike
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from harmix.estimators._inputs import Clock, Clocks, as_numbers
from harmix.kernels import HarmonizableMixture
from harmix.precision import in_float64

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# A component supports what lies within so many of its windows: its variance there is above 1 % of that at its centre.
SUPPORT = 3.0
# Places and frequencies of a picture when none are asked for.
TIMES, FREQUENCIES = 200, 150


class ExtrapolationWarning(UserWarning):
    """Predictions were asked for where no component of the model reaches: they fall back to the mean of the data."""


class HarmonizableGP(BaseEstimator, abc.ABC):
    """What is common to regressor and classifier; not for use by itself.

    After `fit`, inference is in terms of `(x - x_shift_) / x_scale_` of the columns that vary.
    """

    # --- inputs -------------------------------------------------------------------------------------------------------

    def _start(self, X: Any, y: Any, **checks: Any) -> tuple[np.ndarray, np.ndarray]:
        """Checked X and y at fit, `(n, D)` and `(n,)`; the clocks of columns of times are set."""
        X, clocks = as_numbers(X)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2, **checks)
        self._clocks: Clocks = clocks
        return X, y

    def _numbers(self, X: Any, y: Any = "no_validation", **checks: Any) -> Any:
        """Checked X (and y) after fit, in the user's units, times as numbers."""
        check_is_fitted(self)
        X, _ = as_numbers(X, self._clocks)
        return validate_data(self, X, y, dtype=np.float64, reset=False, **checks)

    def _inside(self, X: np.ndarray) -> np.ndarray:
        """`(n, d)` as inference takes them, from `(n, D)`."""
        return (X[:, self.varying_] - self.x_shift_) / self.x_scale_

    def _set_domain(self, X: np.ndarray) -> None:
        """Where the data are and how far the model reaches, once the kernel is known."""
        self.domain_ = np.stack([X[:, self.varying_].min(axis=0), X[:, self.varying_].max(axis=0)])
        # In many dimensions the data themselves are far from all centres; a little beyond them is not another place.
        self.reach_ = max(SUPPORT, 1.1 * float(np.max(self._distance(self._inside(X)))))

    def _distance(self, inside: np.ndarray) -> np.ndarray:
        """From each row to the nearest centre, in windows of that component."""
        centers, windows, *_ = _components(self._kernel)
        nearest = np.full(len(inside), np.inf)
        for center, window in zip(centers, windows, strict=True):
            nearest = np.minimum(nearest, np.sum(((inside - center) / window) ** 2, axis=1))
        return np.sqrt(nearest)

    def _warn_outside(self, inside: np.ndarray) -> None:
        outside = int(np.sum(self._distance(inside) > self.reach_))
        if outside:
            low, high = self.domain_
            where = f" (the data lie between {low[0]:g} and {high[0]:g})" if len(low) == 1 and not any(self._clocks) else ""
            warnings.warn(
                f"{outside} of {len(inside)} rows of X lie outside the support of every component of the model{where}: "
                "predictions there are those of a model without data.",
                ExtrapolationWarning,
                stacklevel=3,
            )

    def _seed(self) -> int:
        """An integer for `random_state`: itself if it is one."""
        state = self.random_state
        if isinstance(state, int | np.integer) and not isinstance(state, bool) and state >= 0:
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    # --- what the model has found -------------------------------------------------------------------------------------

    @property
    def _kernel(self) -> HarmonizableMixture:
        return self.result_.kernel

    @property
    def x_units_(self) -> tuple[str, ...]:
        """The unit of each column that varies: "d" (days) or "s" (seconds) for times, "" for numbers, whose unit is yours."""
        check_is_fitted(self)
        return tuple("" if clock is None else clock.unit for clock in self._used_clocks())

    def _used_clocks(self) -> list[Clock | None]:
        clocks = self._clocks or (None,) * self.n_features_in_
        return [clocks[i] for i in np.flatnonzero(self.varying_)]

    def _names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [str(names[i]) if names is not None else f"x{i}" for i in np.flatnonzero(self.varying_)]

    def _power_scale(self) -> float:
        return float(getattr(self, "y_scale_", 1.0)) ** 2

    @property
    def components_(self) -> pd.DataFrame:
        """The components of the model, most powerful first, in the units of X and y.

        One row for each component, with the columns

            centre        where its window is; a time for columns of times
            width         standard deviation of the variance envelope
            frequencies   cycles per unit of X; a tuple where a component has several
            power         variance of the signal at the centre, in squared units of y
            lengthscale   over which its oscillations keep their phase
            rate          by how much its frequencies rise with each unit of X around the centre; only where some component's do

        With several input columns there is a centre, width, frequency, lengthscale and rate for each: "centre[x0]", ...
        """
        check_is_fitted(self)
        import pandas as pd

        centers, windows, lengthscales, frequencies, powers, rates = _components(self._kernel)
        names, clocks = self._names(), self._used_clocks()
        signs = (
            np.sign(frequencies[..., :1]) if self._kernel.real else np.ones((1, 1, 1))
        )  # w and -w are the same to a real process
        signs = np.where(signs == 0, 1.0, signs)
        frequencies, rates = frequencies * signs, rates * signs[:, 0]
        wanted = ("centre", "width", "frequencies", "power", "lengthscale") + (
            ("rate",) if self._kernel.rates is not None else ()
        )
        columns = {}
        for what in wanted:
            if what == "power":
                columns[what] = powers * self._power_scale()
                continue
            for d, name in enumerate(names):
                s, label = self.x_scale_[d], what if len(names) == 1 else f"{what}[{name}]"
                if what == "centre":
                    values: Any = self.x_shift_[d] + s * centers[:, d]
                    values = values if (clock := clocks[d]) is None else clock.times(values)
                elif what == "frequencies":
                    each = frequencies[:, :, d] / s
                    values = each[:, 0] if each.shape[1] == 1 else [tuple(map(float, row)) for row in each]
                elif what == "rate":
                    values = rates[:, d] / s**2
                else:
                    values = s * (windows if what == "width" else lengthscales)[:, d]
                columns[label] = values
        frame = pd.DataFrame(columns).sort_values("power", ascending=False, kind="stable", ignore_index=True)
        frame.attrs["units"] = dict(zip(names, self.x_units_, strict=True))
        return frame

    # --- pictures -----------------------------------------------------------------------------------------------------

    def spectrogram(self, times: Any = None, frequencies: Any = None, width: Any = None, level: float = 0.9) -> xr.Dataset:
        """The power `|G|^2` of the record by time and frequency given the data, with its credible band (MATH.md section 7).

        `G(x, w) = int f(s) exp(-(s - x)^2 / (2 width^2)) exp(-2 pi i w s) ds` for the signal f about the mean of y. A sine of
        amplitude a has the power `pi (a width)^2 / 2`. The band widens inside gaps.

        Args:
            times: `(T,)`, as X has them, numbers or datetimes; 200 over the record by default.
            frequencies: `(F,)`, cycles per unit of X (per day or second, see `x_units_`); the band of the model by default.
            width: standard deviation of the window in units of X; half a typical component's by default, at most a tenth of
                the record.
            level: the probability that the band holds at each time and frequency.

        Returns:
            A Dataset with `mean`, `lower` and `upper` over `time` and `frequency` (and `class`, of a classifier of several).
        """
        import xarray as xr

        x, w, coords = self._picture(times, frequencies)
        unit = float(self.x_scale_[0])
        width = self._default_width() if width is None else float(width)
        parts = []
        for posterior in self._posteriors():
            power = posterior.spectrogram(x, w * unit, width / unit, level=level)
            parts.append({name: self._power_scale() * unit**2 * getattr(power, name) for name in ("mean", "lower", "upper")})
        variables = {name: self._labelled([part[name] for part in parts]) for name in parts[0]}
        attrs = {"long_name": "power of the signal under a Gaussian window", "width": width, "level": level}
        return xr.Dataset(variables, coords=self._with_classes(coords), attrs=attrs)

    def wigner(self, times: Any = None, frequencies: Any = None) -> xr.DataArray:
        """The expected Wigner-Ville distribution of the signal given the data, by time and frequency.

        `int E[f(x + t / 2) f(x - t / 2) | y] exp(-2 pi i w t) dt` for the signal f about the mean of y; it integrates over all
        frequencies, negative ones included, to `E[f(x)^2 | y]`.

        Args:
            times: `(T,)`, as X has them, numbers or datetimes; 200 over the record by default.
            frequencies: `(F,)`, cycles per unit of X (per day or second, see `x_units_`); the band of the model by default.

        Returns:
            A DataArray over `time` and `frequency` (and `class`, of a classifier of several).
        """
        import xarray as xr

        x, w, coords = self._picture(times, frequencies)
        unit = float(self.x_scale_[0])
        values = [self._power_scale() * unit * posterior.wigner(x, w * unit) for posterior in self._posteriors()]
        dims, stacked = self._labelled(values)
        attrs = {"long_name": "expected Wigner-Ville distribution"}
        return xr.DataArray(stacked, self._with_classes(coords), dims, "wigner", attrs)

    @abc.abstractmethod
    def _posteriors(self) -> list[Any]:
        """Of the latent processes."""

    def _picture(self, times: Any, frequencies: Any) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        """Scaled times, frequencies in the user's units, and labelled coordinates."""
        check_is_fitted(self)
        if len(self.x_shift_) != 1:
            raise ValueError(
                f"pictures of time and frequency need one input column that varies, and X had {len(self.x_shift_)}: "
                "components_ has centres and frequencies in every dimension."
            )
        clock = self._used_clocks()[0]
        times = np.linspace(self.domain_[0, 0], self.domain_[1, 0], TIMES) if times is None else np.asarray(times)
        if times.dtype.kind in "mM":
            if clock is None:
                raise ValueError("times are datetimes, but X had numbers when the model was fitted: give numbers.")
            times = clock.numbers(times)
        x = (np.asarray(times, float) - self.x_shift_[0]) / self.x_scale_[0]
        if frequencies is None:
            frequencies = np.linspace(0, self._band(), FREQUENCIES)
        w = np.asarray(frequencies, dtype=float)
        per = {"d": "cycles per day", "s": "cycles per second"}.get("" if clock is None else clock.unit, "cycles per unit of X")
        label = clock.times(times) if clock else times
        coords = {
            "time": ("time", label, {"long_name": self._names()[0]} | ({} if clock else {"units": "units of X"})),
            "frequency": ("frequency", w, {"long_name": "frequency", "units": per}),
        }
        return x, w, coords

    def _band(self) -> float:
        """The frequency above which the spectrum of every component of some power has fallen off."""
        _, windows, lengthscales, frequencies, powers, rates = _components(self._kernel)
        deviation = np.sqrt(1 / (8 * np.pi**2 * windows**2) + 1 / (4 * np.pi**2 * lengthscales**2) + (rates * windows / 3) ** 2)
        reach = np.max(np.abs(frequencies), axis=(1, 2)) + 3 * np.max(deviation, axis=1)
        return float(np.max(reach[powers > 1e-3 * np.max(powers)]) / self.x_scale_[0])

    def _default_width(self) -> float:
        _, windows, *_ = _components(self._kernel)
        return float(min(np.median(windows) * self.x_scale_[0] / 2, np.ptp(self.domain_[:, 0]) / 10))

    def _labelled(self, parts: list[np.ndarray]) -> tuple[tuple[str, ...], np.ndarray]:
        if len(parts) == 1:
            return ("time", "frequency"), parts[0]
        return ("class", "time", "frequency"), np.stack(parts)

    def _with_classes(self, coords: dict[str, Any]) -> dict[str, Any]:
        classes = getattr(self, "classes_", None)
        return coords if classes is None or len(classes) == 2 else coords | {"class": classes}

    # --- keeping it ---------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str], *, details: dict[str, Any] | None = None) -> None:
        """Writes the fitted estimator to one file that is safe to share: numbers and names, no pickle, no training data.

        `harmix.load` reads it; predictions are then the same to the last bit. See `harmix.persistence` for the format.

        Args:
            path: the file.
            details: what else to keep, as JSON would have it: where the data came from, say.
        """
        from harmix.persistence import save

        check_is_fitted(self)
        save(self, path, details=details)

    def __getstate__(self) -> dict[str, Any]:
        # A pickled 64-bit JAX array comes back with 32 bits: pickles and copies hold NumPy arrays.
        state = super().__getstate__()
        return {name: jax.tree.map(_to_numpy, value) for name, value in state.items()}

    @in_float64
    def __setstate__(self, state: dict[str, Any]) -> None:
        if (result := state.get("result_")) is not None:
            names = {f.name for f in dataclasses.fields(result)} - {"restarts"}  # their histories are NumPy's
            arrays = {name: jax.tree.map(_to_jax, getattr(result, name)) for name in names}
            state = state | {"result_": dataclasses.replace(result, **arrays)}
        super().__setstate__(state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "result_")


def _to_numpy(leaf: Any) -> Any:
    return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf


def _to_jax(leaf: Any) -> Any:
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


def _components(kernel: HarmonizableMixture) -> tuple[np.ndarray, ...]:
    """Centres, windows, lengthscales `(P, D)`, frequencies `(P, Q, D)`, powers `(P,)` and rates `(P, D)`, shared ones repeated."""
    P = len(kernel.centers)
    rates = np.zeros((1, kernel.centers.shape[1])) if kernel.rates is None else kernel.rates
    parts = kernel.centers, kernel.windows, kernel.lengthscales, kernel.frequencies, kernel.weights, rates
    *rest, weights, rates = (np.broadcast_to(a, (P, *np.shape(a)[1:])) for a in parts)
    return (*rest, np.real(np.trace(weights, axis1=1, axis2=2)), rates)

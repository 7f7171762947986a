"""Regression for people: a table in, forecasts with honest errors out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from harmix.estimators._base import HarmonizableGP
from harmix.estimators._inputs import input_units, merge, positive_weights
from harmix.estimators._progress import Watch
from harmix.precision import in_float64
from harmix.summary import Summary

# With more columns than this frequencies cannot span the inputs; see `_points`.
FEW_COLUMNS = 3


class HarmonizableGPRegressor(RegressorMixin, HarmonizableGP):
    """A Gaussian process for signals whose frequencies change, in the manner of scikit-learn: `y = f(x) + noise`.

    The kernel of f is a harmonizable mixture, `k(x, x') = sum_p k_p(x - x_p, x' - x_p)`: windows along the record, each with
    frequencies of its own. It is learned, and inference uses Fourier features of its components, so that thousands of
    observations take seconds. Columns of X may be datetimes: they are told in days if they span ten days or more, otherwise in
    seconds (`x_units_` says which), and frequencies are then in cycles per day or per second. With more than three columns that
    vary, one window with a trend and inducing points in place of frequencies takes over, and `inference` is "map".

    Args:
        n_components: how many windows; "auto": as the data suggest.
        n_frequencies: oscillations in a window, at most; a trend counts as one.
        n_inducing: inducing frequencies in all; "auto": 50.
        max_frequency: the highest frequency to look for, in cycles per unit of X; "auto": what the sampling resolves.
        n_restarts: how many starts of learning.
        inference: "map", one set of hyperparameters; "ensemble", an average over several; "nuts", over a Markov chain of them;
            or "auto".
        random_state: an integer for the same result every time, as everywhere in scikit-learn.
        verbose: 1 shows a progress bar.

    Attributes:
        components_: a table of what was found, in units of X and y.
        result_: `harmix.FitResult`, in terms of scaled inputs and outputs: how learning went, restart by restart.
        x_shift_: mean of each column that varies, `(d,)`; x_scale_: its deviation; x_units_: its unit.
        y_shift_: mean of y; y_scale_: its deviation. All four are frozen at fit.
        domain_: lowest and highest place of the data, `(2, d)`.
        varying_: which columns of X are not constant, `(D,)`; others are left out.
        n_features_in_: D; feature_names_in_: names of columns, if they are strings.

    Example:
        >>> import numpy as np, harmix as hx
        >>> x = np.linspace(0, 4, 60)
        >>> model = hx.HarmonizableGPRegressor(n_components=2, n_frequencies=1, n_restarts=1, random_state=0)
        >>> model = model.fit(x[:, None], np.sin(2 * np.pi * x))
        >>> mean, deviation = model.predict([[2.25]], return_std=True)
        >>> bool(abs(mean[0] - 1) < 0.1)
        True
    """

    # Any value is stored here, as scikit-learn wants it; `fit` looks at them.
    def __init__(
        self,
        n_components: Any = "auto",
        n_frequencies: Any = 3,
        n_inducing: Any = "auto",
        max_frequency: Any = "auto",
        n_restarts: Any = 5,
        inference: Any = "auto",
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.n_components = n_components
        self.n_frequencies = n_frequencies
        self.n_inducing = n_inducing
        self.max_frequency = max_frequency
        self.n_restarts = n_restarts
        self.inference = inference
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HarmonizableGPRegressor:
        """Learns kernel and noise, and conditions on the data.

        Args:
            X: `(n, D)`: an array or a table; columns of datetimes are welcome.
            y: `(n,)`, real.
            sample_weight: `(n,)`: how many observations each row stands for, so that its noise variance is that of the others
                divided by it. 0 leaves a row out.
        """
        from harmix.estimators._points import fit_points
        from harmix.learning.fit import fit

        _refuse_complex(y)
        X, y = self._start(X, y, y_numeric=True)
        X, y, weights = _weighted(X, y, sample_weight)
        if len(y) < 2:
            raise ValueError("sample_weight is positive for one sample only (n_samples = 1): at least 2 are needed.")
        rows = merge(X)
        count = rows.sum(weights)
        self.varying_, self.x_shift_, self.x_scale_ = input_units(rows.X, count, type(self).__name__)
        if np.all(y == y[0]):
            raise ValueError(f"y is constant, {y[0]:g} in every row: there is nothing to learn from it.")
        with np.errstate(over="ignore", invalid="ignore"):
            level = math.fsum(rows.sum(weights * y)) / math.fsum(count)
            squares = rows.sum(weights * (y - level) ** 2)
        if not np.all(np.isfinite(squares)) or not np.sum(squares) > 0:
            raise ValueError(f"y reaches from {y.min():g} to {y.max():g}: give it in other units.")
        self.y_shift_, self.y_scale_ = level, math.sqrt(math.fsum(squares) / math.fsum(count))
        watch, summary = Watch(), self._summary(X, y, weights)
        if len(self.x_shift_) > FEW_COLUMNS:
            if self.inference not in ("auto", "map"):
                raise ValueError(
                    f'inference must be "auto" or "map" with more than {FEW_COLUMNS} columns that vary, got {self.inference!r}.'
                )
            sizes = {"n_components": self.n_components, "n_inducing": self.n_inducing}
            found = fit_points(summary, **sizes, seed=self._seed(), callback=watch)
        else:
            found = fit(
                summary,
                n_components=self.n_components,
                n_frequencies=self.n_frequencies,
                n_inducing=self.n_inducing,
                max_frequency=self._scaled_max_frequency(),
                n_restarts=self.n_restarts,
                inference=self.inference,
                random_state=self._seed(),
                progress=bool(self.verbose),
                callback=watch,
            )
        restarts = watch.named(found.restarts)
        chosen = restarts[found.chosen]
        self.result_ = dataclasses.replace(found, restarts=restarts, converged=chosen.converged, message=chosen.message)
        self._set_domain(X)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> HarmonizableGPRegressor:
        """Takes in further observations; the old ones are not needed, what was learned stays as it is.

        The posterior is exactly that of all observations together. Before a first `fit`, this is `fit`. Observations outside the
        support of every component cannot teach the model anything and are warned of; `fit` everything anew then.

        Args:
            X: `(n, D)`.
            y: `(n,)`.
            sample_weight: `(n,)`, as for `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight)
        _refuse_complex(y)
        X, y = self._numbers(X, y, y_numeric=True)
        X, y, weights = _weighted(X, y, sample_weight)
        self._warn_outside(self._inside(X))
        posterior = self.result_.posterior.update(self._summary(X, y, weights))
        self.result_ = dataclasses.replace(self.result_, posterior=posterior)
        used = X[:, self.varying_]
        self.domain_ = np.stack([np.minimum(self.domain_[0], used.min(axis=0)), np.maximum(self.domain_[1], used.max(axis=0))])
        return self

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, noise: bool = True) -> Any:
        """The expected y at the rows of X, and on demand how sure that is.

        Args:
            X: `(n, D)`.
            return_std: also return the standard deviation of y, `(n,)`.
            return_cov: also return the covariance of y between rows, `(n, n)`.
            noise: whether standard deviation and covariance are those of new observations y, or of the signal f without noise.

        Returns:
            The mean `(n,)`; or a pair of it and the standard deviation or covariance.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        inside = self._inside(self._numbers(X))
        self._warn_outside(inside)
        posterior = self.result_.posterior
        mean = self.y_shift_ + self.y_scale_ * posterior.mean(inside)
        if return_std:
            return mean, self.y_scale_ * np.sqrt(posterior.variance(inside, noise=noise))
        if return_cov:
            covariance = np.asarray(posterior.covariance(inside))
            if noise:  # members of a mixture have noise of their own
                covariance = covariance + np.diag(posterior.variance(inside, noise=True) - posterior.variance(inside))
            return mean, self.y_scale_**2 * covariance
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0, *, noise: bool = True) -> np.ndarray:
        """Joint samples of y at the rows of X given the data, `(n, n_samples)`.

        Args:
            X: `(n, D)`, at most 10,000 rows.
            n_samples: how many.
            random_state: as everywhere in scikit-learn.
            noise: whether of new observations, or of the signal without noise.
        """
        inside = self._inside(self._numbers(X))
        self._warn_outside(inside)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        samples = self.result_.posterior.sample(seed, inside, int(n_samples), noise=noise)
        return self.y_shift_ + self.y_scale_ * np.asarray(samples).T

    def _posteriors(self) -> list[Any]:
        check_is_fitted(self)
        return [self.result_.posterior]

    def _scaled_max_frequency(self) -> Any:
        if isinstance(self.max_frequency, str):
            return self.max_frequency  # "auto", or refused by fit
        highest = np.asarray(self.max_frequency, dtype=float)
        if highest.ndim == 1 and len(highest) == len(self.varying_):
            highest = highest[self.varying_]
        scaled = highest * self.x_scale_
        return float(scaled[0]) if scaled.shape == (1,) else tuple(map(float, scaled))

    @in_float64
    def _summary(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Summary:
        """Scaled observations, equal places merged: w of the same place are one of weight w."""
        rows = merge(X)
        scaled = (y - self.y_shift_) / self.y_scale_
        count, total, squares = (rows.sum(weights * v) for v in (np.ones(len(y)), scaled, scaled**2))
        sums = (jnp.asarray(math.fsum(v)) for v in (count, squares))
        n, squared = sums
        nodes = jnp.asarray(self._inside(rows.X))
        zero = jnp.zeros(())
        return Summary(nodes, jnp.asarray(count), jnp.asarray(total), n, squared, zero, None, zero, None)


def _refuse_complex(y: Any) -> None:
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    if kind == "c" or (isinstance(y, list | tuple) and any(isinstance(value, complex) for value in y)):
        raise ValueError(
            "Complex data not supported: HarmonizableGPRegressor is for real y; harmix.fit takes complex y, for a complex process."
        )


def _weighted(X: np.ndarray, y: np.ndarray, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of positive weight, and their weights."""
    if sample_weight is None:
        return X, y, np.ones(len(y))
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    used = positive_weights(weights)
    return X[used], y[used], weights[used]

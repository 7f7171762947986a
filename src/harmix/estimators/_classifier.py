"""Classification for people: a table in, probabilities out."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array
from scipy.special import ndtr
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from harmix import likelihoods
from harmix.estimators._base import HarmonizableGP
from harmix.estimators._inputs import input_units, merge
from harmix.estimators._progress import Watch
from harmix.estimators._regressor import _weighted
from harmix.features.base import Features, make_basis
from harmix.inference.stochastic import VariationalGaussian, marginals, posterior
from harmix.kernels import Kernel
from harmix.learning.classify import fit_classifier
from harmix.precision import in_float64

# Up to this many rows their number is rounded up to one of few, with rows that count for nothing: every other number would be
# compiled anew, which takes longer than the rows.
FEW = 512
# Rows that are predicted at a time.
CHUNK = 4096
# From this many input columns on, frequencies that span the spectrum are too many: inducing points take their place.
MANY_COLUMNS = 4
MAX_ITERATIONS = 300


class _QuickSoftmax(likelihoods.Softmax):
    """With half the nodes in either integral: errors up to 1e-4 at variances up to 10, and four times as fast to learn with."""

    training_nodes = (32, 16)


class HarmonizableGPClassifier(ClassifierMixin, HarmonizableGP):
    """A Gaussian process classifier with a harmonizable mixture kernel, in the manner of scikit-learn.

    Two classes have one latent process and a probit link, `P(y = 1 | x) = E Phi(f(x))`; C classes have C and a softmax. Learning
    climbs a variational bound; labels may be anything that can be sorted. Columns of X may be datetimes, as for
    `HarmonizableGPRegressor`.

    Args:
        n_components: how many windows of the kernel; "auto": up to 4.
        n_frequencies: oscillations in a window.
        n_inducing: inducing frequencies of each component, or inducing points in all where X has four columns or more; "auto":
            4 and 32.
        n_restarts: how many starts of learning.
        random_state: an integer for the same result every time.
        verbose: 1 shows a progress bar.

    Attributes:
        classes_: the labels, sorted, `(C,)`.
        components_: a table of what was found, in units of X.
        result_: kernel, features and variational distribution, in terms of scaled inputs, and how every restart went.
        x_shift_: mean of each column that varies, `(d,)`; x_scale_: its deviation; x_units_: its unit. Frozen at fit.
        domain_: lowest and highest place of the data, `(2, d)`.
        varying_: which columns of X are not constant, `(D,)`; others are left out.
        n_features_in_: D; feature_names_in_: names of columns, if they are strings.

    Example:
        >>> import numpy as np, harmix as hx
        >>> X = np.linspace(-1, 1, 30)[:, None]
        >>> model = hx.HarmonizableGPClassifier(n_components=1, n_restarts=1, random_state=0)
        >>> model = model.fit(X, np.where(np.abs(X[:, 0]) < 0.5, "inner", "outer"))
        >>> model.predict([[0.0], [0.9]])
        array(['inner', 'outer'], dtype='<U5')
    """

    # Any value is stored here, as scikit-learn wants it; `fit` looks at them.
    def __init__(
        self,
        n_components: Any = "auto",
        n_frequencies: Any = 2,
        n_inducing: Any = "auto",
        n_restarts: Any = 3,
        random_state: Any = None,
        verbose: Any = 0,
    ):
        self.n_components = n_components
        self.n_frequencies = n_frequencies
        self.n_inducing = n_inducing
        self.n_restarts = n_restarts
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> HarmonizableGPClassifier:
        """Learns the kernel and the latent processes.

        Args:
            X: `(n, D)`: an array or a table; columns of datetimes are welcome.
            y: `(n,)`, labels of two classes or more.
            sample_weight: `(n,)`: how many observations each row stands for; 0 leaves a row out.
        """
        X, y = self._start(X, y)
        check_classification_targets(y)
        X, y, weights = _weighted(X, y, sample_weight)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_[0]!r}: a classifier needs two or more.")
        rows = merge(np.column_stack([X, codes]))
        count, codes = rows.sum(weights), rows.X[:, -1]
        self.varying_, self.x_shift_, self.x_scale_ = input_units(rows.X[:, :-1], count, type(self).__name__)
        inside = self._inside(rows.X[:, :-1])
        sizes = self._sizes(inside)
        padded, codes, count = _padded(inside, codes, count)
        C = len(self.classes_)
        with Watch(bool(self.verbose), self.n_restarts, MAX_ITERATIONS) as watch:
            found = fit_classifier(
                padded,
                codes,
                **sizes,
                n_restarts=self.n_restarts,
                random_state=self._seed(),
                likelihood=likelihoods.Bernoulli() if C == 2 else _QuickSoftmax(C),
                max_iterations=MAX_ITERATIONS,
                weights=count,
                warm_up=0,
                callback=watch,
            )
        likelihood = found.likelihood if C == 2 else likelihoods.Softmax(C)
        self.result_ = dataclasses.replace(found, likelihood=likelihood, restarts=watch.named(found.restarts))
        self._set_domain(X)
        return self

    def _sizes(self, inside: np.ndarray) -> dict[str, Any]:
        """What "auto" stands for: few different sizes, as each is compiled."""
        distinct = len(merge(inside).X)
        by_points = inside.shape[1] >= MANY_COLUMNS
        P = (4 if distinct >= 40 else 1) if self.n_components == "auto" else self.n_components
        M = (min(32 if distinct >= 64 else 8, distinct) if by_points else 4) if self.n_inducing == "auto" else self.n_inducing
        return {
            "n_components": P,
            "n_frequencies": self.n_frequencies,
            "n_inducing": M,
            "inducing": "points" if by_points else "frequencies",
        }

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, `(n, C)`, in the order of `classes_`."""
        inside = self._inside(self._numbers(X))
        self._warn_outside(inside)
        return self._probabilities(inside)

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each row, `(n,)`."""
        inside = self._inside(self._numbers(X))
        self._warn_outside(inside)
        return self.classes_[np.argmax(self._probabilities(inside), axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """`(n,)`, of two classes: `Phi^-1(P(y = 1))`, positive for the second; `(n, C)`, of more: log probabilities."""
        inside = self._inside(self._numbers(X))
        self._warn_outside(inside)
        if len(self.classes_) == 2:
            return _score(*self._latent(inside))
        return np.log(np.maximum(self._probabilities(inside), np.finfo(float).tiny))

    def _probabilities(self, inside: np.ndarray) -> np.ndarray:
        mean, variance = self._latent(inside)
        if len(self.classes_) == 2:
            score = _score(mean, variance)
            return np.column_stack([ndtr(-score), ndtr(score)])
        parts = []
        for start in range(0, len(mean), CHUNK):
            n = min(CHUNK, len(mean) - start)
            fill = ((0, _room(n, CHUNK) - n), (0, 0))
            padded: list[Any] = [np.pad(a[start : start + CHUNK], fill, mode="edge") for a in (mean, variance)]
            parts.append(np.asarray(self.result_.likelihood.predict(*padded)[0])[:n])
        probabilities = np.concatenate(parts)
        return probabilities / np.sum(probabilities, axis=1, keepdims=True)  # by quadrature, they add up to 1 but for 1e-8

    @in_float64
    def _latent(self, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent processes, `(n, C)` or `(n, 1)`, in chunks of few shapes."""
        r, parts = self.result_, []
        for start in range(0, len(inside), CHUNK):
            some = inside[start : start + CHUNK]
            n = len(some)
            padded = np.pad(some, ((0, _room(n, CHUNK) - n), (0, 0)), mode="edge")
            parts.append([np.asarray(a)[:n] for a in _moments(r.kernel, r.features, r.q, padded)])
        mean, variance = (np.concatenate(part) for part in zip(*parts, strict=True))
        return mean, variance

    def _posteriors(self) -> list[Any]:
        check_is_fitted(self)
        r = self.result_
        return [posterior(r.kernel, r.features, r.q, latent=c) for c in range(r.q.mean.shape[0])]


def _score(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """`E Phi(f) = Phi(score)` for `f ~ N(mean, variance)`."""
    return mean[:, 0] / np.sqrt(1 + variance[:, 0])


def moments(kernel: Kernel, features: Features, q: VariationalGaussian, X: Any) -> tuple[Array, Array]:
    """Mean and variance `(n, C)` of the latent processes."""
    mean, variance, _ = marginals(make_basis(kernel, features), q, X)
    return mean, variance


_moments = eqx.filter_jit(moments)


def _room(n: int, most: int) -> int:
    """The next of 32, 128, 512, ... up to `most`."""
    return min(32 * 4 ** max(0, math.ceil(math.log(n / 32, 4))), most)


def _padded(X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """With rows that count for nothing, up to one of few numbers of rows."""
    n = len(X)
    more = max(0, _room(n, FEW) - n)
    return (
        np.concatenate([X, np.repeat(X[:1], more, axis=0)]),
        np.concatenate([codes, np.repeat(codes[:1], more)]),
        np.concatenate([weights, np.zeros(more)]),
    )

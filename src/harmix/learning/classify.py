"""Classification with a harmonizable mixture: where to start, what holds the kernel back, which restart to keep."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.cluster.vq import kmeans2
from scipy.stats import norm

from harmix.arguments import points
from harmix.features import Features, FourierFrequencies, InducingPoints
from harmix.features.base import make_basis
from harmix.features.fourier import harmonizable_term
from harmix.inference.stochastic import VariationalGaussian, marginals
from harmix.kernels import HarmonizableMixture, Kernel
from harmix.learning.variational import WARM_UP, Prior, VariationalFit, checked_weights, fit_variational
from harmix.likelihoods import Bernoulli, Likelihood
from harmix.precision import in_float64

Inducing = Literal["frequencies", "points"]

# Where a classifier starts, with inputs of unit spread: windows as wide as the data, which only the data make narrow, lengthscales
# wider still, a variance at which a logit is decided.
WINDOW, LENGTHSCALE, VARIANCE = 2.0, 4.0, 8.0
# Deviation of the kernel's frequencies at the start, in cycles per unit of spread. Nearer to 0 most restarts are stuck where a
# component is one bump: of eight on the banana data two then come within 15 nats of the best, with this one all eight.
FREQUENCY_START = 0.2
# Restarts climb so far each; then `FINALISTS` of them go on. Predictions average over those that end within `HOPELESS` nats of
# the best: one optimum is surer of its boundary than the data are.
FIRST_STAGE, FINALISTS, HOPELESS = 100, 4, 15.0
# Kernels are climbed with so many inducing frequencies in all components, then again with all of them: a q(u) over many is slow to
# move, and what it has not reached yet leads the kernel astray.
FEW = 8


class MixturePrior(eqx.Module):
    """What is plausible of a mixture whose inputs have unit spread: independent normals around where learning starts.

    A mixture with everything free is a parametric model in disguise: lengthscales run away to infinity, windows close in on
    single points, and the bound, which does not count what kernel parameters cost, rises while predictions get worse.

    Attributes:
        log_width: deviation of log windows and log lengthscales.
        frequency: deviation of the kernel's frequencies, in cycles per unit of spread.
        log_variance: deviation of the log variance of a component.
        center: deviation of the centres, in units of spread.
    """

    log_width: float = 0.6
    frequency: float = 0.6
    log_variance: float = 1.0
    center: float = 2.0

    def __call__(self, kernel: Kernel, features: Features, likelihood: Likelihood) -> Float[Array, ""]:
        """Log density up to a constant. Features have none: they are variational, any are right."""
        mixture = harmonizable_term(kernel)
        variance = jnp.real(jnp.trace(mixture.weights, axis1=-2, axis2=-1))
        log_normal = lambda value, deviation: -0.5 * jnp.sum((value / deviation) ** 2)
        return (
            log_normal(jnp.log(mixture.windows / WINDOW), self.log_width)
            + log_normal(jnp.log(mixture.lengthscales / LENGTHSCALE), self.log_width)
            + log_normal(mixture.frequencies, self.frequency)
            + log_normal(jnp.log(variance / VARIANCE), self.log_variance)
            + log_normal(mixture.centers, self.center)
        )


DEFAULT_PRIOR = MixturePrior()


class Restart(NamedTuple):
    """How one restart of a classifier went.

    Attributes:
        history: bound plus log prior after each iteration.
        bound: where it ended, without the prior.
        converged: whether the optimiser was done.
        message: why it stopped.
    """

    history: np.ndarray
    bound: float
    converged: bool
    message: str


class Member(eqx.Module):
    """Where one restart ended: kernel, features, likelihood and variational distribution, in the units of the data."""

    kernel: Kernel
    features: Features
    likelihood: Likelihood
    q: VariationalGaussian


class Classifier(eqx.Module):
    """A fitted classifier: the model of the chosen restart, in the units of the data, and how every restart went.

    Attributes:
        kernel: a harmonizable mixture.
        features: inducing frequencies or points.
        likelihood: of the labels.
        q: the variational distribution.
        bound: on the log evidence, without the prior.
        restarts: one `Restart` each.
        chosen: the restart with the highest bound plus log prior; only training data have a say.
        members: the restarts over which `predict` averages, the chosen one first.
    """

    kernel: HarmonizableMixture
    features: Features
    likelihood: Likelihood
    q: VariationalGaussian
    bound: float
    restarts: tuple[Restart, ...]
    chosen: int
    members: tuple[Member, ...] = ()

    def latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent process at the rows of X: `(n,)` each, `(n, C)` if the likelihood has C latents."""
        return latent(self.kernel, self.features, self.q, X)

    def predict(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of a new label at the rows of X, averaged over the members: see `predict`."""
        return predict(self.members or (Member(self.kernel, self.features, self.likelihood, self.q),), X)


def predict(members: Sequence[Member], X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of a new label under models of equal weights, `m = sum_k m_k / K`, `v = sum_k (v_k + m_k^2) / K - m^2`.

    For `Bernoulli` the mean is the probability of class 1, `(n,)`; for `Softmax` those of all classes, `(n, C)`.
    """
    of_f = [latent(m.kernel, m.features, m.q, X) for m in members]
    each = [m.likelihood.predict(*moments) for m, moments in zip(members, of_f, strict=True)]  # type: ignore[arg-type]
    means, variances = (np.stack([np.asarray(part) for part in parts]) for parts in zip(*each, strict=True))
    mean = np.mean(means, axis=0)
    return mean, np.mean(variances + means**2, axis=0) - mean**2


@in_float64
def latent(kernel: Kernel, features: Features, q: VariationalGaussian, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of the latent process under q, as likelihoods take them: `(n,)` or `(n, C)`."""
    mean, variance = (np.asarray(a) for a in _moments(kernel, features, q, points("X", X, kernel.input_dim)))
    return (mean, variance) if q.mean.shape[0] > 1 else (mean[:, 0], variance[:, 0])


@eqx.filter_jit
def _moments(
    kernel: Kernel, features: Features, q: VariationalGaussian, X: Float[Array, "n D"]
) -> tuple[Float[Array, "n C"], Float[Array, "n C"]]:
    mean, variance, _ = marginals(make_basis(kernel, features), q, X)
    return mean, variance


@in_float64
def initial_classifier(
    X: Any, *, P: int, Q: int, M: int, seed: Any, inducing: Inducing = "frequencies"
) -> tuple[HarmonizableMixture, Features]:
    """A mixture and features to start from: windows on the clusters of the inputs, as wide; frequencies near 0.

    Args:
        X: `(n, D)` or `(n,)`.
        P: how many components: centres of k-means.
        Q: how many frequencies in each.
        M: how many inducing frequencies for each component, or points in all.
        seed: of k-means and of the frequencies.
        inducing: "frequencies", spread over the spectrum of each component, or "points", centres of k-means.

    Example:
        >>> import harmix as hx, numpy as np
        >>> k, u = initial_classifier(np.random.default_rng(0).normal(size=(50, 2)), P=4, Q=2, M=3, seed=0)
        >>> hx.features.kuf(u, k, np.zeros((1, 2))).shape
        (24, 1)
    """
    X = np.asarray(points("X", X))
    D = X.shape[1]
    for name, size in (("P", P), ("Q", Q), ("M", M)):
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}.")
    if inducing not in ("frequencies", "points"):
        raise ValueError(f'inducing must be "frequencies" or "points", got {inducing!r}.')
    distinct = len(np.unique(X, axis=0))
    for name, size in (("P", P), *((("M", M),) if inducing == "points" else ())):
        if size > distinct:
            raise ValueError(
                f"{name} = {size}, but X has only {distinct} different rows to put them on; choose a smaller {name}."
            )
    rng = np.random.default_rng(seed)
    spread = spread_of(X)
    centers_of_data = lambda count: clusters(X / spread, count, rng) * spread
    centers = centers_of_data(P)
    windows, lengthscales = WINDOW * spread, LENGTHSCALE * spread
    frequencies = FREQUENCY_START / spread * rng.normal(size=(P, Q, D))
    kernel = HarmonizableMixture(
        centers,
        jnp.tile(windows, (P, 1)),
        jnp.tile(lengthscales, (P, 1)),
        jnp.asarray(frequencies),
        jnp.tile(VARIANCE / Q * jnp.eye(Q), (P, 1, 1)),
    )
    if inducing == "points":
        return kernel, InducingPoints(centers_of_data(M))
    return kernel, FourierFrequencies(jnp.asarray(_spread_frequencies(kernel, M, rng)))


def _spread_frequencies(kernel: HarmonizableMixture, M: int, rng: np.random.Generator) -> np.ndarray:
    """M frequencies in the spectrum of each component, `(P, M, D)`: around those of the kernel, in turn."""
    W, l, mu = (np.asarray(a) for a in (kernel.windows, kernel.lengthscales, kernel.frequencies))
    (P, D), Q = kernel.centers.shape, mu.shape[1]
    # A = Sigma1 / 4 + Sigma2, the spectral covariance of x -> k(z, x).
    deviation = np.sqrt(1 / (8 * np.pi**2 * W**2) + 1 / (4 * np.pi**2 * l**2))
    # Normal quantiles of an evenly spread (Kronecker) sequence: no two inducing frequencies start alike.
    golden = 1 / 1.2207440846 ** np.arange(1, D + 1) if D > 1 else np.array([(np.sqrt(5) - 1) / 2])
    even = (np.arange(1, M + 1)[:, None] * golden + rng.uniform(size=(P, 1, D))) % 1
    return mu[:, np.arange(M) % Q] + deviation[:, None] * norm.ppf(np.clip(even, 0.01, 0.99))


def spread_of(X: np.ndarray) -> np.ndarray:
    """Standard deviations, 1 for inputs that do not vary."""
    deviation = np.std(X, axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def clusters(X: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Centres of k-means `(count, D)`; those that lost all their points are put on points drawn at random."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "one of the clusters is empty": dealt with here
        centers, labels = kmeans2(X, count, minit="++", seed=rng)
    empty = np.setdiff1d(np.arange(count), labels)
    centers[empty] = X[rng.choice(len(X), len(empty), replace=False)]
    return centers


def fit_classifier(
    X: Any,
    y: Any,
    *,
    n_components: int = 4,
    n_frequencies: int = 2,
    n_inducing: int = 4,
    n_restarts: int = 8,
    random_state: int = 0,
    likelihood: Likelihood | None = None,
    inducing: Inducing = "frequencies",
    prior: Prior | None = DEFAULT_PRIOR,
    max_iterations: int = 400,
    weights: Any = None,
    warm_up: int = WARM_UP,
    callback: Callable[[int, int, float], None] | None = None,
) -> Classifier:
    """A harmonizable mixture classifier: several starts, the best of them climbed to the end, one chosen by training data.

    Args:
        X: `(n, D)` or `(n,)`.
        y: `(n,)`, as the likelihood takes them.
        n_components: P.
        n_frequencies: Q.
        n_inducing: inducing frequencies for each component, or inducing points in all.
        n_restarts: how many starts.
        random_state: seed of the starts.
        likelihood: `Bernoulli("logit")` by default: beside probit it forgives points deep in the other class; `Softmax` for
            several classes.
        inducing: "frequencies" or "points".
        prior: of the kernel in units of the data's spread; None: nothing holds the kernel back.
        max_iterations: of L-BFGS for each restart that is climbed to the end; as many again with more than `FEW` frequencies.
        weights: how many observations each row stands for; 0 leaves a row out.
        warm_up: natural-gradient steps that each start begins with; see `fit_variational`.
        callback: `callback(restart, iteration, objective)`; ends the restart by raising StopIteration.

    Example:
        >>> import numpy as np
        >>> X = np.random.default_rng(0).normal(size=(40, 2))
        >>> found = fit_classifier(X, X[:, 0] > 0, n_components=2, n_inducing=2, n_restarts=1, max_iterations=10)
        >>> found.latent(X)[0].shape
        (40,)
    """
    likelihood = Bernoulli("logit") if likelihood is None else likelihood
    if not isinstance(n_restarts, int) or isinstance(n_restarts, bool) or n_restarts < 1:
        raise ValueError(f"n_restarts must be a positive integer, got {n_restarts!r}.")
    if not isinstance(n_components, int) or isinstance(n_components, bool) or n_components < 1:
        raise ValueError(f"P must be a positive integer, got {n_components!r}.")
    X = np.asarray(points("X", X))
    used = X[np.asarray(checked_weights(weights, len(X))) > 0]
    shift, spread = np.mean(used, axis=0), spread_of(used)
    inputs = (X - shift) / spread

    def climb(model: tuple[Any, ...], which: int, iterations: int, before: int = 0) -> VariationalFit:
        report = None if callback is None else lambda i, value: callback(which, before + i, value)
        kernel, features, likelihood, q = model
        return fit_variational(
            kernel,
            features,
            likelihood,
            q,
            inputs,
            y,
            max_iterations=iterations,
            weights=weights,
            prior=prior,
            warm_up=warm_up,
            callback=report,
        )

    fits: list[VariationalFit] = []
    first = min(FIRST_STAGE, max_iterations) if n_restarts > FINALISTS else max_iterations
    few = min(max(2, FEW // n_components), n_inducing) if inducing == "frequencies" else n_inducing
    rngs = [np.random.default_rng([random_state, i]) for i in range(n_restarts)]
    for i, rng in enumerate(rngs):
        start = initial_classifier((used - shift) / spread, P=n_components, Q=n_frequencies, M=few, seed=rng, inducing=inducing)
        fits.append(climb((*start, likelihood, None), i, first))

    def go_on(i: int, model: tuple[Any, ...], iterations: int) -> None:
        more = climb(model, i, iterations, len(fits[i].history))
        fits[i] = more._replace(history=np.concatenate([fits[i].history, more.history]))

    ranked = sorted(range(n_restarts), key=lambda i: -fits[i].history[-1])
    for i in ranked[:FINALISTS]:
        if first < max_iterations:
            go_on(i, fits[i][:4], max_iterations - first)
        if few < n_inducing:
            go_on(i, _with_frequencies(fits[i], n_inducing - few, rngs[i]), max_iterations)
    for i in ranked[FINALISTS:]:
        fits[i] = fits[i]._replace(converged=False, message="dropped early: others were ahead")
    ends = np.array([f.history[-1] for f in fits])
    best_first = [int(i) for i in np.argsort(-ends) if int(i) in ranked[:FINALISTS] and ends[i] > np.max(ends) - HOPELESS]
    models = [(*_in_units(fits[i].kernel, fits[i].features, shift, spread), fits[i].likelihood, fits[i].q) for i in best_first]
    return Classifier(
        *models[0],
        fits[best_first[0]].bound,
        tuple(Restart(f.history, f.bound, f.converged, f.message) for f in fits),
        best_first[0],
        tuple(Member(*model) for model in models),
    )


@in_float64
def _with_frequencies(fit: VariationalFit, more: int, rng: np.random.Generator) -> tuple[Any, ...]:
    """The model of a fit with further inducing frequencies for each component, and q(u) to start anew."""
    assert isinstance(fit.kernel, HarmonizableMixture)
    assert isinstance(fit.features, FourierFrequencies)
    added = _spread_frequencies(fit.kernel, more, rng)
    features = FourierFrequencies(jnp.concatenate([fit.features.frequencies, jnp.asarray(added)], axis=1))
    return fit.kernel, features, fit.likelihood, None


@in_float64
def _in_units(kernel: Any, features: Features, shift: np.ndarray, spread: np.ndarray) -> tuple[HarmonizableMixture, Features]:
    """The same process and features for inputs `shift + spread x`; whitened features do not change."""
    kernel = HarmonizableMixture(
        shift + spread * kernel.centers,
        spread * kernel.windows,
        spread * kernel.lengthscales,
        kernel.frequencies / spread,
        kernel.weights,
        real=kernel.real,
    )
    if isinstance(features, InducingPoints):
        return kernel, InducingPoints(shift + spread * features.locations)
    assert isinstance(features, FourierFrequencies)
    return kernel, FourierFrequencies(features.frequencies / spread)

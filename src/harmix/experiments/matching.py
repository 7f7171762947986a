"""A harmonizable mixture kernel (HMK) that matches another kernel's covariance, by nonlinear least squares.

Two kinds of start: `spread`, components side by side with the frequencies that the covariance has there (best for what
oscillates), and `grow`, greedily chosen components, each the one that explains most of what is still missing (best for what
is rough in one place). Then `refine` moves all parameters of all components together, by Levenberg's method.
"""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import nnls

from harmix import linalg
from harmix.kernels import HarmonizableMixture, Kernel
from harmix.kernels.component import Component
from harmix.precision import in_float64

CANDIDATES = 400
# Their windows and lengthscales, relative to the domain: log-uniform between these.
_WINDOWS, _LENGTHSCALES = (0.02, 2.0), (0.005, 2.0)
# Of the candidates' frequencies, how many are zero: what does not oscillate needs those.
_STILL = 0.3
# Lengthscales of components side by side, in units of the gap between them, and how many frequencies are looked at.
_STRETCHES, _LOOKED_AT = np.geomspace(0.1, 100.0, 16), 200


class Problem(eqx.Module):
    """What is matched: a covariance matrix on a grid, and how much each point of the grid counts.

    Attributes:
        x: the grid, ascending.
        covariance: the target's covariance there.
        weights: of the points; they add up to one. The loss is `sum_ij w_i w_j (k_ij - covariance_ij)^2`.
    """

    x: Float[Array, " n"]
    covariance: Float[Array, "n n"]
    weights: Float[Array, " n"]


@dataclasses.dataclass(frozen=True)
class Mixture:
    """An HMK in coordinates without constraints.

    Attributes:
        rows: `(P, 3 + Q + Q^2)`, for each component: centre, logarithms of window and lengthscale, Q frequencies, and the
            lower triangular factor F of `B = F F^H`: its real entries row by row, then the imaginary ones below the diagonal.
        history: the loss before and after every step of the last refinement.
    """

    rows: np.ndarray
    history: tuple[float, ...] = ()

    @property
    def loss(self) -> float:
        """Of the problem that it was fitted to; infinite before that."""
        return self.history[-1] if self.history else np.inf

    @property
    def Q(self) -> int:
        """How many frequencies a component has."""
        return _frequencies(self.rows.shape[1])

    @in_float64
    def covariance(self, x: Float[np.ndarray, " n"], other: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        """That of `kernel`, without compiling anew for every P."""
        return sum((np.asarray(_covariance_of(row, x, other)) for row in self.rows), np.zeros((len(x), len(other))))

    def kernel(self) -> HarmonizableMixture:
        """The kernel itself."""
        Q, free = self.Q, self.rows
        with jax.enable_x64(True):
            weights = np.asarray(jax.vmap(lambda row: _weights(row, Q))(jnp.asarray(free)))
        scales = np.exp(free[:, 1:3])
        return HarmonizableMixture(free[:, :1], scales[:, :1], scales[:, 1:], free[:, 3 : 3 + Q, None], weights)


@in_float64
def problem(target: Kernel, x: np.ndarray) -> Problem:
    """The covariance of `target` on the grid x, whose points count as much as the interval they stand for.

    Example:
        >>> import harmix as hx
        >>> problem(hx.kernels.SquaredExponential(1.0, 0.5), np.array([0.0, 1.0, 2.0])).weights.tolist()
        [0.25, 0.5, 0.25]
    """
    gaps = np.diff(x)
    share = (np.append(gaps, 0) + np.append(0, gaps)) / 2
    return Problem(jnp.asarray(x), jnp.asarray(target(x, x)), jnp.asarray(share / share.sum()))


@in_float64
def grow(problem: Problem, P: int, Q: int, *, band: float, seed: int, start: Mixture | None = None) -> Mixture:
    """A mixture of P components: those of `start`, and greedily chosen new ones.

    Args:
        problem: what to match.
        P: how many components, more than `start` has.
        Q: how many frequencies in each.
        band: frequencies of the candidates lie between 0 and `band`.
        seed: of the candidates.
        start: a mixture with Q frequencies; nothing when left out.

    Example:
        >>> import harmix as hx
        >>> to = problem(hx.kernels.SquaredExponential(1.0, 0.5), np.linspace(0, 1, 10))
        >>> grow(to, 3, 2, band=2.0, seed=0).rows.shape
        (3, 9)
    """
    rng = np.random.default_rng(seed)
    x, weights = np.asarray(problem.x), np.asarray(problem.weights)
    missing = _missing(np.zeros((0, 5)) if start is None else start.rows, problem)
    root = np.sqrt(np.outer(weights, weights))
    # Candidates lie anywhere, but half of them where most is missing.
    density = (weights + (error := weights * (missing**2 @ weights)) / error.sum()) / 2
    length = x[-1] - x[0]
    candidates = np.column_stack(
        [
            rng.choice(x, CANDIDATES, p=density) + 0.02 * length * rng.standard_normal(CANDIDATES),
            np.log(length) + _log_uniform(rng, *_WINDOWS),
            np.log(length) + _log_uniform(rng, *_LENGTHSCALES),
            band * rng.uniform(0, 1, CANDIDATES) * (rng.uniform(size=CANDIDATES) > _STILL),
            np.ones(CANDIDATES),
        ]
    )
    shapes = (root * np.asarray(_covariances(jnp.asarray(candidates), problem.x))).reshape(CANDIDATES, -1)
    norms = np.sum(shapes**2, axis=1)
    wanted = rest = (root * missing).ravel()
    chosen: list[int] = []
    amounts = np.zeros(0)
    for _ in range(P - (0 if start is None else len(start.rows))):
        gains = np.maximum(shapes @ rest, 0) ** 2 / norms
        gains[chosen] = -1
        chosen.append(int(np.argmax(gains)))
        amounts, _ = nnls(shapes[chosen].T, wanted)
        rest = wanted - amounts @ shapes[chosen]
    # A weight of zero would stay there: the gradient of its factor vanishes.
    amounts = np.maximum(amounts, 1e-3 * max(amounts.max(), np.max(np.abs(missing)) / len(amounts)))
    new = candidates[chosen]
    new[:, -1] = np.sqrt(amounts)
    new = _with_frequencies(new, Q)
    return Mixture(new if start is None else np.concatenate([start.rows, new]))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    return rng.uniform(np.log(low), np.log(high), CANDIDATES)


@in_float64
def spread(problem: Problem, P: int, Q: int, *, band: float) -> Mixture:
    """P components side by side, each at the frequency that is strongest there.

    Centres are equally far apart in the metric of the process, `|x - x'|^2 = E (f(x) - f(x'))^2` added up along the grid:
    close together where it is rough. The frequency of a component is where `E |sum_i h_i f(x_i) exp(-2 pi i w x_i)|^2` is
    largest, h its window; all lengthscales are one multiple of the windows, whichever explains most.

    Args:
        problem: what to match.
        P: how many components.
        Q: how many frequencies in each.
        band: frequencies are looked for between 0 and `band`.

    Example:
        >>> import harmix as hx
        >>> warped = hx.kernels.GeneralizedSpectralMixture([lambda x: 1.0], [lambda x: 3.0 + x], [lambda x: 0.3])
        >>> rows = spread(problem(warped, np.linspace(0, 2, 60)), 6, 1, band=9.0).rows
        >>> bool(np.max(np.abs(rows[:, 3] - (3 + 2 * rows[:, 0]))) < 0.5)
        True
    """
    x, weights, K = (np.asarray(a) for a in (problem.x, problem.weights, problem.covariance))
    variance = np.diagonal(K)
    steps = np.sqrt(np.maximum(variance[1:] + variance[:-1] - 2 * np.diagonal(K, 1), 0))
    along = np.append(0, np.cumsum(steps)) / np.sum(steps)
    # The middles of P equal parts, and how long those are.
    edges = np.interp(np.linspace(0, 1, 2 * P + 1), along, x)
    middles, gaps = edges[1::2], np.diff(edges[::2])
    w = np.linspace(0, band, _LOOKED_AT)
    waves = np.exp(2j * np.pi * np.outer(x, w))

    def strongest(center: float, gap: float) -> float:
        seen = (weights * np.exp(-0.5 * ((x - center) / gap) ** 2))[:, None] * waves
        return float(w[np.argmax(np.real(np.sum(np.conj(seen) * (K @ seen), axis=0)))])

    frequencies = [strongest(*pair) for pair in zip(middles, gaps, strict=True)]
    root = np.sqrt(np.outer(weights, weights))

    def attempt(stretch: float) -> tuple[float, np.ndarray]:
        rows = np.column_stack([middles, np.log(gaps), np.log(stretch * gaps), frequencies, np.ones(P)])
        shapes = np.stack([(root * np.asarray(_covariance_of(row, problem.x, problem.x))).ravel() for row in rows])
        amounts, missed = nnls(shapes.T, (root * K).ravel())
        rows[:, -1] = np.sqrt(np.maximum(amounts, 1e-3 * max(amounts.max(), variance.max())))
        return missed, rows

    _, rows = min((attempt(stretch) for stretch in _STRETCHES), key=lambda found: found[0])
    return Mixture(_with_frequencies(rows, Q))


def enrich(mixture: Mixture) -> Mixture:
    """The same mixture with one more frequency in each component, almost without weight."""
    return Mixture(_one_frequency_more(mixture.rows))


def _with_frequencies(rows: np.ndarray, Q: int) -> np.ndarray:
    return functools.reduce(lambda rows, _: _one_frequency_more(rows), range(Q - _frequencies(rows.shape[1])), rows)


def _one_frequency_more(rows: np.ndarray) -> np.ndarray:
    Q = _frequencies(rows.shape[1])
    P, real_part = len(rows), 3 + Q + Q * (Q + 1) // 2
    # Close enough to the first frequency for the window not to tell them apart, on alternating sides.
    offset = 0.15 * np.where(Q % 2, 1, -1) * ((Q + 1) // 2)
    frequency = rows[:, 3:4] + offset / np.exp(rows[:, 1:2])
    factor = np.zeros((P, Q + 1))
    factor[:, -1] = 0.1 * np.abs(rows[:, 3 + Q])
    parts = (rows[:, : 3 + Q], frequency, rows[:, 3 + Q : real_part], factor, rows[:, real_part:], np.zeros((P, Q)))
    return np.concatenate(parts, axis=1)


@in_float64
def refine(problem: Problem, mixture: Mixture, *, steps: int, tolerance: float = 1e-3) -> Mixture:
    """Moves all parameters downhill by Levenberg's method. The loss never rises.

    Args:
        problem: what to match.
        mixture: where to start.
        steps: at most this many, accepted or not.
        tolerance: stop when 30 steps lessened the loss by less than this fraction.

    Example:
        >>> import harmix as hx
        >>> to = problem(hx.kernels.SquaredExponential(1.0, 0.5), np.linspace(0, 1, 10))
        >>> found = refine(to, grow(to, 1, 1, band=2.0, seed=0), steps=20)
        >>> round(float(found.kernel().lengthscales[0, 0]), 2)
        0.5
    """
    # Levenberg's damping, the same in every coordinate, and not Marquardt's, relative to each one's curvature: many are
    # nearly flat (the window of a component that is wide, the phase of a weight that is small) and must not run away.
    rows, damping = mixture.rows, 1e-2
    loss, gradient, curvature = normal_equations(rows, problem)
    history = [loss]
    for taken in range(1, steps + 1):
        unit = _units(rows)
        step = unit * np.asarray(_step(unit * gradient, unit * curvature * unit[:, None], damping))
        trial = rows - step.reshape(rows.shape)
        reached = _loss(trial, problem)
        if reached < history[-1]:
            rows, damping = trial, max(damping / 3, 1e-9)
            _, gradient, curvature = normal_equations(rows, problem)
        else:
            damping *= 2
        history.append(reached if reached < history[-1] else history[-1])
        if damping > 1e12 or (taken >= 30 and history[-1] > history[-31] * (1 - tolerance)):
            break
    return Mixture(rows, tuple(history))


def best(problem: Problem, starts: Sequence[Mixture], *, steps: int) -> Mixture:
    """Refines every start a little (a third of the steps) and the most promising one to the end.

    Example:
        >>> import harmix as hx
        >>> to = problem(hx.kernels.SquaredExponential(1.0, 0.5), np.linspace(0, 1, 10))
        >>> starts = [grow(to, 1, 1, band=2.0, seed=0), spread(to, 1, 1, band=2.0)]
        >>> best(to, starts, steps=30).loss < 1e-6
        True
    """
    tried = [refine(problem, start, steps=steps // 3) for start in starts]
    chosen = min(tried, key=lambda mixture: mixture.loss)
    return refine(problem, chosen, steps=steps - steps // 3)


def match(problem: Problem, P: int, Q: int, *, band: float, seed: int = 0, steps: int = 150) -> Mixture:
    """A mixture of P components of Q frequencies that is near: the better of one that is spread and one that has grown.

    Args:
        problem: what to match.
        P: how many components.
        Q: how many frequencies in each.
        band: the highest frequency that a component starts with.
        seed: of the candidates for growth.
        steps: of the refinement of the result.

    Example:
        >>> import harmix as hx
        >>> to = problem(hx.kernels.SquaredExponential(1.0, 0.5), np.linspace(0, 1, 10))
        >>> match(to, 2, 1, band=2.0, steps=30).loss < 1e-6
        True
    """
    grown: Mixture | None = None
    for stage, p in enumerate([*(p for p in (2, 4, 8) if p < P), P]):
        grown = grow(problem, p, Q, band=band, seed=seed + stage, start=grown)
        grown = refine(problem, grown, steps=steps // 3) if p < P else grown
    assert grown is not None
    return best(problem, [grown, spread(problem, P, Q, band=band)], steps=steps)


def _units(rows: Float[np.ndarray, "P k"]) -> Float[np.ndarray, " m"]:
    """What a step of one means in each coordinate: centres move by windows, frequencies by what a window can tell apart.

    With steps measured so, the damping does not depend on the unit of x; and as many of them end at half the loss (Hurst 0.7).
    """
    P, Q = len(rows), _frequencies(rows.shape[1])
    windows = np.exp(rows[:, 1:2])
    parts = (windows, np.ones((P, 2)), np.tile(1 / (2 * np.pi * windows), Q), np.ones((P, Q * Q)))
    return np.concatenate(parts, axis=1).ravel()


def _frequencies(columns: int) -> int:
    """Q, from `columns = 3 + Q + Q^2`."""
    return int(np.sqrt(columns - 2.75) - 0.5 + 1e-9)


def _weights(row: Float[Array, " k"], Q: int) -> Array:
    i, j = np.tril_indices(Q)
    low_i, low_j = np.tril_indices(Q, -1)
    split = 3 + Q + len(i)
    R = jnp.zeros((Q, Q)).at[i, j].set(row[3 + Q : split])
    J = jnp.zeros((Q, Q)).at[low_i, low_j].set(row[split:])
    F = jax.lax.complex(R, J)
    return F @ jnp.conj(F.T)


def _one_covariance(row: Float[Array, " k"], x: Float[Array, " n"], other: Float[Array, " m"]) -> Float[Array, "n m"]:
    Q = _frequencies(row.shape[0])
    # MATH.md section 2: Sigma1 = 1 / (4 pi^2 W^2), C = 1 / (4 pi^2 l^2).
    sigma1, lag = jnp.exp(-2 * row[1:3]) / (4 * jnp.pi**2)
    component = Component(sigma1[None], lag[None], row[3 : 3 + Q, None], _weights(row, Q), real=True)
    return component.gram((x - row[0])[:, None], (other - row[0])[:, None])


# For one component, so compiled once for each Q and not for each P.
_covariance_of = jax.jit(_one_covariance)
_covariances = jax.jit(jax.vmap(lambda row, x: _one_covariance(row, x, x), in_axes=(0, None)))


@jax.jit
def _derivatives_of(row: Float[Array, " k"], x: Float[Array, " n"], root: Float[Array, " m"]) -> Float[Array, "k m"]:
    pairs = np.tril_indices(x.shape[0])
    _, push = jax.linearize(lambda row: root * _one_covariance(row, x, x)[pairs], row)
    return jax.vmap(push)(jnp.eye(row.shape[0]))


def _missing(rows: Float[np.ndarray, "P k"], problem: Problem) -> Float[np.ndarray, "n n"]:
    """What is left of the covariance."""
    x = problem.x
    return sum((-np.asarray(_covariance_of(row, x, x)) for row in rows), np.asarray(problem.covariance))


def _loss(rows: Float[np.ndarray, "P k"], problem: Problem) -> float:
    weights = np.asarray(problem.weights)
    return float(weights @ _missing(rows, problem) ** 2 @ weights)


@in_float64
def normal_equations(
    rows: Float[np.ndarray, "P k"], problem: Problem
) -> tuple[float, Float[np.ndarray, " m"], Float[np.ndarray, "m m"]]:
    """The loss `r^T r`, `J^T r` and `J^T J`, where J is the derivative of r in the parameters, row by row.

    Example:
        >>> import harmix as hx
        >>> to = problem(hx.kernels.SquaredExponential(1.0, 0.5), np.linspace(0, 1, 10))
        >>> normal_equations(grow(to, 2, 1, band=2.0, seed=0).rows, to)[2].shape
        (10, 10)
    """
    weights = np.asarray(problem.weights)
    pairs = np.tril_indices(len(weights))
    twice = np.where(pairs[0] == pairs[1], 1.0, 2.0)  # the matrix is symmetric
    root = np.sqrt(twice * weights[pairs[0]] * weights[pairs[1]])
    residual = -root * _missing(rows, problem)[pairs]
    # A parameter moves the covariance of its own component only.
    transposed = np.concatenate([np.asarray(_derivatives_of(row, problem.x, root)) for row in rows])
    return float(residual @ residual), transposed @ residual, transposed @ transposed.T


@jax.jit
def _step(
    gradient: Float[Array, " m"], curvature: Float[Array, "m m"], damping: Float[Array, ""] | float
) -> Float[Array, " m"]:
    unit = jnp.max(jnp.diagonal(curvature))
    damped = curvature / unit + damping * jnp.eye(len(gradient))
    return linalg.inverse(damped) @ (gradient / unit)

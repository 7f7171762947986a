"""A harmonizable mixture kernel (HMK) that matches another kernel's covariance, by nonlinear least squares.

Components are added greedily: of many random candidates, the one that explains most of what is still missing.
Then all parameters of all components move together (Levenberg's method), so that a larger mixture, which starts
from a smaller one, ends no further away than that one.
"""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import nnls

from harmix import linalg
from harmix.kernels import HarmonizableMixture, Kernel
from harmix.kernels.harmonizable import Component
from harmix.precision import in_float64

CANDIDATES = 400
# Their windows and lengthscales, relative to the domain: log-uniform between these.
_WINDOWS, _LENGTHSCALES = (0.02, 2.0), (0.005, 2.0)
# Of the candidates' frequencies, how many are zero: what does not oscillate needs those.
_STILL = 0.3


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
        loss: of the problem that it was fitted to.
        steps: how many steps the last refinement took.
    """

    rows: np.ndarray
    loss: float = np.inf
    steps: int = 0

    @property
    def Q(self) -> int:
        """How many frequencies a component has."""
        return _frequencies(self.rows.shape[1])

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
    missing = np.array(problem.covariance)
    if start is not None:
        missing -= np.asarray(_covariance(jnp.asarray(start.rows), problem.x))
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
    new = functools.reduce(lambda rows, _: _one_frequency_more(rows), range(Q - 1), new)
    return Mixture(new if start is None else np.concatenate([start.rows, new]))


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    return rng.uniform(np.log(low), np.log(high), CANDIDATES)


def enrich(mixture: Mixture) -> Mixture:
    """The same mixture with one more frequency in each component, almost without weight."""
    return Mixture(_one_frequency_more(mixture.rows))


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
    """Moves all parameters downhill by Levenberg's method.

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
    rows = jnp.asarray(mixture.rows)
    # Levenberg's damping, the same in every coordinate, and not Marquardt's, relative to each one's curvature: many are
    # nearly flat (the window of a component that is wide, the phase of a weight that is small) and must not run away.
    damping, history = 1e-2, [float(_loss(rows, problem))]
    _, gradient, curvature = _normal_equations(rows, problem)
    taken = 0
    for taken in range(1, steps + 1):
        trial = _step(rows, gradient, curvature, damping)
        reached = float(_loss(trial, problem))
        if reached < history[-1]:
            rows, damping = trial, max(damping / 3, 1e-9)
            _, gradient, curvature = _normal_equations(rows, problem)
        else:
            damping *= 2
        history.append(min(reached, history[-1]) if np.isfinite(reached) else history[-1])
        if damping > 1e12 or (taken >= 30 and history[-1] > history[-31] * (1 - tolerance)):
            break
    return Mixture(np.asarray(rows), history[-1], taken)


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


def _one_covariance(row: Float[Array, " k"], x: Float[Array, " n"]) -> Float[Array, "n n"]:
    Q = _frequencies(row.shape[0])
    # MATH.md section 2: Sigma1 = 1 / (4 pi^2 W^2), C = 1 / (4 pi^2 l^2).
    sigma1, lag = jnp.exp(-2 * row[1:3]) / (4 * jnp.pi**2)
    component = Component(sigma1[None], lag[None], row[3 : 3 + Q, None], _weights(row, Q), real=True)
    centred = (x - row[0])[:, None]
    return component.gram(centred, centred)


@jax.jit
def _covariances(rows: Float[Array, "P k"], x: Float[Array, " n"]) -> Float[Array, "P n n"]:
    return jax.vmap(_one_covariance, in_axes=(0, None))(rows, x)


@jax.jit
def _covariance(rows: Float[Array, "P k"], x: Float[Array, " n"]) -> Float[Array, "n n"]:
    return jnp.sum(_covariances(rows, x), axis=0)


@jax.jit
def _loss(rows: Float[Array, "P k"], problem: Problem) -> Float[Array, ""]:
    squares = (_covariance(rows, problem.x) - problem.covariance) ** 2
    return problem.weights @ squares @ problem.weights


@jax.jit
def _normal_equations(
    rows: Float[Array, "P k"], problem: Problem
) -> tuple[Float[Array, ""], Float[Array, " m"], Float[Array, "m m"]]:
    """The loss, `J^T r` and `J^T J`. A parameter moves the covariance of its own component only."""
    pairs = np.tril_indices(problem.x.shape[0])
    twice = np.where(pairs[0] == pairs[1], 1.0, 2.0)  # the matrix is symmetric
    root = jnp.sqrt(twice * problem.weights[pairs[0]] * problem.weights[pairs[1]])

    def derivatives(row: Array) -> tuple[Array, Array]:
        value, push = jax.linearize(lambda row: root * _one_covariance(row, problem.x)[pairs], row)
        return value, jax.vmap(push)(jnp.eye(row.shape[0]))

    values, J = jax.vmap(derivatives)(rows)
    residual = jnp.sum(values, axis=0) - root * problem.covariance[pairs]
    J = J.reshape(-1, residual.shape[0])
    return residual @ residual, J @ residual, J @ J.T


@jax.jit
def _step(rows: Float[Array, "P k"], gradient: Array, curvature: Array, damping: Float[Array, ""] | float) -> Array:
    unit = jnp.max(jnp.diagonal(curvature))
    damped = curvature / unit + damping * jnp.eye(len(gradient))
    return rows - (linalg.inverse(damped) @ (gradient / unit)).reshape(rows.shape)

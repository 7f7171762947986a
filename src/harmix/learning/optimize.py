"""Climbing the penalised bound from several starts at once: L-BFGS in unconstrained coordinates, hopeless starts dropped early."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy.optimize import minimize

from harmix.features import make_basis
from harmix.inference.collapsed import collapse
from harmix.learning.models import Bands, Layout, build, log_prior
from harmix.precision import in_float64
from harmix.summary import Summary
from harmix.summary.guard import is_resolved

# What the optimiser is told where the summary is too coarse, or the bound is not a number: a step back is taken.
_REFUSED = 1e10
# After so many iterations starts that lie further below the best than `HOPELESS` nats are dropped.
FIRST_STAGE = 40
HOPELESS = 15.0


class Start(NamedTuple):
    """Where one restart begins: coordinates, and what they are relative to."""

    bands: Bands
    layout: Layout
    name: str


class Restart(NamedTuple):
    """How one restart went.

    Attributes:
        name: of the layout it started from.
        objective: bound plus log prior after each iteration.
        bound: where it ended.
        jitter: added to the prior covariance of the features there.
        iterations: of L-BFGS.
        converged: whether the optimiser was done.
        message: why it stopped.
        seconds: it took, compilation included.
    """

    name: str
    objective: np.ndarray
    bound: float
    jitter: float
    iterations: int
    converged: bool
    message: str
    seconds: float


class Climbed(NamedTuple):
    """Where a restart ended, and how it got there."""

    bands: Bands
    layout: Layout
    restart: Restart


class _Terms(NamedTuple):
    bound: Float[Array, ""]
    jitter: Float[Array, ""]
    resolved: Any


def penalised(bands: Bands, layout: Layout, summary: Summary) -> tuple[Float[Array, ""], _Terms]:
    """Bound plus log prior, and its parts."""
    kernel, features, noise_variance = build(bands, layout)
    result = collapse(make_basis(kernel, features), noise_variance, summary)
    resolved = is_resolved(summary, result.diagnostics.tail, result.diagnostics.overreach)
    return result.bound + log_prior(bands, layout), _Terms(result.bound, result.diagnostics.jitter, resolved)


@eqx.filter_jit
def _value_and_gradient(
    vector: Array, like: Bands, layout: Layout, summary: Summary
) -> tuple[Float[Array, ""], Float[Array, " d"], _Terms]:
    def objective(v: Array) -> tuple[Array, _Terms]:
        return penalised(unravel(v, like), layout, summary)

    (value, terms), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient)) & jnp.asarray(terms.resolved)
    return jnp.where(usable, value, -_REFUSED), jnp.where(usable, gradient, 0.0), terms


def unravel(vector: Float[Array, " d"], like: Bands) -> Bands:
    """Bands from a flat vector of coordinates; `like` gives the shapes."""
    leaves, tree = jax.tree.flatten(like)
    sizes = np.cumsum([leaf.size for leaf in leaves])[:-1]
    parts = jnp.split(vector, sizes)
    return jax.tree.unflatten(tree, [p.reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)])


class Interrupt:
    """A flag that stops every restart at its next iteration."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Ask everyone to stop."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether someone has asked."""
        return self._event.is_set()


Report = Callable[[int, int, float], None]  # which restart, its iteration, its objective


@in_float64
def climb(start: Start, summary: Summary, *, iterations: int, stop: Interrupt, report: Callable[[int, float], None]) -> Climbed:
    """L-BFGS from one start; the best coordinates seen are returned, also when interrupted."""
    began = time.perf_counter()
    vector, _ = ravel_pytree(start.bands)
    best: dict[str, Any] = {"value": -np.inf, "vector": np.asarray(vector), "terms": None}
    history: list[float] = []

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        with jax.enable_x64(True):  # a thread has settings of its own
            result, gradient, terms = _value_and_gradient(jnp.asarray(v), start.bands, start.layout, summary)
            value = float(result)
            if value > best["value"] or best["terms"] is None:
                best.update(value=value, vector=v.copy(), terms=terms)
            return -value, -np.asarray(gradient)

    def after(_: np.ndarray) -> None:
        history.append(best["value"])
        report(len(history), best["value"])
        if stop.is_set():
            raise StopIteration

    options = {"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20, "ftol": 1e-9, "gtol": 1e-4}
    found = minimize(negative, best["vector"], jac=True, method="L-BFGS-B", callback=after, options=options)
    terms = best["terms"]
    message = "interrupted" if stop.is_set() else str(found.message).strip().lower()
    restart = Restart(
        start.name,
        np.asarray(history or [best["value"]]),
        float(terms.bound),
        float(terms.jitter),
        int(found.nit),
        bool(found.success) and not stop.is_set(),
        message,
        time.perf_counter() - began,
    )
    return Climbed(unravel(jnp.asarray(best["vector"]), start.bands), start.layout, restart)


def climb_all(
    starts: Sequence[Start],
    summary: Summary,
    *,
    iterations: int,
    workers: int,
    keep: int,
    report: Report = lambda which, iteration, value: None,
) -> list[Climbed]:
    """Every start for a while, then the `keep` best of them to the end; in threads, as XLA computes outside Python's lock.

    Ctrl-C stops all of them where they are, and the results so far are returned.
    """
    stop = Interrupt()
    first = _in_threads(starts, summary, min(iterations, FIRST_STAGE), workers, stop, report)
    ranked = sorted(range(len(first)), key=lambda i: -first[i].restart.objective[-1])
    top = first[ranked[0]].restart.objective[-1]
    chosen = [i for i in ranked[:keep] if first[i].restart.objective[-1] > top - HOPELESS]
    if stop.is_set() or iterations <= FIRST_STAGE:
        return first
    again = [Start(first[i].bands, first[i].layout, first[i].restart.name) for i in chosen]
    second = _in_threads(again, summary, iterations - FIRST_STAGE, workers, stop, report)
    result = list(first)
    for i, climbed in enumerate(first):
        if i not in chosen:
            result[i] = climbed._replace(restart=climbed.restart._replace(message="dropped early: far below the best"))
    for i, climbed in zip(chosen, second, strict=True):
        before, after = first[i].restart, climbed.restart
        joined = after._replace(
            objective=np.concatenate([before.objective, after.objective]),
            iterations=before.iterations + after.iterations,
            seconds=before.seconds + after.seconds,
        )
        result[i] = climbed._replace(restart=joined)
    return result


def _in_threads(
    starts: Sequence[Start], summary: Summary, iterations: int, workers: int, stop: Interrupt, report: Report
) -> list[Climbed]:
    with ThreadPoolExecutor(max(1, min(workers, len(starts)))) as pool:
        tasks = [
            pool.submit(climb, start, summary, iterations=iterations, stop=stop, report=functools.partial(report, i))
            for i, start in enumerate(starts)
        ]
        try:
            wait(tasks)
        except KeyboardInterrupt:
            stop.set()
            wait(tasks, return_when="ALL_COMPLETED")
        return [task.result() for task in tasks]


@in_float64
def curvature(climbed: Climbed, summary: Summary, step: float = 1e-4) -> Float[np.ndarray, "d d"]:
    """Minus the second derivatives of the penalised bound at the end of a restart, from differences of its gradient."""
    vector = np.asarray(ravel_pytree(climbed.bands)[0])

    def gradient(v: np.ndarray) -> np.ndarray:
        return np.asarray(_value_and_gradient(jnp.asarray(v), climbed.bands, climbed.layout, summary)[1])

    rows = [(gradient(vector - step * e) - gradient(vector + step * e)) / (2 * step) for e in np.eye(len(vector))]
    H = np.stack(rows)
    return (H + H.T) / 2

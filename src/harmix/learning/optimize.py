"""Climbing from several starts at once: L-BFGS in unconstrained coordinates, hopeless starts dropped early.

What is climbed is `(1 - share) bound + share withheld + log prior`, `withheld` the log density of each observation given all but
its block (`harmix.learning.withheld`). First the bound alone (a model that has found nothing yet cannot be asked about gaps).
"""

from __future__ import annotations

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

from harmix.features import make_basis
from harmix.inference.collapsed import collapse
from harmix.learning.descent import descend
from harmix.learning.models import Bands, Layout, build, log_prior
from harmix.learning.withheld import Withheld, log_density
from harmix.precision import in_float64
from harmix.summary import Summary
from harmix.summary.guard import is_resolved

# What the optimiser is told where the summary is too coarse, or the bound is not a number: a step back is taken.
REFUSED = 1e10
# After so many iterations of the bound alone, starts that lie further below the best than this share of a nat for each
# observation are dropped.
FIRST_STAGE = 60
HOPELESS = 0.5


class Start(NamedTuple):
    """Where one restart begins: coordinates, and what they are relative to."""

    bands: Bands
    layout: Layout
    name: str


class Restart(NamedTuple):
    """How one restart went.

    Attributes:
        name: of the layout it started from.
        objective: what is climbed, after each iteration; it starts afresh where blocks begin to be withheld.
        bound: where it ended.
        withheld: log density of the observations given all but their block there; NaN where none are withheld.
        jitter: added to the prior covariance of the features there.
        iterations: of L-BFGS.
        converged: whether the optimiser was done.
        message: why it stopped.
        seconds: it took, compilation included.
    """

    name: str
    objective: np.ndarray
    bound: float
    withheld: float
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


class Problem(NamedTuple):
    """What stays while coordinates move.

    Attributes:
        summary: the data.
        partitions: blocks to withhold; none for compressed data.
        share: of the withheld density in what is climbed.
    """

    summary: Summary
    partitions: tuple[Withheld, ...]
    share: Any


class _Terms(NamedTuple):
    bound: Float[Array, ""]
    withheld: Any
    jitter: Float[Array, ""]
    resolved: Any


def penalised(bands: Bands, layout: Layout, problem: Problem) -> tuple[Float[Array, ""], _Terms]:
    """What is climbed, and its parts."""
    kernel, features, noise_variance = build(bands, layout)
    basis = make_basis(kernel, features)
    result = collapse(basis, noise_variance, problem.summary)
    resolved = is_resolved(problem.summary, result.diagnostics.tail, result.diagnostics.overreach)
    value, withheld = result.bound, jnp.asarray(jnp.nan)
    if problem.partitions:
        withheld = log_density(basis, result, noise_variance, problem.summary, problem.partitions)
        value = (1 - problem.share) * result.bound + problem.share * withheld
    return value + log_prior(bands, layout), _Terms(result.bound, withheld, result.diagnostics.jitter, resolved)


@eqx.filter_jit
def value_and_gradient(
    vector: Array, like: Bands, layout: Layout, problem: Problem
) -> tuple[Float[Array, ""], Float[Array, " d"], _Terms]:
    """`penalised` at flat coordinates, with its gradient; `REFUSED` and 0 where it is not a number or not resolved."""

    def objective(v: Array) -> tuple[Array, _Terms]:
        return penalised(unravel(v, like), layout, problem)

    (value, terms), gradient = jax.value_and_grad(objective, has_aux=True)(vector)
    usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient)) & jnp.asarray(terms.resolved)
    return jnp.where(usable, value, -REFUSED), jnp.where(usable, gradient, 0.0), terms


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
def climb(
    start: Start,
    problem: Problem,
    *,
    iterations: int,
    stop: Interrupt,
    report: Callable[[int, float], None] = lambda iteration, value: None,
) -> Climbed:
    """L-BFGS from one start; the best coordinates seen are returned, also when interrupted."""
    began = time.perf_counter()
    vector, _ = ravel_pytree(start.bands)
    problem = problem._replace(share=jnp.asarray(problem.share, float))
    best: dict[str, Any] = {"value": -np.inf, "vector": np.asarray(vector), "terms": None}
    history: list[float] = []

    def negative(v: np.ndarray) -> tuple[float, np.ndarray]:
        with jax.enable_x64(True):  # a thread has settings of its own
            reached, gradient, terms = value_and_gradient(jnp.asarray(v), start.bands, start.layout, problem)
            value = float(reached)
            if value > best["value"] or best["terms"] is None:
                best.update(value=value, vector=v.copy(), terms=terms)
            return -value, -np.asarray(gradient)

    def after(_: np.ndarray) -> None:
        history.append(best["value"])
        report(len(history), best["value"])
        if stop.is_set():
            raise StopIteration

    found = descend(negative, lambda: best["vector"], iterations=iterations, gtol=1e-4, callback=after)
    terms = best["terms"]
    restart = Restart(
        start.name,
        np.asarray(history or [best["value"]]),
        float(terms.bound),
        float(terms.withheld),
        float(terms.jitter),
        int(found.nit),
        bool(found.success) and not stop.is_set(),
        "interrupted" if stop.is_set() else str(found.message).strip().lower(),
        time.perf_counter() - began,
    )
    return Climbed(unravel(jnp.asarray(best["vector"]), start.bands), start.layout, restart)


def climb_all(
    starts: Sequence[Start], problem: Problem, *, iterations: int, workers: int, keep: int, report: Report
) -> list[Climbed]:
    """Every start for a while, then the `keep` best of them to the end; in threads, as XLA computes outside Python's lock.

    Ctrl-C stops all of them where they are, and the results so far are returned.
    """
    stop = Interrupt()
    bound_only = problem._replace(share=0.0)
    first = _in_threads(starts, bound_only, min(iterations, FIRST_STAGE), workers, stop, report)
    value = lambda climbed: climbed.restart.objective[-1]
    ranked = sorted(range(len(first)), key=lambda i: -value(first[i]))
    least = value(first[ranked[0]]) - HOPELESS * float(problem.summary.count)
    chosen = [i for i in ranked[:keep] if value(first[i]) > least]
    if stop.is_set() or iterations <= FIRST_STAGE:
        return first
    again = [Start(first[i].bands, first[i].layout, first[i].restart.name) for i in chosen]
    second = _in_threads(again, problem, iterations - FIRST_STAGE, workers, stop, report, chosen)
    result = [c._replace(restart=c.restart._replace(converged=False, message=DROPPED)) for c in first]
    for i, climbed in zip(chosen, second, strict=True):
        before, after = first[i].restart, climbed.restart
        joined = after._replace(
            objective=np.concatenate([before.objective, after.objective]),
            iterations=before.iterations + after.iterations,
            seconds=before.seconds + after.seconds,
        )
        result[i] = climbed._replace(restart=joined)
    return result


DROPPED = "dropped early: far below the best"


def _in_threads(
    starts: Sequence[Start],
    problem: Problem,
    iterations: int,
    workers: int,
    stop: Interrupt,
    report: Report,
    numbers: Sequence[int] | None = None,
) -> list[Climbed]:
    def one(number: int, start: Start) -> Climbed:
        return climb(start, problem, iterations=iterations, stop=stop, report=lambda n, v: report(number, n, v))

    with ThreadPoolExecutor(max(1, min(workers, len(starts)))) as pool:
        tasks = [pool.submit(one, *job) for job in zip(numbers or range(len(starts)), starts, strict=True)]
        try:
            wait(tasks)
        except KeyboardInterrupt:
            stop.set()
            wait(tasks)
        return [task.result() for task in tasks]

"""From data to a posterior: several starts that the data suggest, climbed together, and averaged over (MATH.md sections 5 and 6)."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from harmix.arguments import numeric_array, show
from harmix.inference.mixture import MixturePosterior
from harmix.inference.posterior import Posterior, condition, positive_count
from harmix.kernels import HarmonizableMixture
from harmix.learning.initialize import Proposal, Record, half_sampling_rate, propose, record_of
from harmix.learning.marginalize import ensemble, nuts
from harmix.learning.models import build, initial_bands
from harmix.learning.optimize import DROPPED, Climbed, Problem, Restart, Start, climb_all
from harmix.learning.progress import reporting
from harmix.learning.withheld import withhold
from harmix.precision import in_float64
from harmix.summary import Summary, summarize
from harmix.summary.core import as_summary

# Half of what is climbed is the bound, half the density of blocks withheld.
SHARE = 0.5
# How many windows restarts have, in turn: from a few, which say little that the data did not ask for, to many.
_WINDOWS = {1: (3, 5, 8, 1, 12, 4, 6, 2, 10), 2: (1, 4, 8), 3: (1, 4)}
# Windows with drifting lines from here on: with fewer a line hardly sees its frequency change.
_DRIFTING = 4
# Inducing frequencies: so many in all, and so many for each frequency of a window at least, or it can only be narrow.
_BUDGET, _FEWEST, _MOST = 50, 4, 16
# For each window, so many observations at least.
_OBSERVATIONS = 8
# More observations than this are compressed. Nodes are filled up to one of a few numbers, so that compiled code is used again.
LARGE = 4096
_SIZES = (16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
# How much restarts perturb what the periodogram says, from the second of a kind on.
_JITTER = 0.5
_WORKERS = 2


class FitResult(eqx.Module):
    """A fitted model, how every restart went, and what is predicted.

    Attributes:
        posterior: a `Posterior`, or a `MixturePosterior` where hyperparameters are averaged over.
        kernel: the harmonizable mixture of the chosen restart.
        features: its inducing frequencies (points, where an estimator had more columns than frequencies can span).
        noise_variance: its noise.
        bound: of the chosen restart, on the log evidence.
        restarts: one `Restart` each, in the order of their starts.
        chosen: which of them has the highest objective; only training data have a say.
        inference: "map", "ensemble" or "nuts".
        diagnostics: numbers that tell how the average over hyperparameters went.
        jitter: the largest that any member needed.
        seconds: the fit took, compilation included.
        converged: whether the chosen restart was done.
        message: why it stopped.
    """

    posterior: Posterior | MixturePosterior
    kernel: HarmonizableMixture
    features: Any
    noise_variance: float
    bound: float
    restarts: tuple[Restart, ...]
    chosen: int
    inference: str
    diagnostics: dict[str, float]
    jitter: float
    seconds: float
    converged: bool
    message: str


@in_float64
def fit(
    data: Any,
    *,
    n_components: Any = "auto",
    n_frequencies: Any = 3,
    n_inducing: Any = "auto",
    max_frequency: Any = "auto",
    n_restarts: Any = 5,
    inference: Any = "auto",
    max_iterations: Any = 300,
    random_state: int | None = 0,
    progress: bool = False,
    callback: Callable[[int, int, float], None] | None = None,
) -> FitResult:
    """Learns a harmonizable mixture from data: starts from local periodograms, climbs, and averages over what it found.

    Models are bands of frequencies that run through windows along the record (`harmix.learning.models`). They climb the bound, and
    from there the mean of the bound and of the log density of observations given all but their block, blocks as long as the gaps
    of the record (`harmix.learning.withheld`). Nothing is ever chosen by anything but the data given here.

    Args:
        data: `(X, y)`, `(X, y, weights)` or a `harmix.Summary`; X is `(n,)` or `(n, D)`, y real or complex, with mean 0.
        n_components: how many windows; "auto" tries several numbers.
        n_frequencies: at most so many for each window, a trend at frequency 0 counted.
        n_inducing: how many inducing frequencies in all; "auto" is 50.
        max_frequency: frequencies are looked for up to here, in cycles per input unit, a number or `(D,)`.
        n_restarts: how many starts.
        inference: "map" takes the best restart; "ensemble" averages restarts, weighted by their objective; "nuts" samples the
            hyperparameters of the best restart (needs the extra `bayes`); "auto" is "ensemble".
        max_iterations: of L-BFGS for each restart.
        random_state: seed; None for a different one each time.
        progress: show a bar on the error stream, when that is a terminal. Ctrl-C keeps the best so far.
        callback: `callback(restart, iteration, objective)`.

    Example:
        >>> import harmix as hx
        >>> chirp = hx.datasets.make_chirp(60, random_state=0)
        >>> found = hx.fit((chirp.data, chirp.target), n_components=1, n_restarts=1, max_iterations=5)
        >>> found.posterior.mean([0.0, 1.0]).shape
        (2,)
    """
    began = time.perf_counter()
    n_frequencies, n_restarts = positive_count("n_frequencies", n_frequencies), positive_count("n_restarts", n_restarts)
    max_iterations = positive_count("max_iterations", max_iterations)
    budget = _BUDGET if _is_auto(n_inducing) else positive_count("n_inducing", n_inducing)
    windows = None if _is_auto(n_components) else positive_count("n_components", n_components)
    if inference not in ("auto", "map", "ensemble", "nuts"):
        raise ValueError(f'inference must be "auto", "map", "ensemble" or "nuts", got {inference!r}.')
    highest = None if _is_auto(max_frequency) else _checked_frequency(max_frequency)
    rng = np.random.default_rng(random_state)

    summary, highest = _prepared(data, highest)
    record = record_of(summary, highest)
    proposals = _proposals(record, windows, n_frequencies, budget, n_restarts, not summary.is_complex, rng)
    starts = [Start(initial_bands(p.layout, M), p.layout, p.name) for p, M in proposals]
    padded = _padded(summary)
    problem = Problem(padded, withhold(padded), SHARE)
    with reporting(progress, starts, max_iterations, callback) as report:
        climbed = climb_all(starts, problem, iterations=max_iterations, workers=_WORKERS, keep=n_restarts, report=report)
    finished = [c for c in climbed if np.isfinite(c.restart.objective[-1])]
    if not finished:
        raise FloatingPointError(
            "no restart found a finite bound: look for values of y or X many orders of magnitude away from 1 and scale them."
        )
    best = max(finished, key=lambda c: _final(c, problem))
    if inference == "nuts":
        members, weights, diagnostics = nuts(best, padded, seed=int(rng.integers(2**31)))
        layouts = [best.layout] * len(members)
    elif inference == "map":
        members, weights, diagnostics, layouts = [best.bands], np.ones(1), {}, [best.layout]
    else:
        members, weights, diagnostics, layouts = ensemble(finished, problem)
    posteriors = [condition(*build(b, layout), summary) for b, layout in zip(members, layouts, strict=True)]
    model = build(best.bands, best.layout)
    return FitResult(
        posteriors[0] if len(posteriors) == 1 else MixturePosterior(posteriors, weights),
        model.kernel,
        model.features,
        float(model.noise_variance),
        best.restart.bound,
        tuple(c.restart for c in climbed),
        next(i for i, c in enumerate(climbed) if c is best),
        "ensemble" if inference == "auto" else inference,
        diagnostics,
        max(float(p.basis.jitter) for p in posteriors),
        time.perf_counter() - began,
        best.restart.converged,
        best.restart.message,
    )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _checked_frequency(value: Any) -> np.ndarray:
    highest = np.atleast_1d(np.asarray(numeric_array("max_frequency", value, allow_boolean=False)))
    if highest.ndim != 1 or not np.all(highest > 0):
        raise ValueError(f'max_frequency must be "auto", a positive number or one for each dimension, got {show(value)}.')
    return highest


def _final(climbed: Climbed, problem: Problem) -> float:
    """The objective in its last form; that of restarts dropped early is another one."""
    dropped = problem.partitions and climbed.restart.message == DROPPED
    return -np.inf if dropped else float(climbed.restart.objective[-1])


def _prepared(data: Any, highest: np.ndarray | None) -> tuple[Summary, np.ndarray | None]:
    """Data as a summary, compressed where they are many, and up to where frequencies are looked for."""
    summary = as_summary(data)
    D = summary.nodes.shape[1]
    if highest is not None:
        if len(highest) not in (1, D):
            raise ValueError(f"max_frequency must be a number or one for each of the {D} dimensions of X, got {show(highest)}.")
        highest = np.broadcast_to(highest, (D,))
    if summary.grid is not None or summary.nodes.shape[0] <= LARGE:
        return summary, highest
    x, a = np.asarray(summary.nodes), np.asarray(summary.a)
    y = np.asarray(summary.b) / a
    if highest is None:
        highest = band_of(x[:, 0], a, y) if D == 1 else half_sampling_rate(x)
    # The widest band that any start needs, with room to move.
    narrowest = np.ptp(x, axis=0) / max(_WINDOWS.get(D, (1,)))
    needed = 1.25 * highest + 4.0 / narrowest
    band = needed if D > 1 else float(needed[0])
    compressed = summarize(x, y, max_frequency=band, tolerance=1e-7, weights=a)
    if compressed.nodes.shape[0] >= len(x):
        return summary, highest
    # A node may stand for several rows, and the scatter among them counts.
    rows = {name: getattr(summary, name) for name in ("count", "sum_squares", "sum_log_weights")}
    return dataclasses.replace(compressed, **rows), highest


def band_of(x: np.ndarray, a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where the spectrum of a long record falls to its floor, `(1,)`: a periodogram of averages in fine bins, in one pass."""
    bins = 1 << int(np.clip(np.log2(len(x) / 4), 8, 20))
    span = float(np.ptp(x)) or 1.0
    place = np.minimum(((x - x.min()) / span * bins).astype(np.int64), bins - 1)
    mean = np.sum(a * y) / np.sum(a)
    power = np.zeros(bins // 2)
    for part in ((y - mean).real, (y - mean).imag):
        power += np.abs(np.fft.rfft(np.bincount(place, a * part, bins))[1:]) ** 2
    # Smoothed over a few hundredths of the band; the floor is what half of it does not exceed.
    size = max(len(power) // 256, 4)
    smooth = np.convolve(power, np.ones(size) / size, mode="same")
    above = np.flatnonzero(smooth > 3 * np.median(smooth))
    last = int(above[-1]) + 1 if len(above) else len(power) // 8
    return np.array([min(1.2 * (last + size) / span, 0.5 * bins / span)])


def _padded(summary: Summary) -> Summary:
    """The same summary with nodes that count for nothing, up to one of a few numbers."""
    G = summary.nodes.shape[0]
    size = next((s for s in _SIZES if s >= G), G)
    if summary.grid is not None or size == G:
        return summary
    fill = lambda v: jnp.concatenate([v, jnp.zeros(size - G, v.dtype)])
    nodes = jnp.concatenate([summary.nodes, jnp.broadcast_to(summary.nodes[:1], (size - G, summary.nodes.shape[1]))])
    return dataclasses.replace(summary, nodes=nodes, a=fill(summary.a), b=fill(summary.b))


def _proposals(
    record: Record, windows: int | None, n_frequencies: int, budget: int, n_restarts: int, real: bool, rng: np.random.Generator
) -> list[tuple[Proposal, int]]:
    """Layouts to start from, each with its number of inducing frequencies for a frequency of a window."""
    n, D = record.x.shape
    fewest = max(_FEWEST, D + 1)
    if windows is not None:
        candidates: tuple[int, ...] = (min(windows, n),)
    else:
        candidates = tuple(P for P in _WINDOWS.get(D, (1,)) if n // _OBSERVATIONS >= P and P * fewest <= budget) or (1,)
    lines = n_frequencies if n >= 3 * _OBSERVATIONS and D <= 3 else 0
    found: dict[str, tuple[Proposal, int]] = {}
    for i in range(n_restarts):
        again = i >= len(candidates)
        if again and n < 5 * _OBSERVATIONS:
            break  # so few data suggest one thing only
        P = candidates[i % len(candidates)]
        jitter = _JITTER if again else 0.0

        def suggest(P: int, lines: int, jitter: float = jitter) -> Proposal:
            return propose(record, P=P, lines=lines, drifting=P >= _DRIFTING, real=real, rng=rng, jitter=jitter)

        proposal = _affordable(suggest, P, lines, n_frequencies, budget if windows is None else None, fewest)
        K, P, _ = proposal.layout.frequencies.shape
        # What fits the budget may be a layout that is there already.
        name = f"{proposal.name}, start {i + 1}" if again else proposal.name
        found.setdefault(name, (proposal._replace(name=name), max(2, min(_MOST, budget // (K * P)))))
    return list(found.values())


def _affordable(
    suggest: Callable[[int, int], Proposal], P: int, lines: int, n_frequencies: int, budget: int | None, fewest: int
) -> Proposal:
    """A proposal with enough inducing frequencies for every frequency of every window: of fewer lines, and then of fewer windows,
    where there are not.
    """
    while True:
        proposal = suggest(P, lines)
        K = proposal.layout.frequencies.shape[0]
        short = budget is not None and K * P * fewest > budget
        if lines > 0 and (n_frequencies < K or (short and lines > 1)):
            lines = min(lines, K) - 1
        elif short and budget is not None and P > 1:
            P = max(1, budget // (K * fewest))
        else:
            return proposal

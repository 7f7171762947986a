"""Predictions that account for not knowing the hyperparameters: weighted restarts, or samples of the hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from harmix.learning.models import Bands, Layout
from harmix.learning.optimize import DROPPED, Climbed, Problem, penalised, unravel
from harmix.precision import in_float64
from harmix.summary import Summary

# Members of an ensemble with less than this share of the largest weight are left out.
_NEGLIGIBLE = 1e-3
# NUTS: chains, steps of adaptation and of sampling of each, and how many samples predictions average over.
CHAINS, ADAPTATION, SAMPLES, MEMBERS = 2, 150, 150, 24


def ensemble(climbed: Sequence[Climbed], problem: Problem) -> tuple[list[Bands], np.ndarray, dict[str, float], list[Layout]]:
    """The restarts that got to the end, weighted by `exp(objective / T)`.

    Observations of one block are not independent witnesses of how well a model fills gaps: a block counts as one, so T is
    the mean number of observations in a block. Where nothing is withheld, `T = 1`.

    Returns:
        Coordinates, weights that add up to 1, `{"members", "effective_members"}`, and layouts.
    """
    done = [c for c in climbed if c.restart.message != DROPPED] or list(climbed)
    objective = np.array([c.restart.objective[-1] for c in done])
    sizes = [float(np.sum(p.inside)) / np.count_nonzero(p.inside.any(axis=1)) for p in problem.partitions]
    temperature = float(np.mean(sizes)) if sizes else 1.0
    weights = np.exp((objective - objective.max()) / temperature)
    kept = np.flatnonzero(weights > _NEGLIGIBLE)
    weights = weights[kept] / np.sum(weights[kept])
    diagnostics = {"members": float(len(kept)), "effective_members": float(1 / np.sum(weights**2)), "temperature": temperature}
    return [done[i].bands for i in kept], weights, diagnostics, [done[i].layout for i in kept]


@in_float64
def nuts(best: Climbed, summary: Summary, *, seed: int) -> tuple[list[Bands], np.ndarray, dict[str, float]]:
    """Samples of the hyperparameters under `exp(bound) prior`, by the No-U-Turn sampler (Hoffman and Gelman 2014) of blackjax.

    Two chains from the optimum, slightly apart; step size and diagonal mass are adapted. Inducing frequencies, which have no
    prior (any are right), stay where the optimiser put them.

    Returns:
        Coordinates of every so many-th sample, equal weights, and `{"r_hat", "effective_sample_size", "divergences",
        "acceptance"}`: the worst R-hat and the smallest effective sample size over coordinates.
    """
    try:
        import blackjax
    except ImportError:
        raise ModuleNotFoundError('inference="nuts" needs blackjax: pip install "harmix[bayes]".') from None

    offsets = best.bands.offsets
    free = lambda bands: bands.__class__(**{**vars(bands), "offsets": jnp.zeros((0, *offsets.shape[1:]))})
    like = free(best.bands)
    start, _ = ravel_pytree(like)
    problem = Problem(summary, (), jnp.zeros(()))

    def whole(vector: Any) -> Bands:
        bands = unravel(vector, like)
        return bands.__class__(**{**vars(bands), "offsets": offsets})

    def log_density(vector: Any) -> Any:
        value, terms = penalised(whole(vector), best.layout, problem)
        return jnp.where(jnp.isfinite(value) & jnp.asarray(terms.resolved), value, -jnp.inf)

    def chain(key: Any, position: Any) -> Any:
        adapt_key, sample_key = jax.random.split(key)
        adaptation = blackjax.window_adaptation(blackjax.nuts, log_density, target_acceptance_rate=0.8, max_num_doublings=6)
        (state, parameters), _ = adaptation.run(adapt_key, position, num_steps=ADAPTATION)
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state: Any, key: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, (state.position, info.is_divergent, info.acceptance_rate)

        return jax.lax.scan(step, state, jax.random.split(sample_key, SAMPLES))[1]

    run, key = jax.jit(chain), jax.random.key(seed)
    positions, divergent, accepted = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    for _ in range(CHAINS):
        key, near, own = jax.random.split(key, 3)
        found = run(own, start + 0.05 * jax.random.normal(near, start.shape))
        for store, values in zip((positions, divergent, accepted), found, strict=True):
            store.append(np.asarray(values))
    samples = np.stack(positions)  # (chains, steps, d)
    diagnostics = {
        "r_hat": float(np.max(potential_scale_reduction(samples))),
        "effective_sample_size": float(np.min(np.asarray(blackjax.diagnostics.effective_sample_size(jnp.asarray(samples))))),
        "divergences": float(np.sum(divergent)),
        "acceptance": float(np.mean(accepted)),
    }
    chosen = samples.reshape(-1, samples.shape[-1])[:: max(1, CHAINS * SAMPLES // MEMBERS)]
    members = [whole(jnp.asarray(v)) for v in chosen]
    return members, np.full(len(members), 1 / len(members)), diagnostics


def potential_scale_reduction(samples: np.ndarray) -> np.ndarray:
    """R-hat `(d,)` of samples `(chains, steps, d)`, each chain split in two halves (Gelman et al. 2013, section 11.4).

    Example:
        >>> bool(np.all(potential_scale_reduction(np.random.default_rng(0).normal(size=(2, 500, 3))) < 1.02))
        True
    """
    half = samples.shape[1] // 2
    chains = np.concatenate([samples[:, :half], samples[:, half : 2 * half]])
    within = np.mean(np.var(chains, axis=1, ddof=1), axis=0)
    between = np.var(np.mean(chains, axis=1), axis=0, ddof=1)
    return np.sqrt((half - 1) / half + between / np.maximum(within, 1e-300))

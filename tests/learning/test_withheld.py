"""The density of withheld blocks equals what refitting without each block gives, by dense linear algebra."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import harmix as hx
from harmix.features import make_basis
from harmix.inference.collapsed import collapse
from harmix.learning.withheld import log_density, withhold


def record(complex_data: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Uneven places with two gaps, away from 0; observations; weights."""
    rng = np.random.default_rng(3)
    x = 40 + np.sort(np.concatenate([rng.uniform(0, 3, 25), rng.uniform(4, 6, 18), rng.uniform(7.2, 9, 15)]))
    y = np.cos(2 * np.pi * 0.7 * x) + 0.3 * rng.normal(size=len(x))
    if complex_data:
        y = y + 1j * np.sin(2 * np.pi * 0.7 * x) + 0.3j * rng.normal(size=len(x))
    return x, y, rng.uniform(0.5, 2.0, len(x))


@pytest.mark.parametrize("complex_data", [False, True])
def test_it_is_the_density_given_all_other_blocks(complex_data: bool) -> None:
    x, y, v = record(complex_data)
    kernel = hx.kernels.HarmonizableMixture(
        [[42.0], [47.0]], [[2.0]], [[0.8]], [[[0.7]]], np.full((1, 1, 1), 0.6), real=not complex_data
    )
    features = hx.features.FourierFrequencies(np.tile(0.7 + np.linspace(-0.5, 0.5, 4)[None, :, None], (2, 1, 1)))
    noise = 0.2
    summary = hx.Summary.exact(x, y, v)
    partitions = withhold(summary)
    assert len(partitions) == 3

    @eqx.filter_jit
    def density(kernel: hx.kernels.Kernel, features: hx.features.Features, noise: Array, summary: hx.Summary) -> Array:
        basis = make_basis(kernel, features)
        return log_density(basis, collapse(basis, noise, summary), noise, summary, partitions)

    with jax.enable_x64(True):
        found = float(density(kernel, features, jnp.asarray(noise), summary))

    # The prior of the features' approximation, and what it leaves out, as dense matrices.
    rows, prior = hx.features.kuf(features, kernel, x), hx.features.kuu(features, kernel).to_dense()
    Q = np.conj(rows).T @ np.linalg.solve(prior + 1e-13 * np.trace(prior) * np.eye(len(prior)), rows)
    left = kernel.diag(x) - np.real(np.diag(Q))
    total = 0.0
    for index, inside in partitions:
        sums, weight = 0.0, 0.0
        covered = np.concatenate([row[keep] for row, keep in zip(index, inside, strict=True)])
        assert len(np.unique(covered)) == len(covered)
        for row, keep in zip(index, inside, strict=True):
            block = row[keep]
            rest = np.setdiff1d(np.arange(len(x)), block)
            gain = np.linalg.solve(Q[np.ix_(rest, rest)] + np.diag(noise / v[rest]), Q[np.ix_(rest, block)])
            mean = np.conj(gain).T @ y[rest]
            variance = np.real(np.diag(Q[np.ix_(block, block)] - np.conj(gain).T @ Q[np.ix_(rest, block)]))
            variance = variance + left[block] + noise / v[block]
            squared = np.abs(y[block] - mean) ** 2 / variance
            each = -np.log(np.pi * variance) - squared if complex_data else -0.5 * (np.log(2 * np.pi * variance) + squared)
            sums, weight = sums + np.sum(v[block] * each), weight + np.sum(v[block])
        total += len(x) * sums / weight / len(partitions)
    assert found == pytest.approx(total, rel=1e-6)


def test_blocks_are_as_long_as_the_gaps() -> None:
    x, y, _ = record(False)
    partitions = withhold(hx.Summary.exact(x, y))
    lengths = [np.max([np.ptp(x[row[keep]]) for row, keep in zip(*p, strict=True) if np.any(keep)]) for p in partitions]
    gaps = np.diff(x)[np.diff(x) > 0.8]
    assert np.all(np.array(lengths) <= 1.5 * np.median(gaps))
    assert lengths == sorted(lengths)


def test_compressed_and_planar_data_have_none() -> None:
    x = np.linspace(0, 10, 500)
    assert withhold(hx.summarize(x, np.sin(x), max_frequency=1.0)) == ()
    assert withhold(hx.Summary.exact(np.random.default_rng(0).normal(size=(50, 2)), np.zeros(50))) == ()

"""However badly conditioned Kuu is, a bound is finite, with its jitter reported, or an error that names the cause."""

import numpy as np
import pytest
from features.draws import SCALES
from inference.problems import KINDS, kernel, places, sample

import harmix as hx

# Frequencies of a component, in units of 1 / SCALES: twice the same, none, next to none, a pair, and far outside the spectrum.
DEGENERATE = np.array([0.5, 0.5, 0.0, 0.0, 1e-12, -0.5, 1e3, 0.5 + 1e-9])


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_frequencies_and_windows_of_any_size_give_a_finite_bound_or_a_clear_error(kind, D):
    rng = np.random.default_rng(D)
    k, X = kernel(rng, kind, D), places(rng, D)
    y = sample(rng, k, X, 0.1)
    u = hx.features.FourierFrequencies(np.tile((DEGENERATE[:, None] / SCALES[:D]), (2, 1, 1)))
    extent = np.ptp(X, axis=0)
    for size in (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3):
        for lag in (1e-3, 1.0, 1e3):
            wide = hx.kernels.HarmonizableMixture(
                k.centers, size * extent[None], lag * extent[None], k.frequencies, k.weights, real=k.is_real
            )
            try:
                bound, diagnostics = hx.collapsed_bound(wide, u, 0.1, (X, y), return_diagnostics=True)
                post = hx.condition(wide, u, 0.1, (X, y))
            except FloatingPointError as error:
                assert "jitter" in str(error)  # noqa: PT017
                continue
            exact = hx.log_marginal_likelihood(wide, 0.1, X, y)
            assert np.isfinite(bound)
            assert bound <= exact + 1e-8 * abs(exact)
            assert 0 < diagnostics.jitter <= 1e-3
            assert np.all(np.isfinite(post.mean(X)))
            assert np.all(np.isfinite(post.variance(X)))

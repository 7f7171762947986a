"""Numeric spectra refuse what they cannot do, and say so when they have not converged."""

import numpy as np
import pytest

import harmix as hx

numeric = hx.spectral.numeric
SE = hx.kernels.SquaredExponential(1.0, 0.5)
LSG = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
DOMAIN = (-5.0, 5.0)


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        (5.0, "5.0"),
        ((0.0, 1.0, 2.0), r"\(0.0, 1.0, 2.0\)"),
        ((1.0, 1.0), "lo < hi.*1.0, 1.0"),
        ((2.0, 1.0), "lo < hi.*2.0, 1.0"),
        (([0.0, 0.0], [1.0, 1.0]), r"\(1,\) as in w"),
        ((0.0, np.inf), "must be finite, got inf"),
        ((0.0, np.nan), "must be finite, got nan"),
    ],
)
def test_a_domain_is_a_pair_of_finite_ends(domain, words):
    with pytest.raises(ValueError, match=f"domain.*{words}"):
        numeric.density(SE, [0.5], domain=domain)


@pytest.mark.parametrize("window", ["none", 0.0, -1.0, np.nan, [1.0, 2.0]])
def test_a_window_is_auto_none_or_a_positive_number(window):
    with pytest.raises(ValueError, match="window"):
        numeric.wigner(LSG, [0.0], [0.5], domain=DOMAIN, window=window)


def test_places_lie_in_the_domain():
    with pytest.raises(ValueError, match=r"x must lie in the domain.*\[7.0\]"):
        numeric.wigner(LSG, [0.0, 7.0], [0.5], domain=DOMAIN)


def test_a_kernel_that_is_not_stationary_has_no_density():
    with pytest.raises(ValueError, match=r"k is not stationary.*wigner"):
        numeric.density(LSG, [0.5], domain=DOMAIN)


def test_a_function_returns_a_matrix():
    with pytest.raises(ValueError, match=r"k must return an array of shape \(32, 32\)"):
        numeric.density(lambda X1, X2: np.ones(3), [0.5], domain=DOMAIN)
    with pytest.raises(ValueError, match="k must return an array of shape"):
        numeric.generalized_density(lambda X1, X2: X1[:, None] - X2, [0.5], [0.5], domain=DOMAIN)


@pytest.mark.parametrize("k", [lambda X1, X2: np.full((len(X1), len(X2)), np.nan), hx.kernels.InvertedFractionalBrownian(0.5)])
def test_a_kernel_is_finite_all_over_the_domain(k):
    with pytest.raises(ValueError, match=r"k must be finite all over the domain|X has a point at 0"):
        numeric.generalized_density(k, [0.5], [0.5], domain=(-1.0, 1.0))
    with pytest.raises(ValueError, match=r"k must be finite all over the domain"):
        numeric.wigner(k, [0.0], [0.5], domain=(-1.0, 1.0))


def test_frequencies_have_as_many_dimensions_as_the_kernel():
    k = hx.kernels.SparseSpectrum([1.0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"w has 1 input dimension.*2 needed"):
        numeric.density(k, [0.5], domain=DOMAIN)
    with pytest.raises(ValueError, match=r"xi has 1 input dimension"):
        numeric.generalized_density(k, [[0.5, 0.5]], [0.5], domain=DOMAIN)
    with pytest.raises(ValueError, match=r"x has 1 input dimension"):
        numeric.wigner(k, [0.5], [[0.5, 0.5]], domain=DOMAIN)


def test_a_grid_beyond_the_budget_is_an_error_that_says_what_to_enlarge():
    with pytest.raises(ValueError, match=r"No grid resolves .* max_evaluations is 1.0e\+03. Enlarge"):
        numeric.generalized_density(LSG, [50.0], [50.0], domain=DOMAIN, max_evaluations=1000)


@pytest.mark.parametrize("budget", [100, 1000])
def test_no_convergence_is_a_warning_that_says_what_to_enlarge(budget):
    narrow = hx.kernels.SquaredExponential(1.0, 0.001)
    with pytest.warns(RuntimeWarning, match=r"has not converged.* max_evaluations .* Enlarge"):
        numeric.density(narrow, [0.5], domain=DOMAIN, max_evaluations=budget)

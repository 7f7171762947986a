"""Quadrature for any callable kernel agrees with closed forms, with analytic windowed formulas and with references."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from kernels.draws import SCALES, VARIANT_IDS, narrow
from references import quadrature
from references.kernels import formula
from spectral.cases import DENSITY, DRAW, GENERALIZED_DENSITY, WIGNER, error, frequencies, is_kinked

import harmix as hx

numeric = hx.spectral.numeric
TOLERANCE = {1: 1e-10, 2: 1e-6}
# In two dimensions one variant of each kind.
FLAT = [name for name in WIGNER if name in ("SquaredExponential", "Sum") or "full" in name]
FLAT_GENERALIZED = ["LocallyStationaryGaussian full", "HarmonizableMixture complex", "Scaled"]


def draw(name, rng, D):
    with narrow() if D == 2 else contextlib.nullcontext():
        return DRAW[name](rng, D)


def domain(D, reach):
    """Not symmetric about 0."""
    return -reach * SCALES[:D], (reach + 1) * SCALES[:D]


@pytest.mark.parametrize(
    ("name", "D"), [*((n, 1) for n in DENSITY), *((n, 2) for n in FLAT if n in DENSITY), ("Matern five halves", 2)]
)
def test_the_density_agrees_with_the_closed_form(name, D):
    rng = np.random.default_rng(D)
    k, w = draw(name, rng, D), frequencies(rng, 5, D)
    S = numeric.density(k, w, domain=domain(D, 20 if is_kinked(k) else 6))
    assert S.dtype == np.float64
    assert error(S, hx.spectral.density(k, w)) <= TOLERANCE[D]


@pytest.mark.parametrize(("name", "D"), [*((n, 1) for n in GENERALIZED_DENSITY), *((n, 2) for n in FLAT_GENERALIZED)])
def test_the_generalized_density_agrees_with_the_closed_form(name, D):
    rng = np.random.default_rng(D)
    k = draw(name, rng, D)
    w, xi = frequencies(rng, 3, D), frequencies(rng, 2, D)
    xi = np.concatenate([xi, w[:1]])
    S = numeric.generalized_density(k, w, xi, domain=domain(D, 18 if D == 1 else 6))
    assert S.dtype == np.complex128
    assert error(S, hx.spectral.generalized_density(k, w, xi)) <= TOLERANCE[D]


@pytest.mark.parametrize(("name", "D"), [*((n, 1) for n in WIGNER), *((n, 2) for n in FLAT)])
def test_the_wigner_distribution_agrees_with_the_closed_form(name, D):
    rng = np.random.default_rng(D)
    k, w, x = draw(name, rng, D), frequencies(rng, 5, D), rng.uniform(-1, 1, (3, D)) * SCALES[:D]
    W = numeric.wigner(k, x, w, domain=domain(D, 22 if is_kinked(k) else 12))
    assert W.dtype == np.float64
    assert error(W, hx.spectral.wigner(k, x, w)) <= TOLERANCE[D]


# --- windows
# --------------------------------------------------------------------------------------------------


def seen_through_a_window(k, middle, s):
    """`h(x) k(x, x') h(x')` as a harmonizable mixture without coupling: the window W is `s / sqrt(2)`."""
    if isinstance(k, hx.kernels.SparseSpectrum):
        weights, mu, l = k.weights, k.frequencies, 1e7
    else:
        weights, mu, l = k.variance[None], np.zeros((1, 1)), k.lengthscale
    weights, mu = np.diag(np.asarray(weights))[None], np.asarray(mu)[None]
    l = np.broadcast_to(np.asarray(l), (1, 1))
    return hx.kernels.HarmonizableMixture([[middle]], [[s / np.sqrt(2)]], l, mu, weights)


STATIONARY = {
    "SquaredExponential": hx.kernels.SquaredExponential(1.3, 2.0),
    "SparseSpectrum": hx.kernels.SparseSpectrum([1.0, 0.5], [[0.7], [2.1]]),
}
W1D = np.array([0.0, 0.3, 0.7, 2.0, 2.1])


@pytest.mark.parametrize("window", ["auto", 0.4])
@pytest.mark.parametrize("k", STATIONARY.values(), ids=list(STATIONARY))
def test_a_window_gives_a_stationary_kernel_a_generalized_density(k, window):
    lo, hi = 1.0, 9.0
    S = numeric.generalized_density(k, W1D, W1D, domain=(lo, hi), window=window)
    s = (hi - lo) / 14 if window == "auto" else window
    expected = hx.spectral.generalized_density(seen_through_a_window(k, 5.0, s), W1D, W1D)
    assert error(S, expected) <= 1e-9


def lag_windowed_density(k, w, s):
    """The closed-form density of `exp(-t^2 / (2 s^2)) k(t)`."""
    if isinstance(k, hx.kernels.SparseSpectrum):
        frequencies, masses = k.atoms()
        atom = np.exp(-2 * np.pi**2 * s**2 * (w[:, None] - frequencies[:, 0]) ** 2) * np.sqrt(2 * np.pi) * s
        return atom @ masses
    l = 1 / np.sqrt(1 / s**2 + 1 / float(k.lengthscale) ** 2)
    return hx.spectral.density(hx.kernels.SquaredExponential(k.variance, l), w)


@pytest.mark.parametrize("window", ["auto", 0.9])
@pytest.mark.parametrize("k", STATIONARY.values(), ids=list(STATIONARY))
def test_a_lag_window_smooths_the_density_and_the_wigner_distribution(k, window):
    lo, hi = 1.0, 9.0
    x = np.array([4.0, 5.0])
    S = numeric.density(k, W1D, domain=(lo, hi), window=window)
    W = numeric.wigner(k, x, W1D, domain=(lo, hi), window=window)
    # "auto": a seventh of the longest lag, which is 8 at the middle of the domain and 6 at x = 4.
    widths = [8 / 7, 6 / 7, 8 / 7] if window == "auto" else [window] * 3
    for values, s in zip([S, *W], widths, strict=True):
        assert error(values, lag_windowed_density(k, W1D, s)) <= 1e-9


def test_auto_leaves_alone_what_has_decayed_dimension_by_dimension():
    # Short in the first dimension, as long as the domain in the second.
    k = hx.kernels.SquaredExponential(1.0, [0.5, 10.0])
    w = np.array([[0.1, 0.0], [0.2, 0.02]])
    lengths = [0.5, 1 / np.sqrt(1 / 10.0**2 + (7 / 10.0) ** 2)]
    expected = hx.spectral.density(hx.kernels.SquaredExponential(1.0, lengths), w)
    assert error(numeric.density(k, w, domain=(0.0, 10.0)), expected) <= 1e-8


def test_no_window_cuts_the_integral_off_at_the_edges():
    k, w, L = hx.kernels.SparseSpectrum([1.0], [[0.8]]), np.array([0.3, 0.8, 1.4]), 3.0
    # int_{-L}^{L} cos(2 pi 0.8 t) cos(2 pi w t) dt
    expected = L * sum(np.sinc(2 * L * (w + sign * 0.8)) for sign in (-1, 1))
    assert error(numeric.density(k, w, domain=(1.0, 1.0 + L), window=None), expected) <= 1e-8


# --- kernels without a closed form
# --------------------------------------------------------------------------------

OPEN = [name for name in VARIANT_IDS if name not in (*GENERALIZED_DENSITY, *DENSITY) and "Fractional" not in name]


@pytest.mark.parametrize("name", OPEN)
def test_a_windowed_generalized_density_agrees_with_the_reference(name):
    rng = np.random.default_rng(0)
    k, w, s = DRAW[name](rng, 1), frequencies(rng, 4, 1), 0.7
    h = lambda x: np.exp(-np.sum((x - 1.0) ** 2, axis=-1) / (2 * s**2))
    rule = quadrature.box(-4, 6, 800)
    expected = quadrature.generalized_density(lambda x, y: h(x) * formula(k)(x, y) * h(y), w, w, rule)
    S = numeric.generalized_density(k, w, w, domain=(-4.0, 6.0), window=s)
    # A kink at x = x' costs the reference, on its one grid, its precision.
    assert error(S, expected) <= (2e-4 if is_kinked(k) else 1e-10)


@pytest.mark.parametrize("name", [n for n in VARIANT_IDS if n not in WIGNER and "Fractional" not in n])
def test_a_windowed_wigner_distribution_agrees_with_the_reference(name):
    rng = np.random.default_rng(0)
    k, w, x, s = DRAW[name](rng, 1), frequencies(rng, 4, 1), np.array([[0.0], [1.3]]), 0.5
    g = lambda t: np.exp(-np.sum(t**2, axis=-1) / (2 * s**2))
    windowed = lambda x, y: g(x - y) * formula(k)(x, y)
    expected = quadrature.wigner(windowed, x, w, quadrature.ball([1.0], 4.0, 800))
    assert error(numeric.wigner(k, x, w, domain=(-3.0, 5.0), window=s), expected) <= 1e-10


@pytest.mark.parametrize("hurst", [0.3, 0.8])
def test_a_kernel_that_lives_on_half_a_line_is_asked_for_nothing_else(hurst):
    k, w, s = hx.kernels.InvertedFractionalBrownian(hurst), np.array([0.0, 0.4]), 0.5
    # In the middle and the lag, where the cusp at t = 0 is at an end; t = r^4 takes the power of it away.
    r, q = quadrature.ball([1.0], 1.5, 400)
    t, q = r**3 * np.abs(r), q * 4 * np.abs(r[:, 0]) ** 3
    middles, dc = quadrature.box(1.5, 8.5, 200)
    h = lambda x: np.exp(-np.sum((x - 5.0) ** 2, axis=-1) / (2 * s**2))
    windowed = lambda x, y: np.where(np.minimum(x, y)[..., 0] > 0.5, h(x) * formula(k)(x, y) * h(y), 0.0)
    W = quadrature.wigner(windowed, middles, np.array([[0.0], [0.2], [0.4]]), (t, q))
    at = lambda w, xi: dc @ (np.exp(-2j * np.pi * (w - xi) * middles[:, 0]) * W[:, round(5 * (w + xi) / 2)])
    expected = np.array([[at(a, b) for b in w] for a in w])
    S = numeric.generalized_density(k, w, w, domain=(1.0, 9.0), window=s)
    assert error(S, expected) <= 1e-6


# --- any callable
# ---------------------------------------------------------------------------------------------


def in_numpy(X1, X2):
    assert isinstance(X1, np.ndarray)
    squared = np.sum((X1[:, None] - X2[None, :]) ** 2, axis=-1)
    envelope = lambda X: np.exp(-np.sum(X**2, axis=-1) / 4)
    return np.exp(-2 * squared) * envelope(X1)[:, None] * envelope(X2) * np.cos(6 * (X1[:, :1] - X2[:, 0]))


def in_jax(X1, X2):
    return in_numpy(np.asarray(X1), np.asarray(X2)) * jnp.ones((len(X1), len(X2)))


@pytest.mark.parametrize("k", [in_numpy, in_jax])
def test_any_function_is_a_kernel(k):
    kernel = hx.kernels.HarmonizableMixture([[0.0]], [[1.0]], [[0.5]], [[[3 / np.pi]]], [[[1.0]]])
    w, x = np.array([0.0, 0.9]), np.array([0.2, -1.0])
    wide = {"domain": (-14.0, 14.0)}
    assert error(numeric.wigner(k, x, w, **wide), hx.spectral.wigner(kernel, x, w)) <= 1e-10
    S = hx.spectral.generalized_density(kernel, w, w)
    assert error(numeric.generalized_density(k, w, w, domain=(-8.0, 8.0)), S) <= 1e-10
    stationary = lambda X1, X2: np.exp(-2 * np.sum((X1[:, None] - X2[None, :]) ** 2, axis=-1))
    assert error(numeric.density(stationary, w, **wide), hx.spectral.density(hx.kernels.SquaredExponential(1, 0.5), w)) <= 1e-10


def test_the_kernel_is_asked_for_bounded_blocks_inside_the_domain_in_64_bit():
    lo, hi = np.array([0.1, 1.0]), np.array([0.7, 2.0])
    asked = []

    def k(X1, X2):
        for X in (X1, X2):
            assert X.dtype == np.float64
            assert X.shape[1] == 2
            assert np.all(np.clip(X, lo, hi) == X)
        asked.append(len(X1) * len(X2))
        return np.exp(-np.sum((X1[:, None] - X2[None, :]) ** 2, axis=-1))

    w = np.array([[0.0, 0.5]])
    numeric.generalized_density(k, w, w, domain=(lo, hi))
    numeric.wigner(k, [[0.1, 1.3], [0.3, 1.9999]], w, domain=(lo, hi))
    numeric.density(k, w, domain=(lo, hi))
    assert max(asked) <= 512**2


def test_at_the_edge_of_the_domain_nothing_is_left():
    k = hx.kernels.SquaredExponential(1.0, 1.0)
    assert np.array_equal(numeric.wigner(k, [0.0, 5.0], [0.0, 1.0], domain=(0.0, 5.0)), np.zeros((2, 2)))


def test_high_frequencies_are_resolved():
    k = hx.kernels.SpectralMixture([1.0], [[80.0]], [[0.5]])
    w = np.array([0.0, 79.0, 80.0])
    assert error(numeric.density(k, w, domain=(0.0, 4.0)), hx.spectral.density(k, w)) <= 1e-10
    # Also where only the kernel is fast and nobody asks for its frequency.
    assert np.max(np.abs(numeric.density(k, [0.0, 1.0], domain=(0.0, 4.0)))) <= 1e-10


@pytest.mark.parametrize("D", [1, 2])
def test_a_kernel_much_narrower_than_the_domain_is_found(D):
    l = {1: 0.001, 2: 0.02}[D] * SCALES[:D]
    k, w = hx.kernels.SquaredExponential(1.0, l), np.zeros((1, D))
    assert error(numeric.density(k, w, domain=domain(D, 1.0)), hx.spectral.density(k, w)) <= TOLERANCE[D]


@jax.enable_x64(True)
def test_results_do_not_depend_on_the_precision_of_the_process():
    k = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
    W = numeric.wigner(k, [0.5], [0.2, 0.4], domain=(-9.0, 9.0))
    assert error(W, hx.spectral.wigner(k, [0.5], [0.2, 0.4])) <= 1e-12

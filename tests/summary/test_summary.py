"""A compressed summary says the same as the data it was made from, adds, and refuses what it cannot carry."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy.optimize import minimize

import harmix as hx
from harmix.features import make_basis
from harmix.inference.collapsed import collapse
from harmix.parameters import from_free, to_free
from harmix.summary.grid import chebyshev, chebyshev_nodes, lagrange, make_grid, moments, resolved_phase
from harmix.summary.guard import OutOfBandError

TOLERANCE = 1e-9


def problem(seed: int, D: int, kind: str):
    """A mixture, its features, and data with gaps, clusters and duplicates."""
    rng = np.random.default_rng(seed)
    P, Q, m, n = 2, 2, 6, 900
    complex_process = kind == "complex"
    F = rng.normal(size=(P, Q, Q)) + (1j * rng.normal(size=(P, Q, Q)) if kind != "real" else 0)
    kernel = hx.kernels.HarmonizableMixture(
        rng.uniform(-2, 2, (P, D)),
        rng.uniform(0.8, 2, (P, D)),
        rng.uniform(0.6, 1.2, (P, D)),
        rng.uniform(-1.2, 1.2, (P, Q, D)),
        F @ np.conj(np.swapaxes(F, 1, 2)),
        real=not complex_process,
    )
    features = hx.features.FourierFrequencies(rng.uniform(-1.5, 1.5, (P, m, D)))
    spread = rng.uniform(-3, 3, (n // 2, D))
    cluster = 1.3 + 0.01 * rng.normal(size=(n // 2, D))
    X = np.concatenate([spread, cluster])
    X = X[(X[:, 0] < -1) | (X[:, 0] > 0.2)]
    X = np.concatenate([X, X[:40]])
    y = np.sin(3 * X[:, 0]) + 0.4 * rng.normal(size=len(X))
    return kernel, features, X, (y + 1j * rng.normal(size=len(X)) if complex_process else y), reach(kernel, D)


def reach(kernel: hx.kernels.Kernel, D: int) -> np.ndarray:
    """The band a summary needs for a kernel."""
    with jax.enable_x64(True):
        return np.asarray(kernel.bandwidth(D)) * 1.05


@eqx.filter_jit
def bound(model, summary):
    kernel, features, noise = model
    return collapse(make_basis(kernel, features), noise, summary).bound


def value_and_gradient(model, summary):
    with jax.enable_x64(True):
        model = jax.tree.map(jax.numpy.asarray, model)
        value, gradient = eqx.filter_value_and_grad(bound)(model, summary)
        return float(value), [np.asarray(g) for g in jax.tree.leaves(gradient)]


@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("kind", ["real", "hermitian", "complex"])
def test_bound_gradient_and_posterior_are_those_of_the_data(D, kind):
    kernel, features, X, y, band = problem(10 * D, D, kind)
    summary = hx.summarize(X, y, max_frequency=band, tolerance=TOLERANCE)
    exact = hx.Summary.exact(X, y)
    noise = 0.2
    value, gradient = value_and_gradient((kernel, features, np.float64(noise)), summary)
    expected, wanted = value_and_gradient((kernel, features, np.float64(noise)), exact)
    assert value == pytest.approx(expected, rel=1e-9)
    for got, want in zip(gradient, wanted, strict=True):
        assert np.max(np.abs(got - want)) <= 1e-8 * np.max(np.abs(want))
    ours, theirs = (hx.condition(kernel, features, noise, data) for data in (summary, exact))
    places = np.random.default_rng(1).uniform(-3, 3, (50, D))
    scale = np.max(np.abs(theirs.mean(places)))
    assert np.max(np.abs(ours.mean(places) - theirs.mean(places))) <= 1e-9 * scale
    assert np.max(np.abs(ours.variance(places) - theirs.variance(places))) <= 1e-9 * np.max(kernel.diag(places))


@pytest.mark.parametrize("D", [1, 2, 3])
def test_sums_of_band_limited_functions_are_exact_to_the_tolerance(D):
    rng = np.random.default_rng(D)
    X, y = rng.normal(size=(500, D)), rng.normal(size=500)
    f = np.array([1.0, 0.4, 0.2])[:D]
    summary = hx.summarize(X, y, max_frequency=f, tolerance=TOLERANCE)
    t = np.asarray(summary.nodes)
    for side in rng.uniform(-1, 1, (10, D)):
        wave = lambda x, w=2 * side * f: np.exp(2j * np.pi * x @ w)
        assert abs(np.asarray(summary.a) @ wave(t) - np.sum(wave(X))) <= TOLERANCE * len(X)
        assert abs(np.asarray(summary.b) @ wave(t) - wave(X) @ y) <= TOLERANCE * np.sum(np.abs(y))
    assert float(summary.count) == 500
    assert float(summary.sum_squares) == pytest.approx(y @ y, rel=1e-13)
    assert 0 < float(summary.error) <= TOLERANCE


def test_line_moments_equal_sums_of_chebyshev_polynomials():
    rng = np.random.default_rng(0)
    grid = make_grid(np.array([2.0]), 1e-9, np.zeros(1))
    X, values = rng.uniform(-7, 9, (6000, 1)), rng.normal(size=(6000, 3))
    panels, got = moments(grid, X, values)
    where, xi = grid.locate(X)
    for panel, moment in zip(panels, got, strict=True):
        inside = np.all(where == panel, axis=1)
        wanted = np.polynomial.chebyshev.chebvander(xi[inside, 0], grid.order - 1).T @ values[inside]
        np.testing.assert_allclose(moment, wanted, rtol=0, atol=1e-11)


def test_lagrange_polynomials_are_one_at_their_node_and_zero_at_the_others():
    for p in (1, 2, 7, 48):
        np.testing.assert_allclose(lagrange(p) @ chebyshev(chebyshev_nodes(p), p), np.eye(p), atol=1e-13)


def test_resolved_phase_is_the_edge_of_the_tolerance():
    for p, tolerance in ((48, 1e-10), (16, 1e-6)):
        xi = np.linspace(-1, 1, 777)
        error = lambda kappa: np.max(
            np.abs(np.exp(1j * kappa * chebyshev_nodes(p)) @ lagrange(p) @ chebyshev(xi, p) - np.exp(1j * kappa * xi))
        )
        kappa = resolved_phase(p, tolerance)
        assert error(0.99 * kappa) <= 1.01 * tolerance <= error(1.1 * kappa)


def test_summaries_of_parts_add_to_the_summary_of_all():
    _, _, X, y, band = problem(3, 1, "real")
    options = dict(max_frequency=band, tolerance=TOLERANCE)
    whole = hx.summarize(X, y, **options)
    parts = [hx.summarize(X[i::3], y[i::3], **options) for i in range(3)]
    together = parts[0] + parts[1] + parts[2]
    np.testing.assert_array_equal(np.asarray(together.nodes), np.asarray(whole.nodes))
    for name in ("a", "b", "count", "sum_squares", "sum_log_weights"):
        np.testing.assert_allclose(getattr(together, name), getattr(whole, name), rtol=1e-12, atol=1e-10)


def test_adding_exact_data_joins_them():
    _, _, X, y, _ = problem(4, 2, "real")
    together = hx.Summary.exact(X[:100], y[:100]) + hx.Summary.exact(X[100:], y[100:])
    np.testing.assert_array_equal(np.asarray(together.b), y)


def test_summaries_on_different_grids_do_not_add():
    x = np.linspace(0, 1, 50)
    one, other = hx.summarize(x, x, max_frequency=1.0), hx.summarize(x, x, max_frequency=2.0)
    with pytest.raises(ValueError, match=r"max_frequency=\(1.0,\).*max_frequency=\(2.0,\)"):
        one + other
    with pytest.raises(ValueError, match="exact data"):
        one + hx.Summary.exact(x, x)


def test_new_data_update_the_posterior_without_the_old():
    kernel, features, X, y, band = problem(5, 1, "real")
    options = dict(max_frequency=band)
    kept = hx.summarize(X[:500], y[:500], **options)
    updated = hx.condition(kernel, features, 0.1, kept + hx.summarize(X[500:], y[500:], **options))
    at_once = hx.condition(kernel, features, 0.1, (X, y))
    x = np.linspace(-3, 3, 40)
    np.testing.assert_allclose(updated.mean(x), at_once.mean(x), rtol=0, atol=1e-8 * np.max(np.abs(at_once.mean(x))))
    np.testing.assert_allclose(updated.variance(x), at_once.variance(x), rtol=0, atol=1e-9 * np.max(kernel.diag(x)))


def test_weights_are_known_noise_variances():
    kernel, features, X, y, band = problem(6, 1, "real")
    v = np.random.default_rng(0).uniform(0.3, 3, len(y))
    compressed = hx.collapsed_bound(kernel, features, 0.3, hx.summarize(X, y, max_frequency=band, weights=v))
    assert compressed == pytest.approx(hx.collapsed_bound(kernel, features, 0.3, (X, y, v)), rel=1e-9)


def test_a_domain_fits_the_grid_and_refuses_data_outside():
    x = np.linspace(0, 1, 400)
    summary = hx.summarize(x, x, max_frequency=30.0, domain=(0.0, 1.0))
    low, high = summary.domain
    assert low[0] > 0.0
    assert high[0] < 1.0 + 1e-8
    with pytest.raises(ValueError, match=r"outside domain.*1\.5"):
        hx.summarize(np.append(x, 1.5), np.append(x, 0.0), max_frequency=30.0, domain=(0.0, 1.0))


# --- the guard --------------------------------------------------------------------------------------------------------


def test_a_kernel_beyond_the_band_is_refused():
    kernel, features, X, y, band = problem(7, 1, "real")
    coarse = hx.summarize(X, y, max_frequency=band / 2)
    with pytest.raises(OutOfBandError, match="summarise again with max_frequency="):
        hx.collapsed_bound(kernel, features, 0.1, coarse)
    with pytest.raises(OutOfBandError):
        hx.condition(kernel, features, 0.1, coarse)


def test_features_beyond_the_band_are_refused_though_the_kernel_is_within():
    kernel, _, X, y, band = problem(8, 1, "real")
    summary = hx.summarize(X, y, max_frequency=band)
    far = hx.features.FourierFrequencies(np.full((2, 1, 1), 8 * float(band[0])))
    toy = _Oscillating(8 * float(band[0]))
    hx.collapsed_bound(kernel, far, 0.1, summary)  # their covariance with f is nothing: harmless
    with pytest.raises(OutOfBandError):
        hx.collapsed_bound(kernel, toy, 0.1, summary)


class _Oscillating(hx.features.Features):
    """A feature whose covariance with f oscillates faster than the kernel says."""

    frequency: float

    def kuf(self, kernel, X):
        return jax.numpy.cos(2 * jax.numpy.pi * self.frequency * X.T)

    def kuu(self, kernel):
        return 10 * jax.numpy.eye(1)


def test_a_window_that_would_slip_between_the_nodes_is_refused():
    _, _, X, y, _ = problem(9, 1, "real")
    summary = hx.summarize(X, y, max_frequency=2.0)
    nodes = np.sort(np.asarray(summary.nodes)[:, 0])
    middle = nodes[20:22].mean()
    narrow = hx.kernels.HarmonizableMixture([[middle]], [[1e-4]], [[1.0]], [[[0.5]]], [[[1.0]]])
    features = hx.features.FourierFrequencies([[[0.5]]])
    assert np.max(narrow.diag(nodes)) < 1e-12  # the nodes see nothing of it
    with pytest.raises(OutOfBandError):
        hx.collapsed_bound(narrow, features, 0.1, summary)


def test_a_kernel_that_does_not_state_its_band_is_refused():
    x = np.linspace(0, 1, 50)
    summary = hx.summarize(x, x, max_frequency=5.0)
    with pytest.raises(OutOfBandError, match="Matern does not say"):
        hx.collapsed_bound(hx.kernels.Matern(1.5, 1.0, 1.0), hx.features.InducingPoints([[0.5]]), 0.1, summary)


def test_under_jit_the_refusal_comes_at_run_time():
    kernel, features, X, y, band = problem(11, 1, "real")
    coarse = hx.summarize(X, y, max_frequency=band / 2)
    with jax.enable_x64(True), pytest.raises(Exception, match="OutOfBandError"):
        eqx.filter_jit(lambda k: hx.collapsed_bound(k, features, 0.1, coarse))(kernel).block_until_ready()


def test_an_optimiser_driven_to_the_edge_is_stopped_there():
    """The signal lies above the band: the optimiser wants frequencies that the summary cannot carry."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 600))
    y = np.cos(2 * np.pi * 2.6 * x) + 0.1 * rng.normal(size=600)
    summary, exact = hx.summarize(x, y, max_frequency=3.0), hx.Summary.exact(x, y)

    def model(free):
        mu, w = free
        kernel = hx.kernels.HarmonizableMixture([[3.0]], [[4.0]], [[1.0]], mu.reshape(1, 1, 1), [[[1.0]]])
        return kernel, hx.features.FourierFrequencies((mu + w).reshape(1, -1, 1))

    offsets = np.linspace(-0.4, 0.4, 9)
    seen = []

    def objective(free):
        kernel, features = model((free[0], offsets))
        try:
            value = hx.collapsed_bound(kernel, features, 0.05, summary)
        except OutOfBandError:
            return 1e10
        seen.append((free[0], value, hx.collapsed_bound(kernel, features, 0.05, exact)))
        return -value

    minimize(objective, [1.9], method="Nelder-Mead", options={"maxfev": 60})
    reached, values, truths = map(np.array, zip(*seen, strict=True))
    assert reached.max() > 2.1  # it was driven up to the edge
    assert reached.max() < 3.0  # and not beyond
    np.testing.assert_allclose(values, truths, rtol=1e-8)  # never silently wrong


def test_free_coordinates_of_a_model_on_a_summary_come_back():
    kernel, features, *_ = problem(12, 1, "hermitian")
    with jax.enable_x64(True):
        again = from_free(to_free((kernel, features)))
    for ours, theirs in zip(jax.tree.leaves(again), jax.tree.leaves((kernel, features)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)

"""What `hx.fit` promises: it finds lines, says how it went, and takes real, complex, planar and compressed data."""

import os
import signal

import numpy as np
import pytest

import harmix as hx

QUICK = {"n_restarts": 2, "max_iterations": 80, "random_state": 0}


def gappy(n: int = 120, complex_data: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = np.sort(rng.uniform(0, 10, n))
    x = x[(x < 3.0) | (x > 3.8)]
    wave = np.exp(2j * np.pi * 1.3 * x)
    y = (wave if complex_data else wave.real) + 0.1 * rng.normal(size=len(x))
    return x, y


@pytest.fixture(scope="module")
def found() -> hx.FitResult:
    return hx.fit(gappy(), **QUICK)


def test_a_gap_is_filled_by_the_line_around_it(found: hx.FitResult) -> None:
    x = np.linspace(3.0, 3.8, 9)
    truth = np.cos(2 * np.pi * 1.3 * x)
    assert np.sqrt(np.mean((found.posterior.mean(x) - truth) ** 2)) < 0.15
    assert np.all(np.abs(found.posterior.mean(x) - truth) < 3 * np.sqrt(found.posterior.variance(x, noise=True)))


def test_every_restart_is_reported(found: hx.FitResult) -> None:
    assert len(found.restarts) == 2
    for restart in found.restarts:
        assert np.all(np.isfinite(restart.objective))
        assert np.isfinite(restart.withheld)
    assert found.bound == found.restarts[found.chosen].bound
    summary = hx.Summary.exact(*gappy())
    assert found.bound == pytest.approx(
        hx.collapsed_bound(found.kernel, found.features, found.noise_variance, summary), rel=1e-9
    )
    assert found.bound <= hx.log_marginal_likelihood(found.kernel, found.noise_variance, *gappy())


def test_the_same_seed_gives_the_same_fit(found: hx.FitResult) -> None:
    again = hx.fit(gappy(), **QUICK)
    assert np.all(again.posterior.mean([1.0, 3.5]) == found.posterior.mean([1.0, 3.5]))


def test_complex_data() -> None:
    result = hx.fit(gappy(complex_data=True), **QUICK, inference="map")
    x = np.linspace(3.0, 3.8, 9)
    assert not result.kernel.is_real
    assert np.sqrt(np.mean(np.abs(result.posterior.mean(x) - np.exp(2j * np.pi * 1.3 * x)) ** 2)) < 0.2


def test_two_dimensions() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (150, 2)) * [1.0, 10.0]
    y = np.sin(2 * X[:, 0]) + np.cos(0.3 * X[:, 1])
    posterior = hx.fit((X[:100], (y + 0.05 * rng.normal(size=150))[:100]), n_restarts=1, max_iterations=60).posterior
    assert np.sqrt(np.mean((posterior.mean(X[100:]) - y[100:]) ** 2)) < 0.25 * np.std(y)


def test_many_data_are_compressed_by_themselves() -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(0, 10, 6000)
    y = np.cos(2 * np.pi * 1.3 * x) + 0.3 * rng.normal(size=len(x))
    result = hx.fit((x, y), n_components=3, n_restarts=1, max_iterations=40)
    grid = np.linspace(0.5, 9.5, 50)
    assert np.sqrt(np.mean((result.posterior.mean(grid) - np.cos(2 * np.pi * 1.3 * grid)) ** 2)) < 0.05


def test_ctrl_c_keeps_the_best_so_far() -> None:
    def stop(restart: int, iteration: int, value: float) -> None:
        if iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    # Workers of pytest-xdist ignore the signal.
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = hx.fit(gappy(), n_components=1, n_restarts=1, max_iterations=300, callback=stop)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert result.message == "interrupted"
    assert not result.converged
    assert result.restarts[0].iterations < 50


@pytest.mark.parametrize(
    ("argument", "value"),
    [("n_components", 0), ("n_restarts", 1.5), ("inference", "vi"), ("max_frequency", -1.0), ("n_inducing", "many")],
)
def test_bad_arguments_are_named(argument: str, value: object) -> None:
    with pytest.raises(ValueError, match=argument):
        hx.fit(gappy(), **{argument: value})


def test_layouts_keep_to_the_budget_of_inducing_frequencies() -> None:
    rng = np.random.default_rng(5)
    x = np.sort(rng.uniform(0, 30, 300))
    y = np.cos(2 * np.pi * 0.8 * x) + np.cos(2 * np.pi * 2.1 * x) + 0.3 * x
    found = hx.fit((x, y - y.mean()), n_inducing=30, max_iterations=1)
    sizes = [int(r.name.split()[0]) for r in found.restarts]
    assert max(sizes) > min(sizes)
    P, M, _ = found.features.frequencies.shape
    assert P * M <= 30

"""Bounds and natural-gradient rounds beside GPflow, GPyTorch and the GEMM floor: `python benchmarks/inference.py`.

* n = 1e5, 96 real features: one collapsed bound with its gradient, at most half of the fastest peer's time;
* n = 1e6: it completes in at most 1.5 GB;
* one natural-gradient-plus-Adam round, 400 points, 32 features: not slower than GPflow's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import peers
from timing import best_of, peak_memory

import harmix as hx
from harmix.features import make_basis
from harmix.inference.collapsed import collapse
from harmix.precision import in_float64


def bound(model: tuple, data: hx.Summary) -> jax.Array:
    """The collapsed bound on trusted arguments."""
    kernel, features, noise = model
    return collapse(make_basis(kernel, features), noise, data).bound


value_and_gradient = eqx.filter_jit(lambda model, data: eqx.filter_value_and_grad(bound)(model, data))


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A sine with noise on [0, 10]."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0, 10, n))
    return X, np.sin(6 * np.pi * X) + 0.1 * rng.normal(size=n)


@in_float64
def fourier_model() -> tuple:
    """6 components with 8 inducing frequencies each: 96 real features."""
    rng = np.random.default_rng(1)
    kernel = hx.kernels.HarmonizableMixture(
        np.linspace(0, 10, 6)[:, None], [[1.5]], [[1.0]], rng.uniform(1, 6, (6, 2, 1)), [[[1.0, 0.3], [0.3, 1.0]]]
    )
    return kernel, hx.features.FourierFrequencies(rng.uniform(0, 6, (6, 8, 1))), jnp.asarray(0.1)


@in_float64
def points_model() -> tuple:
    """What the peers compute: a squared exponential with 96 inducing points."""
    features = hx.features.InducingPoints(np.linspace(0, 10, 96)[:, None])
    return hx.kernels.SquaredExponential(1.0, 1.0), features, jnp.asarray(0.1)


@in_float64
def collapsed(n: int, repetitions: int) -> None:
    """Prints seconds and ratios of one bound with its gradient."""
    X, y = problem(n)
    data = hx.Summary.exact(X, y)
    compressed = hx.summarize(X, y, max_frequency=8.0, domain=(0, 10))
    A = jnp.asarray(np.random.default_rng(0).normal(size=(96, n)))
    gemm = jax.jit(lambda A: A @ A.T)
    ours = best_of(
        {
            "GEMM floor": lambda: gemm(A),
            "harmix, Fourier": in_float64(partial(value_and_gradient, fourier_model(), data)),
            "harmix, points": in_float64(partial(value_and_gradient, points_model(), data)),
            "harmix, Fourier, summary": in_float64(partial(value_and_gradient, fourier_model(), compressed)),
        },
        repetitions,
    )
    theirs = {peer: peers.seconds(peer, "sgpr", n, 96, repetitions) for peer in peers.ENVIRONMENTS}
    print(f"\ncollapsed bound and gradient, n = {n:.0e}, M = 96")
    fastest = min((t for t in theirs.values() if t is not None), default=float("nan"))
    for name, t in {**ours, **theirs}.items():
        if t is not None:
            print(f"  {name:26s} {1e3 * t:9.2f} ms   {t / ours['GEMM floor']:7.2f} x GEMM   {t / fastest:7.4f} x fastest peer")


@in_float64
def natural_round(rounds: int = 200) -> None:
    """Prints milliseconds of one natural-gradient-plus-Adam round."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(float)
    kernel = hx.kernels.HarmonizableMixture(
        rng.normal(size=(4, 2)), [[1.0, 1.0]], [[1.0, 1.0]], rng.normal(size=(4, 2, 2)), [[[1.0, 0.3], [0.3, 1.0]]]
    )
    fourier = hx.features.FourierFrequencies(rng.normal(size=(4, 4, 2)))
    points = hx.features.InducingPoints(rng.normal(size=(32, 2)))
    bernoulli = hx.likelihoods.Bernoulli()
    run = lambda k, u: hx.train_alternating(k, u, bernoulli, X, y, rounds=rounds).history
    times = best_of(
        {
            "harmix, HMK with Fourier": lambda: run(kernel, fourier),
            "harmix, SE with points": lambda: run(hx.kernels.SquaredExponential(1.0, 1.0), points),
        },
        repetitions=3,
    )
    theirs = peers.seconds("gpflow", "svgp", 400, 32, rounds)
    print("\nnatural-gradient and Adam round, 400 points, 32 features")
    for name, t in times.items():
        print(f"  {name:26s} {1e3 * t / rounds:7.3f} ms" + (f"   {t / rounds / theirs:5.2f} x GPflow" if theirs else ""))
    if theirs:
        print(f"  {'GPflow':26s} {1e3 * theirs:7.3f} ms")


def memory(n: int) -> None:
    """Peak memory of one bound with its gradient on raw data, in a fresh process."""
    command = [sys.executable, __file__, "--peak", str(n)]
    peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    print(f"\npeak memory of bound and gradient on raw data, n = {n:.0e}: {peak:.2f} GB")


@in_float64
def peak(n: int) -> None:
    """Prints the peak memory of this process after one bound with its gradient."""
    data = hx.Summary.exact(*problem(n))
    jax.block_until_ready(value_and_gradient(fourier_model(), data))
    print(peak_memory())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--peak", type=int)
    parser.add_argument("--n", type=float, nargs="*", default=[1e5, 1e6])
    arguments = parser.parse_args()
    if arguments.peak:
        peak(arguments.peak)
    else:
        for size in arguments.n:
            collapsed(int(size), 7 if size <= 1e5 else 3)
        memory(1_000_000)
        natural_round()

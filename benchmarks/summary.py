"""What summaries cost and save: `python benchmarks/summary.py [--largest 1e9] [--out DIR]`.

* one bound-plus-gradient step on a summary, n = 1e4 ... 1e8: the same time within 20 %;
* at n = 1e6, 96 real features: at least 500 times faster than GPflow's SGPR;
* the same step beside a busy process: at most 3 times slower;
* summarising: at least 1e7 points a second from memory, 1e8 points from Parquet in less than 1 GB;
* two dask worker processes and one process: equal to 1e-12, and a killed worker loses nothing;
* a gappy chirp of 1e8 points from Parquet, fitted end to end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import peers
from inference import fourier_model, problem, value_and_gradient
from timing import best_of, peak_memory

import harmix as hx
from harmix.precision import in_float64

BAND = dict(max_frequency=8.0, domain=(0.0, 10.0), tolerance=1e-9)


def stream(n: int, chunk: int = 1 << 22):
    """A sine with noise on [0, 10], in time order, in chunks."""
    for start in range(0, n, chunk):
        rng = np.random.default_rng(start)
        size = min(chunk, n - start)
        x = (start + np.sort(rng.uniform(0, size, size))) * (10.0 / n)
        yield x, np.sin(6 * np.pi * x) + 0.1 * rng.normal(size=size)


@in_float64
def steps(largest: float) -> dict:
    """One step on summaries of ever more data, and on the data themselves."""
    sizes = [10**e for e in range(4, int(np.log10(largest)) + 1)]
    summaries, passes = {}, {}
    for n in sizes:
        start = time.perf_counter()
        summaries[n] = hx.summarize(stream(n), **BAND)
        passes[n] = time.perf_counter() - start
    model = fourier_model()
    step = in_float64(lambda data: value_and_gradient(model, data))
    times = best_of({n: partial(step, s) for n, s in summaries.items()}, repetitions=50)
    print(f"\nbound and gradient on a summary ({summaries[sizes[0]].nodes.shape[0]} nodes), 96 real features")
    for n in sizes:
        print(
            f"  n = {n:.0e}   {1e3 * times[n]:7.2f} ms   {times[n] / times[sizes[0]]:5.2f} x n = 1e4   (data made and summarised in {passes[n]:.1f} s)"
        )
    direct = {}
    for n in (10**4, 10**5, 10**6):
        data = hx.Summary.exact(*problem(n))
        direct[n] = best_of({"": lambda: step(data)}, repetitions=3)[""]
    A = jnp.asarray(np.random.default_rng(0).normal(size=(96, 10**5)))
    gemm = jax.jit(lambda A: A @ A.T)
    floor = best_of({"": lambda: gemm(A)}, repetitions=15)[""]
    print(f"  GEMM floor at n = 1e5: {1e3 * floor:.2f} ms; a step on a summary of 1e5: {times[10**5] / floor:.2f} of it")
    theirs = {peer: {n: peers.seconds(peer, "sgpr", n, 96, 3) for n in (10**4, 10**5, 10**6)} for peer in peers.ENVIRONMENTS}
    for peer, t in theirs.items():
        if t[10**6] is not None:
            print(f"  {peer} at n = 1e6: {t[10**6]:.3f} s, {t[10**6] / times[10**6]:.0f} times a step on a summary")
    return {"summary": times, "direct": direct, **theirs}


def _spin(stop) -> None:
    while not stop.is_set():
        np.linalg.svd(np.random.default_rng(0).normal(size=(300, 300)))


@in_float64
def busy() -> None:
    """The same step with another process at work."""
    model, data = fourier_model(), hx.summarize(stream(10**5), **BAND)
    step = in_float64(lambda: value_and_gradient(model, data))
    median = lambda: float(np.median([best_of({"": step}, repetitions=1)[""] for _ in range(40)]))
    quiet = median()
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    other = context.Process(target=_spin, args=(stop,))
    other.start()
    time.sleep(3.0)
    loaded = median()
    stop.set()
    other.join()
    print(
        f"\nbeside a busy process: {1e3 * loaded:.2f} ms, alone {1e3 * quiet:.2f} ms (medians): {loaded / quiet:.2f} times slower"
    )


def throughput(n: int = 10**7) -> None:
    """Points a second from memory, against one `numpy.bincount` pass."""
    x, y = (np.concatenate(a) for a in zip(*stream(n), strict=True))
    cells = (x * 1000).astype(np.int64)
    times = best_of(
        {"summarize": lambda: hx.summarize(x, y, **BAND).count, "numpy.bincount": lambda: np.bincount(cells, y)}, repetitions=3
    )
    print(f"\nsummarising {n:.0e} points from memory: {n / times['summarize'] / 1e6:.1f} million a second,", end=" ")
    print(
        f"{times['summarize'] / times['numpy.bincount']:.1f} bincount passes ({n / times['numpy.bincount'] / 1e6:.0f} million a second)"
    )


def write_parquet(path: Path, chunks) -> None:
    """Columns `t` and `y`, a row group for each chunk."""
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([("t", pyarrow.float64()), ("y", pyarrow.float64())])
    with pyarrow.parquet.ParquetWriter(path, schema, compression="none") as writer:
        for x, y in chunks:
            writer.write_table(pyarrow.table({"t": x, "y": y}, schema=schema), row_group_size=1 << 20)


def parquet_memory(path: Path, n: int) -> None:
    """Time and peak memory of a pass over a Parquet file, in a fresh process."""
    command = [sys.executable, __file__, "--parquet", str(path)]
    seconds, base, peak = map(float, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-3:])
    print(
        f"\n{n:.0e} points from Parquet: {seconds:.1f} s ({n / seconds / 1e6:.1f} million a second), peak memory {peak:.2f} GB",
        end="",
    )
    print(f" (of which {base:.2f} GB before the pass)")


def parquet_pass(path: str) -> None:
    """Prints seconds, memory before and peak memory in GB."""
    hx.summarize([0.0, 1.0], [0.0, 1.0], **BAND)
    before = peak_memory()
    start = time.perf_counter()
    hx.summarize(path, "y", columns="t", **BAND)
    print(time.perf_counter() - start, before, peak_memory())


def dask_workers(path: Path) -> None:
    """Two worker processes against one process; then once more, with a worker killed halfway."""
    import dask.dataframe
    from distributed import Client, LocalCluster

    here = hx.summarize(path, "y", columns="t", **BAND)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        frame = dask.dataframe.read_parquet(path, split_row_groups=True)
        there = hx.summarize(frame, "y", columns=["t"], **BAND)
        difference = np.max(np.abs(np.asarray(here.b) - np.asarray(there.b))) / np.max(np.abs(np.asarray(here.b)))
        victim = (
            next(iter(client.scheduler_info()["workers"].values()))["pid"] if "pid" in str(client.scheduler_info()) else None
        )
        pids = list(client.run(__import__("os").getpid).values())
        killer = multiprocessing.get_context("spawn").Process(target=_kill_soon, args=(victim or pids[0],))
        killer.start()
        again = hx.summarize(frame, "y", columns=["t"], **BAND)
        killer.join()
        survivors = set(client.run(__import__("os").getpid).values())
        lost = np.max(np.abs(np.asarray(here.b) - np.asarray(again.b))) / np.max(np.abs(np.asarray(here.b)))
        killed = pids[0] not in survivors or (victim is not None and victim not in survivors)
    print(
        f"\ntwo dask workers against one process: relative difference {difference:.1e}; with a worker killed ({killed}): {lost:.1e}"
    )


def _kill_soon(pid: int) -> None:
    import os
    import signal

    time.sleep(0.3)
    os.kill(pid, signal.SIGKILL)


def chirp_stream(n: int, chunk: int = 1 << 22):
    """A gappy chirp, 1 to 4 cycles a second over 10 seconds, SNR 0 dB, 30 % missing."""
    for x, _ in stream(n, chunk):
        keep = ((x < 2.2) | (x > 3.2)) & ((x < 5.9) | (x > 7.1)) & ((x < 8.2) | (x > 9.0))
        x = x[keep]
        if len(x):
            yield x, np.cos(2 * np.pi * (x + 0.15 * x**2)) + np.random.default_rng(len(x)).normal(size=len(x)) * np.sqrt(0.5)


def end_to_end(path: Path, n: int) -> None:
    """Summary and `hx.fit` with its defaults, which know nothing of the chirp but how high its frequencies may be."""
    start = time.perf_counter()
    summary = hx.summarize(path, "y", columns="t", max_frequency=16.0, domain=(0.0, 10.0))
    summarised = time.perf_counter() - start
    found = hx.fit(summary, max_frequency=6.0)
    seconds = time.perf_counter() - start
    grid, frequencies = np.linspace(0.2, 9.8, 400), np.linspace(0.3, 6, 400)
    truth = np.cos(2 * np.pi * (grid + 0.15 * grid**2))
    rmse = np.sqrt(np.mean((found.posterior.mean(grid) - truth) ** 2))
    ridge = frequencies[np.argmax(found.posterior.spectrogram(grid, frequencies, 0.5).mean, axis=1)]
    error = np.abs(ridge - (1 + 0.3 * grid))
    print(
        f"\n{n:.0e}-point gappy chirp from Parquet: summarised in {summarised:.1f} s, fitted in all in {seconds:.1f} s", end=" "
    )
    print(f"({sum(r.iterations for r in found.restarts)} iterations of {len(found.restarts)} restarts, compilation included)")
    print(f"  noise variance {found.noise_variance:.4f} (true 0.5), signal RMSE {rmse:.4f}, gaps included")
    print(
        f"  instantaneous frequency: median error {np.median(error):.3f}, 90 % below {np.quantile(error, 0.9):.3f} cycles per unit"
    )
    for x in (1.0, 3.0, 5.0, 7.0, 9.0):
        print(f"    at {x:.0f}: {ridge[np.argmin(np.abs(grid - x))]:.2f} (true {1 + 0.3 * x:.2f})")


def picture(times: dict, out: Path) -> None:
    """Time of a step against n, all methods."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for (name, t), marker in zip(times.items(), "osv^", strict=False):
        found = {n: s for n, s in t.items() if s is not None}
        if found:
            ax.loglog(
                list(found),
                list(found.values()),
                marker=marker,
                label={"summary": "harmix, summary", "direct": "harmix, raw data"}.get(name, name),
            )
    ax.set(
        xlabel="number of data",
        ylabel="seconds for one bound and gradient",
        title="Training cost does not grow with the data (96 features)",
    )
    ax.legend(frameon=False)
    ax.grid(alpha=0.3)
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "summary.png", dpi=130)
    (out / "summary.json").write_text(json.dumps(times, indent=2))
    print(f"\npicture: {(out / 'summary.png').resolve()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest", type=float, default=1e8)
    parser.add_argument("--out", type=Path, default=Path("outputs/benchmarks"))
    parser.add_argument("--parquet")
    arguments = parser.parse_args()
    if arguments.parquet:
        parquet_pass(arguments.parquet)
        sys.exit()
    busy()
    throughput()
    with tempfile.TemporaryDirectory() as folder:
        n = int(arguments.largest)
        path = Path(folder) / "data.parquet"
        write_parquet(path, stream(n))
        parquet_memory(path, n)
        write_parquet(path, stream(10**7))
        dask_workers(path)
        write_parquet(path, chirp_stream(n))
        end_to_end(path, n)
    picture(steps(arguments.largest), arguments.out)

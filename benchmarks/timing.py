"""Timing for the benchmarks: the best of several interleaved repetitions, since the machines are shared."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import jax


def best_of(functions: dict[str, Callable[[], object]], repetitions: int = 7) -> dict[str, float]:
    """Seconds of each function: all are run in turn, so that a busy moment hits them alike, and the fastest run counts."""
    for fn in functions.values():
        jax.block_until_ready(fn())  # compile, touch memory
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(repetitions):
        for name, fn in functions.items():
            start = time.perf_counter()
            jax.block_until_ready(fn())
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_memory() -> float:
    """Peak memory of this process in GB (Linux; `getrusage` would count that of the process it was forked from)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e6

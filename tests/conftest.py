"""What holds for every test: array shapes are checked at run time, and nothing is random from run to run."""

import os

# Tests run on as many processes as there are cores: threads of each for small eigenproblems would only wait
# for the others. Read when NumPy is loaded, so it comes first.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Nearly all the time goes into compiling small programs, each of them run a few times: without LLVM's optimisations that
# takes 40 % less. What XLA itself makes of a program (fusions, layouts, order of operations) stays.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import gc
from pathlib import Path

import hypothesis
import jax
import jaxtyping

# Before anything imports harmix: every annotated function and dataclass of it then checks its shapes and
# types.
jaxtyping.install_import_hook("harmix", "beartype.beartype")

hypothesis.settings.register_profile("harmix", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("harmix")


# Every compiled program keeps some hundred memory mappings, and Linux grants a process 65530: the thousandth test would end in
# a segmentation fault inside the compiler.
_MOST_MAPPINGS, _EVERY = 25_000, 10
_finished = 0


def pytest_runtest_teardown(item, nextitem):
    """Forgets compiled programs before there are too many."""
    global _finished
    _finished += 1
    maps = Path("/proc/self/maps")
    if _finished % _EVERY == 0 and maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()

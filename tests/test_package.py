"""Importing harmix is cheap and leaves the process as it was; its annotations are checked while tests run."""

import json
import subprocess
import sys
import time

import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import harmix as hx
from harmix.linalg import quadratic

# What only some of the users need comes when they ask for it.
LAZY = ["matplotlib", "scipy.optimize", "pandas", "sklearn", "typer", "xarray", "pyarrow", "rich"]


def fresh_process(code):
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_importing_harmix_changes_no_setting_of_jax():
    changed = fresh_process(
        "import jax, json; before = {k: repr(v) for k, v in jax.config.values.items()};"
        "import harmix; after = {k: repr(v) for k, v in jax.config.values.items()};"
        "print(json.dumps(sorted(k for k in before | after if before.get(k) != after.get(k))))"
    )
    assert json.loads(changed) == []


def test_importing_harmix_imports_nothing_that_only_some_need():
    loaded = fresh_process(f"import harmix, json, sys; print(json.dumps([m for m in {LAZY} if m in sys.modules]))")
    assert json.loads(loaded) == []


def seconds(code):
    start = time.perf_counter()
    fresh_process(code)
    return time.perf_counter() - start


def test_importing_harmix_takes_little_longer_than_importing_jax_and_equinox():
    # The shortest of several, interleaved: whatever else the machine does can only lengthen them.
    pairs = [(seconds("import harmix"), seconds("import jax, equinox")) for _ in range(4)]
    ours, theirs = np.min(pairs, axis=0)
    assert ours <= 1.3 * theirs


def test_shape_annotations_are_checked_in_these_tests():
    with pytest.raises(jaxtyping.TypeCheckError, match="quadratic"):
        quadratic(jnp.ones((2, 2)), 3.0)
    with pytest.raises(jaxtyping.TypeCheckError, match="gram"):
        hx.kernels.SquaredExponential(1.0, 1.0).gram(jnp.ones((3, 2)), jnp.ones((3, 1)))


def test_the_version_is_stated():
    assert hx.__version__.count(".") == 2

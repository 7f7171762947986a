"""Bad input is refused with the name of the argument and the value that arrived."""

import json
import subprocess
import sys

import pytest
import refusals


@pytest.fixture(scope="module")
def outcomes():
    """What a person sees, in a process without the run-time type checker."""
    run = subprocess.run([sys.executable, "-W", "error", refusals.__file__], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.xdist_group("refusals")
@pytest.mark.parametrize("name", refusals.REFUSALS)
def test_bad_input_is_refused_by_name_and_value(outcomes, name):
    kind, message = outcomes[name]
    assert kind in ("ValueError", "TypeError"), f"{kind}: {message}"
    missing = [word for word in refusals.REFUSALS[name][1] if word not in message]
    assert not missing, f"{missing} not in: {message}"
    assert len(message) < 500

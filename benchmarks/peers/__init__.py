"""Peers, each in an environment of its own (`make bench` builds them): their times, measured in the same run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ENVIRONMENTS = {
    "gpflow": Path(os.environ.get("HARMIX_GPFLOW_PYTHON", HERE.parent.parent / ".venv-gpflow/bin/python")),
    "gpytorch": Path(os.environ.get("HARMIX_GPYTORCH_PYTHON", HERE.parent.parent / ".venv-gpytorch/bin/python")),
}


def seconds(peer: str, what: str, *numbers: int) -> float | None:
    """What a peer measured, or None where its environment is not there."""
    python = ENVIRONMENTS[peer]
    if not python.exists():
        return None
    command = [str(python), str(HERE / f"{peer}_peer.py"), what, *map(str, numbers)]
    # TMPDIR apart, a peer sees nothing of harmix's environment.
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{peer} failed: {result.stderr[-2000:]}")
    return float(json.loads(result.stdout.strip().splitlines()[-1]))

"""A mistake costs a person one line that names the file, column or option and says what to do, and exit code 2."""

import os
import sys

import pytest
from bad_inputs import BAD, NEED_A_USER

from harmix import cli

NOBODY = 65534


@pytest.fixture
def run(monkeypatch, capfd):
    """The command in this process: its exit code, standard output and lines of the error stream."""

    def call(arguments, as_nobody=False):
        monkeypatch.setattr(sys, "argv", ["harmix", *arguments])
        if as_nobody:
            os.seteuid(NOBODY)
        try:
            with pytest.raises(SystemExit) as stop:
                cli.main()
        finally:
            if as_nobody:
                os.seteuid(0)
        captured = capfd.readouterr()
        return stop.value.code, captured.out, captured.err.splitlines()

    return call


def test_there_are_enough_of_them():
    assert len(BAD) >= 40


@pytest.mark.parametrize("name", BAD)
def test_a_bad_input_costs_one_line_that_says_what_to_do(name, run, tmp_path, monkeypatch):
    import harmix.cli.work  # noqa: F401  (nobody may not read it)

    make, *words = BAD[name]
    monkeypatch.chdir(tmp_path)
    as_nobody = name in NEED_A_USER and os.geteuid() == 0
    if as_nobody:  # to reach the file, though not to read it
        for directory in (tmp_path, *tmp_path.parents[:3]):
            directory.chmod(0o755)
    try:
        code, out, lines = run(make(tmp_path), as_nobody)
    finally:
        tmp_path.chmod(0o755)
    assert code == 2, lines
    assert out == ""
    assert len(lines) == 1, lines
    assert lines[0].startswith("harmix: ")
    for word in words:
        assert word in lines[0], lines[0]
    assert len(lines[0]) < 600
    assert not (tmp_path / "m").exists() or not any((tmp_path / "m").iterdir())  # nothing half done is left behind


def test_it_is_so_in_a_process_of_its_own(tmp_path):
    import subprocess

    make, *words = BAD["dates and numbers"]
    call = [sys.executable, "-m", "harmix.cli", *make(tmp_path)]
    path = os.pathsep.join([os.path.dirname(os.path.dirname(os.path.dirname(cli.__file__)))])
    result = subprocess.run(call, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert all(word in line for word in words)

"""The command line promises: it answers at once, says where the pictures are, and fails with one line."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import harmix
from harmix import cli
from harmix.experiments import EXPERIMENTS

SOURCE = str(Path(harmix.__file__).resolve().parents[1])


def harmix_command(*arguments, code=None, **environment):
    """Runs the command as a person would, in a process of its own."""
    call = ["-c", code] if code else ["-m", "harmix.cli", *arguments]
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, *call],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path, "NO_COLOR": "1", "COLUMNS": "100", **environment},
    )


def seconds(code):
    def once():
        started = time.perf_counter()
        assert harmix_command(code=code).returncode == 0
        return time.perf_counter() - started

    return min(once() for _ in range(3))


def test_help_imports_nothing_heavy():
    code = """
import sys
sys.argv = ["harmix", "--help"]
from harmix.cli import main
try:
    main()
except SystemExit as stop:
    assert stop.code == 0, stop.code
heavy = {"jax", "equinox", "matplotlib", "numpy", "scipy", "pandas", "sklearn", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""
    result = harmix_command(code=code)
    assert result.returncode == 0, result.stderr


def test_help_answers_at_once():
    # Half a second on an idle machine; on a busy one, what Typer alone takes there is the measure.
    alone = seconds("import typer.rich_utils, rich.table")
    assert seconds("import sys; sys.argv = ['harmix', '--help']; from harmix.cli import main; main()") < max(0.5, 4 * alone)


@pytest.mark.parametrize("command", [[], ["fit"], ["predict"], ["report"], ["demo"], ["reproduce"], ["info"]])
def test_every_command_has_help_with_examples(command):
    result = CliRunner().invoke(cli.app, [*command, "--help"])
    assert result.exit_code == 0
    assert f"harmix {' '.join(command) or 'demo'}" in result.output
    if command:
        assert "Examples" in result.output


def test_without_arguments_it_shows_the_help():
    result = harmix_command()
    assert result.returncode == 0
    assert "Commands" in result.stdout


def test_version():
    result = CliRunner().invoke(cli.app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"harmix {harmix.__version__}\n")


def test_info_as_json_names_versions_and_data_directories(monkeypatch, tmp_path):
    (tmp_path / "banana.csv").touch()
    monkeypatch.setenv("HARMIX_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    result = CliRunner().invoke(cli.app, ["info", "--json"])
    assert result.exit_code == 0
    facts = json.loads(result.output)
    import equinox
    import jax
    import numpy

    assert {n: facts[n] for n in ("harmix", "jax", "equinox", "numpy")} == {
        "harmix": harmix.__version__,
        "jax": jax.__version__,
        "equinox": equinox.__version__,
        "numpy": numpy.__version__,
    }
    assert facts["python"] == sys.version.split()[0]
    assert facts["data_directories"] == [
        {"path": str(tmp_path), "exists": True, "data_sets": ["banana.csv"]},
        {"path": str(tmp_path / "cache" / "harmix"), "exists": False, "data_sets": []},
    ]


def test_info_for_people(monkeypatch, tmp_path):
    monkeypatch.setenv("HARMIX_DATA", str(tmp_path))
    result = CliRunner().invoke(cli.app, ["info"])
    assert result.exit_code == 0
    assert f"{tmp_path}  (holds no data sets)" in result.output


def test_demo_says_where_picture_and_report_are(monkeypatch, tmp_path):
    from harmix.experiments import demo

    calls = []

    def run(out, *, seed):
        calls.append((out, seed))
        return {"pictures": ["demo.png"], "report": "report.html"}

    monkeypatch.setattr(demo, "run", run)
    result = CliRunner().invoke(cli.app, ["demo", "--out", str(tmp_path / "[demo]"), "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert calls == [(tmp_path / "[demo]", 3)]
    paths = [line.split(maxsplit=1) for line in result.output.splitlines()]
    assert paths == [["picture", str(tmp_path / "[demo]" / "demo.png")], ["report", str(tmp_path / "[demo]" / "report.html")]]


def test_reproduce_runs_an_experiment_or_all_of_them(monkeypatch, tmp_path):
    import importlib

    calls = []

    def run(out, *, seed):
        calls.append((out, seed))
        return {"pictures": ["a.png"], "table": ["| a | b |"]}

    for name in EXPERIMENTS:
        monkeypatch.setattr(importlib.import_module(f"harmix.experiments.{name}"), "run", run)
    result = CliRunner().invoke(cli.app, ["reproduce", "figure1", "--out", str(tmp_path), "--seed", "3"])
    assert result.exit_code == 0, result.output
    assert calls == [(tmp_path, 3)]
    assert str(tmp_path / "a.png") in result.output
    assert str(tmp_path / "figure1.json") in result.output
    assert "| a | b |" in result.output
    calls.clear()
    assert CliRunner().invoke(cli.app, ["reproduce", "all", "--out", str(tmp_path)]).exit_code == 0
    assert calls == [(tmp_path / name, 0) for name in EXPERIMENTS]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce", "figure9"], "there is no experiment 'figure9'; choose from figure1"),
        (["reproduce"], "Missing argument 'EXPERIMENT'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--frob"], "--frob"),
        (["demo", "--out", __file__], "choose another one with --out"),
    ],
)
def test_a_mistake_costs_one_line_and_exit_code_2(arguments, says):
    result = harmix_command(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("harmix: ")
    assert says in line


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    def broken(*args, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "app", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()


def test_an_interrupt_leaves_without_a_traceback(monkeypatch, capsys):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 130
    assert capsys.readouterr().err == "harmix: interrupted.\n"

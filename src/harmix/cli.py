"""The `harmix` command.

Nothing heavy is imported up here: JAX and Matplotlib load inside the commands that compute, so that `harmix
--help` answers at once. Whatever a person can mend ends with one line on the error stream and exit code 2.
"""

from __future__ import annotations

import json
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from harmix.experiments import EXPERIMENTS

app = typer.Typer(
    name="harmix",
    help="Gaussian processes for signals whose frequencies change: harmonizable mixture kernels.",
    epilog="Start with:  harmix demo",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _examples(*lines: str) -> str:
    """An epilog of examples; rich joins lines that are not set apart by an empty one."""
    return "\n\n".join(["[bold]Examples[/bold]", *lines])


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"harmix {_version('harmix')}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options that belong to no command; the help text stands in `app`."""


@app.command(
    epilog=_examples("harmix demo", "harmix demo --out /tmp/chirp", "harmix demo --seed 7      another signal"),
)
def demo(
    out: Annotated[Path, typer.Option(help="Directory for the picture; made if need be.")] = Path("outputs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Which random signal.")] = 0,
) -> None:
    """Make a chirp with gaps, and draw it, a kernel for it and the kernel's Wigner distribution."""
    with _working("drawing a chirp, a kernel and its Wigner distribution"):
        from harmix.experiments.demo import run

        result = run(out, seed=seed)
    _say_pictures(out, result)


@app.command(
    epilog=_examples("harmix reproduce figure1", "harmix reproduce recovery --out results", "harmix reproduce all"),
)
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="One of: " + "; ".join(f"{n} ({t})" for n, t in EXPERIMENTS.items()) + "; all.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Directory for pictures and figures.", show_default="outputs/EXPERIMENT"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything random.")] = 0,
) -> None:
    """Repeat an experiment of the paper: pictures, and a JSON file of the figures behind them."""
    if experiment not in (*EXPERIMENTS, "all"):
        known = ", ".join((*EXPERIMENTS, "all"))
        raise typer.BadParameter(f"there is no experiment {experiment!r}; choose from {known}.", param_hint="EXPERIMENT")
    for name in EXPERIMENTS if experiment == "all" else [experiment]:
        # With `all`, --out holds one directory for each experiment.
        directory = Path("outputs") / name if out is None else out / name if experiment == "all" else out
        with _working(f"computing {name}"):
            import importlib

            result = importlib.import_module(f"harmix.experiments.{name}").run(directory, seed=seed)
        _say_pictures(directory, result)
        _say("figures", (directory / f"{name}.json").resolve())
        if "table" in result:
            typer.echo("\n" + "\n".join(result["table"]))


@app.command(epilog=_examples("harmix info", "harmix info --json > report.json      to attach to a bug report"))
def info(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Say which versions run here, on what, and where data sets are looked for."""
    from harmix.datasets import data_directories

    facts: dict[str, Any] = {
        "harmix": _version("harmix"),
        **{name: _version(name) for name in ("jax", "equinox", "numpy")},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "data_directories": [
            {
                "path": str(directory),
                "exists": directory.is_dir(),
                "data_sets": [f.name for f in sorted(directory.glob("*.csv"))] if directory.is_dir() else [],
            }
            for directory in data_directories()
        ],
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        if name != "data_directories":
            _say(name, value)
    for place in facts["data_directories"]:
        found = ", ".join(place["data_sets"]) or ("holds no data sets" if place["exists"] else "does not exist")
        _say("data sets", f"{place['path']}  ({found})")


def main() -> None:
    """The console script: runs the command; what a person can mend becomes one line and exit code 2."""
    try:
        # Not standalone: Typer would print three lines of usage around each error.
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted.", code=130)
    except (OSError, ValueError) as error:
        _fail(str(error))
    except Exception as error:
        # Typer's usage errors; it has moved their class, but each of them can say what it is.
        if not hasattr(error, "format_message"):
            raise
        command = getattr(getattr(error, "ctx", None), "command_path", "harmix")
        _fail(f"{error.format_message().rstrip('.')}. Try: {command} --help")
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int = 2) -> None:
    print(f"harmix: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # harmix run from its source directory
        if package != "harmix":
            return "not installed"
        import harmix

        return harmix.__version__


def _working(what: str) -> Any:
    """A spinner on a terminal, nothing in a pipe."""
    from rich.console import Console

    return Console(stderr=True).status(f"{what} ...")


def _say(name: str, value: Any) -> None:
    # Not by rich, which would break a long path into two lines or colour parts of it.
    typer.echo(f"{name:<10} {value}")


def _say_pictures(out: Path, result: dict[str, Any]) -> None:
    for name in result["pictures"]:
        _say("picture", (out / name).resolve())


if __name__ == "__main__":
    main()

"""The `harmix` command: what it offers, and how it fails.

Nothing heavy is imported up here: JAX and Matplotlib load inside the commands that compute, so that `harmix
--help` answers at once. Whatever a person can mend ends with one line on the error stream and exit code 2.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from harmix.experiments import EXPERIMENTS

# What messages on the error stream begin with.
NAME = "harmix"

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
    epilog=_examples(
        "harmix fit tides.csv",
        "harmix fit solar_irradiance.csv --x year --y 11yrCYCLE --out solar/",
        "zcat log.csv.gz | harmix fit - --x time --y voltage --max-frequency 2 --json",
    ),
)
def fit(
    data: Annotated[str, typer.Argument(metavar="DATA", help="CSV, TSV or Parquet file; - for standard input.")],
    x: Annotated[
        list[str] | None, typer.Option(help="Input column; give it again for several.", show_default="the first of two")
    ] = None,
    y: Annotated[str | None, typer.Option(help="Column to learn.", show_default="the second of two")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory for model and report.", show_default="outputs/NAME")] = None,
    n_components: Annotated[str, typer.Option(help="Windows along the record: a number, or auto.")] = "auto",
    n_frequencies: Annotated[int, typer.Option(min=1, max=50, help="Oscillations at a time, at most.")] = 3,
    n_inducing: Annotated[str, typer.Option(help="Inducing frequencies, in all: a number, or auto.")] = "auto",
    max_frequency: Annotated[
        str, typer.Option(help="Highest frequency to look for, in cycles per unit of x; or auto.")
    ] = "auto",
    inference: Annotated[
        str, typer.Option(help="map, ensemble, nuts, or auto: how uncertainty of the kernel counts.")
    ] = "auto",
    restarts: Annotated[int, typer.Option(min=1, max=1000, help="How many starts of learning.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Of everything random.")] = 0,
    holdout: Annotated[float, typer.Option(help="Fraction held out from learning, to check it; it is added afterwards.")] = 0.2,
    time_unit: Annotated[
        str | None, typer.Option(help="Unit that dates are told in: year, day, hour, ...", show_default="what fits")
    ] = None,
    report: Annotated[bool, typer.Option(help="Whether to write one.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON, for programs.")] = False,
) -> None:
    """Learn a model from a table: when it has which frequencies, and forecasts with error bars."""
    settings = {
        "n_components": _whole("--n-components", n_components),
        "n_frequencies": n_frequencies,
        "n_inducing": _whole("--n-inducing", n_inducing),
        "max_frequency": _positive("--max-frequency", max_frequency),
        "n_restarts": restarts,
        "inference": _one_of("--inference", inference, ("auto", "map", "ensemble", "nuts")),
        "random_state": seed,
        "verbose": 1,
    }
    if not 0 <= holdout <= 0.5:  # NaN as well
        raise typer.BadParameter(f"give a fraction from 0 to 0.5, got {holdout}.", param_hint="--holdout")
    if time_unit is not None:
        time_unit = _one_of("--time-unit", time_unit, ("year", "day", "hour", "minute", "second", "millisecond", "microsecond"))
    name = "stdin" if data == "-" else Path(data).name.split(".")[0] or "model"
    where = Path("outputs") / name if out is None else out
    with _quiet():
        from harmix.cli.work import run_fit

        result = run_fit(
            data, where, x=x or (), y=y, settings=settings, holdout=holdout, report=report, time_unit=time_unit, say=_note
        )
    if as_json:
        typer.echo(json.dumps(result, indent=2, allow_nan=False))
        return
    for part in result["components"]:
        _say(f"{part['share']:>6.1%}", part["words"])
    if checked := result["held_out"]:
        _say(
            "held out",
            f"RMSE {checked['rmse']:.4g} (spread {checked['spread']:.4g}); "
            f"{checked['coverage']:.0%} of {checked['count']:,} in the 90% band",
        )
    _say("model", result["model"])
    if result["report"]:
        _say("report", result["report"])


@app.command(
    epilog=_examples(
        "harmix predict solar/ years.csv > forecast.csv",
        "harmix predict solar/model.harmix years.csv --level 0.99 --out forecast.csv",
        "seq 1990 0.1 2010 | harmix predict solar/ - --json",
    ),
)
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Directory or file that harmix fit has written.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Places to predict at: CSV, TSV or Parquet; - for standard input.")
    ],
    out: Annotated[str, typer.Option(help="File; - for standard output.")] = "-",
    level: Annotated[float, typer.Option(help="Probability of the interval from lower to upper.")] = 0.9,
    signal: Annotated[
        bool, typer.Option("--signal", help="Errors of the signal itself, not of new, noisy observations.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON, one object a line, for programs.")] = False,
) -> None:
    """Print mean, standard deviation and interval at every row of a table, as CSV."""
    if not 0 < level < 1:
        raise typer.BadParameter(f"give a probability between 0 and 1, got {level}.", param_hint="--level")
    with _quiet():
        from harmix.cli.work import run_predict

        run_predict(model, data, out, level=level, signal=signal, as_json=as_json, say=_note)


@app.command(
    epilog=_examples("harmix report solar/", "harmix report solar/ solar_irradiance.csv --out solar.html"),
)
def report(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Directory or file that harmix fit has written.")],
    data: Annotated[str | None, typer.Argument(metavar="[DATA]", help="Data to show and to check residuals with.")] = None,
    out: Annotated[Path | None, typer.Option(help="The HTML file.", show_default="report.html beside the model")] = None,
) -> None:
    """Write the report of a model: one HTML file, complete in itself."""
    with _working("writing the report"):
        from harmix.cli.work import run_report

        path = run_report(model, data, out, say=_note)
    _say("report", path.resolve())


@app.command(
    epilog=_examples("harmix demo", "harmix demo --out /tmp/chirp", "harmix demo --seed 7      another signal"),
)
def demo(
    out: Annotated[Path, typer.Option(help="Directory for picture and report; made if need be.")] = Path("outputs/demo"),
    seed: Annotated[int, typer.Option(min=0, help="Which random signal.")] = 0,
) -> None:
    """Learn a chirp with gaps that harmix makes itself: its frequencies, error bars, and how near they come to the truth."""
    from harmix.experiments.demo import run

    result = run(out, seed=seed)
    _say_pictures(out, result)
    _say("report", (out / result["report"]).resolve())


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


def _whole(option: str, text: str) -> int | str:
    """A positive whole number, or "auto"."""
    if text == "auto":
        return text
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 10_000:
        raise typer.BadParameter(f"give a whole number from 1 to 10000, or auto, got {text!r}.", param_hint=option)
    return int(text)


def _positive(option: str, text: str) -> float | str:
    """A positive number, or "auto"."""
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e100:
        raise typer.BadParameter(f"give a positive number, or auto, got {text!r}.", param_hint=option)
    return value


def _one_of(option: str, text: str, known: tuple[str, ...]) -> str:
    if text not in known:
        raise typer.BadParameter(f"choose from {', '.join(known)}; got {text!r}.", param_hint=option)
    return text


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """While something computes: Ctrl-C and a closed pipe end it without a traceback."""
    try:
        yield
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit from None


def _note(text: str) -> None:
    """Something a person should know, beside the results."""
    print(f"{NAME}: {' '.join(text.split())}", file=sys.stderr)


def _fail(message: str, code: int = 2) -> None:
    _note(message)
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

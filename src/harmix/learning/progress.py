"""A progress bar for fits: which restart is how far, the best objective so far, the time left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Report = Callable[[int, int, float], None]


@contextlib.contextmanager
def reporting(
    progress: bool, starts: Sequence[Any], iterations: int, callback: Callable[[int, int, float], None] | None
) -> Iterator[Report]:
    """What restarts report to: `report(restart, iteration, objective)`. The bar vanishes when the fit is done, and is not drawn
    where the error stream is not a terminal.
    """
    best = float("-inf")

    def tell(which: int, iteration: int, value: float) -> None:
        if callback is not None:
            callback(which, iteration, value)

    if not progress:
        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[state]}"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"Fitting {len(starts)} starts", total=len(starts) * iterations, state="compiling")

        def report(which: int, iteration: int, value: float) -> None:
            nonlocal best
            best = max(best, value)
            bar.update(task, advance=1, state=f"best objective {best:.1f}")
            tell(which, iteration, value)

        yield report

"""What happens while a model learns: it is watched for the end, and a person may watch too."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeVar

# A restart has settled when so many iterations gain less than this many nats.
PATIENCE, GAIN = 15, 0.05


SETTLED = f"settled: {PATIENCE} iterations gained less than {GAIN} nats"

Restarts = TypeVar("Restarts", bound=tuple)


class Watch:
    """A context manager that is a callback of `harmix.fit` and `fit_classifier`: it ends restarts that have settled, and draws
    a bar on demand.

    Args:
        bar: whether to draw one, on standard error; nothing is drawn where that is not a terminal.
        n_restarts: how many restarts there will be.
        max_iterations: of one.
    """

    def __init__(self, bar: bool = False, n_restarts: int = 0, max_iterations: int = 0):
        self._seen: dict[int, list[float]] = defaultdict(list)
        self._last: dict[int, int] = defaultdict(int)
        self._settled: set[int] = set()
        self._bar: Any = None
        if bar:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[objective]}"), TimeElapsedColumn()
            console = Console(stderr=True)
            self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
            self._tasks = [self._bar.add_task(f"start {i + 1}", total=max_iterations, objective="") for i in range(n_restarts)]

    def __enter__(self) -> Watch:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, restart: int, iteration: int, objective: float) -> None:
        if self._bar is not None:
            self._bar.update(self._tasks[restart], completed=iteration, objective=f"{objective:.1f}")
        seen = self._seen[restart]
        if iteration <= self._last[restart]:
            seen.clear()  # counted anew: what is climbed has become something else
        self._last[restart] = iteration
        seen.append(objective)
        if len(seen) > PATIENCE and seen[-1] - seen[-1 - PATIENCE] < GAIN:
            self._settled.add(restart)
            raise StopIteration
        self._settled.discard(restart)

    def named(self, restarts: Restarts) -> Restarts:
        """The histories of restarts, with those that were ended here as converged."""
        end = lambda r: r._replace(converged=True, message=SETTLED)
        ended = (i in self._settled and not r.message.startswith("dropped") for i, r in enumerate(restarts))
        return tuple(end(r) if e else r for e, r in zip(ended, restarts, strict=True))  # type: ignore[return-value]

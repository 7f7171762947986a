"""One pass over the data, wherever they are: arrays, chunks, pandas, Parquet, dask."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harmix.arguments import show
from harmix.precision import in_float64
from harmix.summary.core import Summary, merge, on_grid
from harmix.summary.grid import Grid, interpolation_error, make_grid, moments

# Rows handled at a time: a few tens of megabytes in work for two threads.
_CHUNK = 1 << 18
_THREADS = 2
# Rows of each chunk on which the interpolation is checked.
_CHECKED = 64


class Partial(NamedTuple):
    """What one chunk contributes; contributions add."""

    panels: np.ndarray  # (K, D)
    moments: np.ndarray  # (K, p^D, 2), or 3 columns for complex observations: of v, v Re y, v Im y
    sums: np.ndarray  # n, sum v |y|^2, sum log v
    error: float


@in_float64
def summarize(
    X: Any,
    y: Any = None,
    *,
    max_frequency: Any,
    domain: tuple[Any, Any] | None = None,
    tolerance: float = 1e-9,
    weights: Any = None,
    columns: str | Sequence[str] | None = None,
    progress: bool = False,
) -> Summary:
    """Compresses data into a `Summary` in one pass: whatever is fitted to it costs the same for 1e4 and for 1e9 of them.

    `sum_n v_n F(x_n) ~= sum_g a_g F(t_g)`, `sum_n v_n F(x_n) y_n ~= sum_g b_g F(t_g)` for every F made of products of two
    functions of frequency up to `max_frequency`.

    Args:
        X: `(n, D)` or `(n,)` array (NumPy, JAX, dask); or a pandas or dask data frame; or the path of a Parquet file or folder;
            or an iterable of chunks `(X, y)` or `(X, y, weights)`, which need not fit in memory together.
        y: `(n,)` observations, real or complex; for data frames and Parquet the name of their column; for chunks nothing.
        max_frequency: highest frequency of the signal, in cycles per unit of X, one or D numbers. What a kernel needs is
            checked against this when it is used.
        domain: `(lo, hi)`, numbers or `(D,)`: the grid is fitted to it and data outside are refused. Without it the grid is an
            unbounded lattice, and summaries made at different times add.
        tolerance: relative accuracy.
        weights: `(n,)` positive, or a column: the noise variance of observation n is `noise_variance / weights_n`.
        columns: for data frames and Parquet, the input columns.
        progress: show a progress bar.

    Example:
        >>> import harmix as hx, numpy as np
        >>> x = np.linspace(0, 10, 5000)
        >>> s = hx.summarize(x, np.sin(x), max_frequency=1.0)
        >>> float(s.count), s.nodes.shape[0] < 500
        (5000.0, True)
    """
    grid_for = _grid_maker(max_frequency, tolerance, domain)
    if _is_dask(X):
        from harmix.summary.distributed import summarize_dask

        return finish(*summarize_dask(X, y, weights, columns, grid_for))
    chunks, total = _chunks(X, y, weights, columns)
    if progress:
        chunks = _with_progress(chunks, total)
    chunks = iter(chunks)
    first = next(chunks, None)
    if first is None:
        raise ValueError("there are no data to summarise: X is empty.")
    grid = grid_for(first[0].shape[1])
    bounds = None if domain is None else tuple(np.broadcast_to(np.asarray(v, float), (grid.ndim,)) for v in domain)
    work = lambda chunk: contribution(grid, bounds, *chunk)
    return finish(grid, combine(_in_threads(work, itertools.chain([first], chunks))))


def contribution(
    grid: Grid, bounds: tuple[np.ndarray, ...] | None, X: np.ndarray, y: np.ndarray, v: np.ndarray | None
) -> Partial:
    """What one chunk adds; the chunk is checked here, where its rows are in cache."""
    if X.shape[1] != grid.ndim:
        raise ValueError(f"X changes from {grid.ndim} to {X.shape[1]} dimensions between chunks.")
    for name, values in (("X", X), ("y", y)) + ((("weights", v),) if v is not None else ()):
        if len(values) != len(X) or (name != "X" and values.ndim != 1):
            raise ValueError(f"{name} must have one value for each of the {len(X)} rows of X, got shape {values.shape}.")
        if not np.all(np.isfinite(values)):
            row = int(np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[0])
            raise ValueError(f"{name} must be finite, got {values[row]} in row {row} of a chunk; remove such rows first.")
    if v is not None and np.min(v) <= 0:
        raise ValueError(f"weights must be positive, got {np.min(v)}; leave out observations of no weight.")
    if bounds is not None and (np.any(bounds[0] > X) or np.any(bounds[1] < X)):
        worst = X[np.flatnonzero(np.any((bounds[0] > X) | (bounds[1] < X), axis=1))[0]]
        raise ValueError(f"X has points outside domain {bounds[0]} to {bounds[1]}, such as {worst}; enlarge domain.")
    parts = [y.real, y.imag] if np.iscomplexobj(y) else [y]
    weighted = parts if v is None else [v * part for part in parts]
    # Kept by column: each is read on its own.
    panels, total = moments(grid, X, np.stack([np.ones(len(X)) if v is None else v, *weighted]).T)
    squares = sum(float(np.sum(w * part)) for w, part in zip(weighted, parts, strict=True))
    sums = np.array([len(X), squares, 0.0 if v is None else float(np.sum(np.log(v)))])
    checked = X[:: max(1, len(X) // _CHECKED)]
    return Partial(panels, total, sums, interpolation_error(grid, checked))


def combine(partials: Iterable[Partial]) -> Partial:
    """Contributions added up, in order."""
    # Pairwise merging of equal counts would be a tree; a running total keeps memory flat, and rounding is far below tolerance.
    total: Partial | None = None
    for part in partials:
        if total is None:
            total = part
            continue
        width = max(total.moments.shape[2], part.moments.shape[2])
        values = tuple(np.pad(m, ((0, 0), (0, 0), (0, width - m.shape[2]))) for m in (total.moments, part.moments))
        panels, added = merge((total.panels, part.panels), values)
        total = Partial(panels, added, total.sums + part.sums, max(total.error, part.error))
    assert total is not None
    return total


def finish(grid: Grid, total: Partial) -> Summary:
    """The summary, unless the interpolation turned out worse than promised."""
    # Far from the origin of the lattice a position itself is rounded; nothing else should miss the tolerance.
    if total.error > grid.tolerance:
        raise ValueError(
            f"the data cannot be summarised to tolerance {grid.tolerance:g} (measured error {total.error:.1e}): X is so far from 0 "
            "in units of 1 / max_frequency that positions are rounded. Subtract an offset from X or give a domain."
        )
    weights = grid.node_weights(total.moments)
    b = weights[:, 1] if weights.shape[1] == 2 else weights[:, 1] + 1j * weights[:, 2]
    return on_grid(grid, total.panels, weights[:, 0], b, tuple(total.sums), total.error)


# --- arguments ---------------------------------------------------------------------------------------------------------


def _grid_maker(max_frequency: Any, tolerance: Any, domain: Any) -> Callable[[int], Grid]:
    frequency = np.asarray(max_frequency, dtype=float)
    if frequency.ndim > 1 or not np.all(np.isfinite(frequency)) or not np.all(frequency > 0):
        raise ValueError(f"max_frequency must be positive, one or D numbers, got {show(max_frequency)}.")
    if not isinstance(tolerance, int | float) or not 0 < tolerance < 0.1:
        raise ValueError(f"tolerance must be between 0 and 0.1, got {tolerance!r}.")

    def make(D: int) -> Grid:
        if frequency.ndim == 1 and len(frequency) != D:
            raise ValueError(f"max_frequency has {len(frequency)} values, but X has {D} dimension(s).")
        f = np.broadcast_to(frequency, (D,))
        if domain is None:
            return make_grid(f, float(tolerance), np.zeros(D))
        lo, hi = (np.broadcast_to(np.asarray(v, dtype=float), (D,)) for v in domain)
        if not np.all(np.isfinite(lo)) or not np.all(np.isfinite(hi)) or not np.all(lo < hi):
            raise ValueError(f"domain must be (lo, hi) with lo < hi, got ({show(domain[0])}, {show(domain[1])}).")
        return make_grid(f, float(tolerance), lo, hi)

    return make


# --- sources -----------------------------------------------------------------------------------------------------------

Chunk = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def _is_dask(X: Any) -> bool:
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr")


def _chunks(X: Any, y: Any, weights: Any, columns: Any) -> tuple[Iterable[Chunk], int | None]:
    """The source as chunks of NumPy arrays, and how many rows it has if that is known."""
    if isinstance(X, str | Path):
        return _parquet(Path(X), y, weights, columns)
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return _frame_chunks(X, y, weights, columns), len(X)
    if y is None:
        if hasattr(X, "shape") or not isinstance(X, Iterable):
            raise TypeError("y is missing: give X and y, or an iterable of chunks (X, y).")
        return (_chunk(*part) for part in X), None
    arrays = _chunk(X, y, weights)
    n = len(arrays[0])
    if n == 0:
        return [], 0
    rows = (slice(start, start + _CHUNK) for start in range(0, n, _CHUNK))
    return (tuple(None if a is None else a[r] for a in arrays) for r in rows), n  # type: ignore[misc]


def _chunk(X: Any, y: Any, v: Any = None) -> Chunk:
    """Arrays of the right kind; values are checked later, chunk by chunk."""
    try:
        X = np.asarray(X, dtype=float)
        y = np.asarray(y)
        y = y if np.iscomplexobj(y) else np.asarray(y, dtype=float)
        v = None if v is None else np.asarray(v, dtype=float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"X, y and weights must be arrays of numbers: {error}") from None
    if X.ndim not in (1, 2):
        raise ValueError(f"X must have shape (n,) or (n, D), got {X.shape}.")
    if y.shape[:1] != X.shape[:1]:
        raise ValueError(f"y must have one value for each row of X, shape ({X.shape[0]},), got shape {y.shape}.")
    return X.reshape(len(X), -1 if X.size else X.ndim), y, v


def _columns(available: Sequence[str], y: Any, weights: Any, columns: Any) -> tuple[list[str], str, str | None]:
    """Input columns, target column and weight column, by name."""
    if not isinstance(y, str):
        raise TypeError(f"y must be the name of a column, one of {list(available)}, got {show(y)}.")
    if columns is None:
        columns = [c for c in available if c not in (y, weights)]
    inputs = [columns] if isinstance(columns, str) else list(columns)
    for name in (*inputs, y, *([] if weights is None else [weights])):
        if name not in available:
            raise ValueError(f"there is no column {name!r}; the columns are {list(available)}.")
    return inputs, y, weights


def _frame_chunks(frame: Any, y: Any, weights: Any, columns: Any) -> Iterator[Chunk]:
    inputs, target, weight = _columns(list(frame.columns), y, weights, columns)
    for start in range(0, len(frame), _CHUNK):
        part = frame.iloc[start : start + _CHUNK]
        yield frame_chunk(part, inputs, target, weight)


def frame_chunk(part: Any, inputs: list[str], target: str, weight: str | None) -> Chunk:
    """A piece of a data frame as arrays."""
    return _chunk(part[inputs].to_numpy(), part[target].to_numpy(), None if weight is None else part[weight].to_numpy())


def _parquet(path: Path, y: Any, weights: Any, columns: Any) -> tuple[Iterator[Chunk], int]:
    """Row groups of a Parquet file or folder, streamed: only the columns asked for, one batch in memory at a time."""
    import pyarrow.dataset

    if not path.exists():
        raise FileNotFoundError(f"there is no Parquet file or folder {path}.")
    data = pyarrow.dataset.dataset(path, format="parquet")
    inputs, target, weight = _columns(data.schema.names, y, weights, columns)
    wanted = list(dict.fromkeys([*inputs, target, *([] if weight is None else [weight])]))

    def batches() -> Iterator[Chunk]:
        # Little read-ahead, and no buffer that keeps every range of the file it has read: memory stays flat.
        flat = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
        for batch in data.to_batches(
            columns=wanted, batch_size=_CHUNK, batch_readahead=2, fragment_readahead=1, fragment_scan_options=flat
        ):
            if batch.num_rows:
                column = {name: batch.column(name).to_numpy(zero_copy_only=False) for name in wanted}
                X = np.stack([column[name] for name in inputs], axis=1)
                yield _chunk(X, column[target], None if weight is None else column[weight])

    return batches(), data.count_rows()


def _in_threads(work: Callable[[Chunk], Partial], chunks: Iterable[Chunk]) -> Iterator[Partial]:
    """Results in order, with a few chunks in work at a time (NumPy lets go of the interpreter lock)."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[Future[Partial]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(work, chunk))
            if len(waiting) > _THREADS:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _with_progress(chunks: Iterable[Chunk], total: int | None) -> Iterator[Chunk]:
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task("Summarising", total=total)
        for chunk in chunks:
            yield chunk
            bar.update(task, advance=len(chunk[0]))

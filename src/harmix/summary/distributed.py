"""Summaries on a dask cluster: each partition is summarised where it lies, and contributions are added up in a tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harmix.summary.grid import Grid
from harmix.summary.sources import Partial, _chunk, _columns, combine, contribution, frame_chunk

# How many contributions one task adds up.
_FAN_IN = 8


def summarize_dask(X: Any, y: Any, weights: Any, columns: Any, grid_for: Callable[[int], Grid]) -> tuple[Grid, Partial]:
    """The grid and the total contribution of a dask array or data frame.

    Args:
        X: dask array `(n, D)` or `(n,)` with y (and weights) a dask array of the same chunks; or a dask data frame.
        y: dask array, or the name of a column.
        weights: likewise, or None.
        columns: input columns of a data frame.
        grid_for: makes the grid for a number of dimensions.
    """
    import dask
    import dask.array

    if hasattr(X, "to_delayed") and hasattr(X, "columns"):
        inputs, target, weight = _columns(list(X.columns), y, weights, columns)
        grid = grid_for(len(inputs))

        def of_frame(part: Any) -> Partial | None:
            return contribution(grid, None, *frame_chunk(part, inputs, target, weight)) if len(part) else None

        parts = [dask.delayed(of_frame)(part) for part in X.to_delayed()]
    else:
        X = X.reshape(-1, 1) if X.ndim == 1 else X
        X = X.rechunk({1: -1})
        arrays = [
            a if hasattr(a, "to_delayed") else dask.array.from_array(np.asarray(a)) for a in (y, weights) if a is not None
        ]
        arrays = [a.rechunk({0: X.chunks[0]}) for a in arrays]
        grid = grid_for(X.shape[1])

        def of_arrays(X: np.ndarray, y: np.ndarray, v: np.ndarray | None = None) -> Partial | None:
            return contribution(grid, None, *_chunk(X, y, v)) if len(X) else None

        blocks = zip(X.to_delayed().ravel(), *(a.to_delayed().ravel() for a in arrays), strict=True)
        parts = [dask.delayed(of_arrays)(*block) for block in blocks]

    def total(group: list[Partial | None]) -> Partial | None:
        found = [part for part in group if part is not None]
        return combine(found) if found else None

    while len(parts) > 1:
        parts = [dask.delayed(total)(parts[i : i + _FAN_IN]) for i in range(0, len(parts), _FAN_IN)]
    result = dask.compute(*parts)[0] if parts else None
    if result is None:
        raise ValueError("there are no data to summarise: X is empty.")
    return grid, result

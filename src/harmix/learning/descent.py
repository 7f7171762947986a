"""L-BFGS that begins afresh where its line search gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult, minimize

# A line search gives up ("abnormal") where the quadratic model is bad, early on as a rule: a fresh one often goes on for long.
_ATTEMPTS = 4


def descend(
    evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]],
    best: Callable[[], np.ndarray],
    *,
    iterations: int,
    gtol: float,
    callback: Callable[[np.ndarray], None],
) -> OptimizeResult:
    """What `scipy.optimize.minimize` returns, of the last attempt, with the iterations of all.

    Args:
        evaluate: value and gradient at `(d,)`.
        best: the best point so far, where each attempt begins.
        iterations: of all attempts together.
        gtol: the gradient at which it is done.
        callback: after each iteration; may raise StopIteration.

    Example:
        >>> point = np.ones(2)
        >>> bool(descend(lambda v: (v @ v, 2 * v), lambda: point, iterations=9, gtol=1e-6, callback=lambda v: None).success)
        True
    """
    done = 0
    for _ in range(_ATTEMPTS):
        left = iterations - done
        options: dict[str, Any] = {"maxiter": left, "maxfun": 2 * left, "maxcor": 20, "ftol": 1e-9, "gtol": gtol}
        found = minimize(evaluate, best(), jac=True, method="L-BFGS-B", callback=callback, options=options)
        done += int(found.nit)
        if "abnormal" not in str(found.message).lower() or found.nit == 0 or done >= iterations:
            break
    found.nit = done
    return found

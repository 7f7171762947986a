"""Theorems 2 and 3 of the paper, measured: how the error declines as the families that are dense grow."""

# Kernels convert what they are given to arrays, which mypy cannot see.
# mypy: disable-error-code="arg-type"
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import least_squares, nnls

from harmix.experiments import matching
from harmix.kernels import Kernel, StationaryGeneralizedSpectral
from harmix.kernels.base import Stationary
from harmix.precision import in_float64

# The scalings and frequencies from which the stationary family chooses: lengths of 1 / scaling.
_SCALINGS = np.geomspace(0.2, 60.0, 40)
_FREQUENCIES = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])

Covariance = Callable[[np.ndarray, np.ndarray], Any]


def mean_squared_error(model: Covariance, target: Covariance, x: np.ndarray, other: np.ndarray | None = None) -> float:
    """Over all pairs of x (n,) with x, or with `other` (m,).

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.SquaredExponential(1.0, 0.5)
        >>> mean_squared_error(3.0 * k, k, np.zeros(4))
        4.0
    """
    other = x if other is None else other
    return float(np.mean((np.asarray(model(x, other)) - np.asarray(target(x, other))) ** 2))


def theorem_3(
    target: Kernel, x: np.ndarray, *, band: float, Ps: tuple[int, ...], Qs: tuple[int, ...], steps: int, seed: int = 0
) -> dict[str, Any]:
    """Harmonizable mixtures are dense among the harmonizable kernels: the error against P and Q.

    Every mixture is the best of those that start from the one of fewer components, from the one of fewer frequencies, and
    from components side by side.

    Args:
        target: a real kernel in one dimension.
        x: the grid on which it is matched, `(n,)`.
        band: the highest frequency that a new component starts with.
        Ps: numbers of components, ascending.
        Qs: numbers of frequencies, 1, 2, 3, ...
        steps: of each refinement.
        seed: of the candidates for new components.

    Returns:
        Tables of mean squared errors with one row for each Q and one column for each P: `grid`, over all pairs of grid points,
        and `between`, over all pairs of a grid point and a point midway between two, whose lags the fit has never seen.

    Example:
        >>> from harmix.kernels import Matern
        >>> found = theorem_3(Matern(1.5, 1.0, 0.5), np.linspace(0, 1, 15), band=1.0, Ps=(1, 2), Qs=(1,), steps=30)
        >>> found["grid"][0][1] < found["grid"][0][0]
        True
    """
    started, worked = time.perf_counter(), time.process_time()
    to = matching.problem(target, x)
    middles = (x[1:] + x[:-1]) / 2
    tables: dict[str, list[list[float]]] = {"grid": [], "between": []}
    poorer: list[matching.Mixture] = []
    for Q in Qs:
        row: list[matching.Mixture] = []
        for p, P in enumerate(Ps):
            starts = [matching.grow(to, P, Q, band=band, seed=seed + p, start=row[-1] if row else None)]
            starts.append(matching.spread(to, P, Q, band=band))
            if poorer:
                starts.append(matching.enrich(poorer[p]))
            row.append(matching.best(to, starts, steps=steps))
        poorer = row
        tables["grid"].append([mean_squared_error(mixture.covariance, target, x) for mixture in row])
        tables["between"].append([mean_squared_error(mixture.covariance, target, x, middles) for mixture in row])
    seconds = {"wall": time.perf_counter() - started, "cpu": time.process_time() - worked}
    return {"P": list(Ps), "Q": list(Qs), **tables, "seconds": seconds}


@in_float64
def theorem_2(
    target: Stationary, base: Stationary, *, Qs: tuple[int, ...], longest: float = 3.0, points: int = 120
) -> dict[str, Any]:
    """`sum_q a_q h(g_q t) cos(2 pi w_q t)` is dense among the stationary kernels: the error against Q.

    A sum of more terms starts from one of fewer; the new terms are those, of a dictionary, that explain most of the rest.

    Args:
        target: a stationary kernel in one dimension.
        base: `h`.
        Qs: numbers of terms, ascending.
        longest: x and x' run from 0 to this.
        points: of the grid.

    Returns:
        Mean squared errors over the pairs of grid points (`grid`), and over the pairs of a grid point and a point midway
        between two (`between`), one for each Q; and the parameters of the largest.

    Example:
        >>> from harmix.kernels import Matern, SquaredExponential
        >>> found = theorem_2(Matern(1.5, 1.0, 0.5), SquaredExponential(1.0, 1.0), Qs=(1, 2))
        >>> found["grid"][1] < found["grid"][0] / 4
        True
    """
    x = np.linspace(0, longest, points)
    middles = (x[1:] + x[:-1]) / 2
    lags = jnp.asarray(x)
    # In the grid of pairs a lag occurs this often.
    share = np.append(points, 2 * np.arange(points - 1, 0, -1)) / points**2
    root, truth = jnp.sqrt(jnp.asarray(share)), target.at_lag(lags[:, None])

    def values(terms: Float[Array, "Q 3"]) -> Float[Array, " n"]:
        kernel = StationaryGeneralizedSpectral(base, terms[:, 0] ** 2, terms[:, 1:2], jnp.exp(terms[:, 2:]))
        return root * kernel.at_lag(lags[:, None])

    residuals = jax.jit(lambda flat: values(flat.reshape(-1, 3)) - root * truth)
    jacobian = jax.jit(jax.jacfwd(residuals))
    dictionary = np.array([[1.0, w, np.log(g)] for w in _FREQUENCIES for g in _SCALINGS])
    shapes = np.asarray(jax.vmap(lambda term: values(term[None]))(jnp.asarray(dictionary)))
    norms = np.sum(shapes**2, axis=1)

    terms = np.zeros((0, 3))
    tables: dict[str, list[float]] = {"grid": [], "between": []}
    for Q in Qs:
        wanted = -np.asarray(residuals(jnp.asarray(terms.ravel()))) if len(terms) else np.asarray(root * truth)
        rest, chosen, amounts = wanted, list[int](), np.zeros(0)
        for _ in range(Q - len(terms)):
            gains = np.maximum(shapes @ rest, 0) ** 2 / norms
            gains[chosen] = -1
            chosen.append(int(np.argmax(gains)))
            amounts, _ = nnls(shapes[chosen].T, wanted)
            rest = wanted - amounts @ shapes[chosen]
        new = dictionary[chosen]
        new[:, 0] = np.sqrt(np.maximum(amounts, 1e-6 * target.at_lag(jnp.zeros(1))))
        start = np.concatenate([terms, new])
        as_numpy = lambda fn: lambda flat: np.asarray(fn(jnp.asarray(flat)))
        found = least_squares(as_numpy(residuals), start.ravel(), as_numpy(jacobian), xtol=1e-12, ftol=1e-9, max_nfev=300)
        terms = found.x.reshape(-1, 3)
        kernel = StationaryGeneralizedSpectral(base, terms[:, 0] ** 2, terms[:, 1:2], np.exp(terms[:, 2:]))
        tables["grid"].append(mean_squared_error(kernel, target, x))
        tables["between"].append(mean_squared_error(kernel, target, x, middles))
    parameters = {name: np.asarray(getattr(kernel, name)) for name in ("weights", "frequencies", "scalings")}
    return {"Q": list(Qs), **tables, "parameters": parameters}

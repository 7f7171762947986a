"""Windowed Fourier coefficients by quadrature under the window: for any kernel and any features, in one input dimension.

Gauss-Legendre panels, made shorter until the result settles. Kernels may have a kink at `x = x'` (Matern): panels end there.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Inexact

from harmix.features.points import InducingPoints
from harmix.inference.posterior import Posterior
from harmix.kernels.base import Kernel, is_stationary
from harmix.waves import cis

# Nodes of a panel; they resolve two cycles to 1e-11.
_ORDER, _CYCLES = 12, 2.0
# Panels are divided by this, not a simple ratio, until two results differ by less than _AIM; this often at most.
_FINER, _AIM, _TOLERATED, _TRIES = 1.6, 1e-9, 1e-6, 6
# exp(-s^2 / 2) is below 1e-17 out there.
_REACH = 8.9

Result = TypeVar("Result")
Moments = tuple[Complex[Array, "T F"], Float[Array, "T F"], Complex[Array, "T F"]]


def is_circular(posterior: Posterior) -> bool:
    """Whether `E f f' = 0`: complex kernels, and real ones that were given complex data."""
    return not posterior.kernel.is_real or jnp.iscomplexobj(posterior.mean_weights)


def given(posterior: Posterior, rows: Complex[Array, "M T F"]) -> Moments:
    """What the data make of coefficients whose covariance with the features is `rows`: their mean, and what is to be added
    to their variance and pseudo-variance.
    """
    basis, root = posterior.basis, posterior.root
    A = _linear(basis.factor.solve_lower, basis.factor.inverse, rows.reshape(basis.size, -1) * basis.inverse_scale[:, None])
    mean = posterior.mean_weights @ jnp.conj(A)
    variance, pseudo = -jnp.sum(jnp.abs(A) ** 2, axis=0), -jnp.conj(jnp.sum(A**2, axis=0))
    if root is not None:
        R = _linear(lambda B: jnp.conj(root).T @ B, root, A)
        variance, pseudo = variance + jnp.sum(jnp.abs(R) ** 2, axis=0), pseudo + jnp.conj(jnp.sum(R**2, axis=0))
    mean, variance, pseudo = (part.reshape(rows.shape[1:]) for part in (mean, variance, pseudo))
    return mean, variance, pseudo


def _linear(of: Callable[[Array], Array], matrix: Array, columns: Complex[Array, "M n"]) -> Complex[Array, "M n"]:
    """`of(columns)`, in half the operations where `of` multiplies by a real matrix."""
    if jnp.iscomplexobj(matrix):
        return of(columns)
    return jax.lax.complex(*jnp.split(of(jnp.concatenate([columns.real, columns.imag], axis=1)), 2, axis=1))


# --- given the data ---------------------------------------------------------------------------------------------------


def given_by_quadrature(
    posterior: Posterior, x: Float[Array, " T"], w: Float[Array, " F"], width: Float[Array, ""], scale: Float[Array, ""]
) -> Moments:
    """`given`, with `cov(u, G(x, w)) = int cov(u, f(s)) h(s - x) exp(2 pi i w s) ds` by quadrature; `scale` is a prior variance."""
    features = posterior.basis.features
    kinks = np.asarray(features.locations)[:, 0] if isinstance(features, InducingPoints) else np.zeros(0)
    reach = _REACH * float(width)

    def at(step: float) -> Moments:
        rules = [panels(float(c) - reach, float(c) + reach, step, kinks) for c in x]
        most = max(len(s) for s, _ in rules)
        padded = [np.pad(np.stack(rule), ((0, 0), (0, most - len(rule[0]))), mode="edge") for rule in rules]
        for rule, (s, _) in zip(padded, rules, strict=True):
            rule[1, len(s) :] = 0.0  # nodes that count for nothing
        return _given_nodes(posterior, jnp.stack(padded), x, w, width)

    def error(new: Moments, old: Moments) -> float:
        sizes = jnp.max(jnp.abs(new[0])) + jnp.sqrt(scale), scale, scale
        return max(float(jnp.max(jnp.abs(a - b)) / size) for a, b, size in zip(new, old, sizes, strict=True))

    return _refine(at, error, _first_step(posterior.kernel, w, width))


@eqx.filter_jit
def _given_nodes(
    posterior: Posterior, rules: Float[Array, "T 2 n"], x: Float[Array, " T"], w: Float[Array, " F"], width: Array
) -> Moments:
    def one(rule: Float[Array, "2 n"], x: Float[Array, ""]) -> tuple[Array, Array, Array]:
        s, q = rule
        taper = q * jnp.exp(-0.5 * ((s - x) / width) ** 2)
        rows = posterior.basis.features.kuf(posterior.kernel, s[:, None]) @ (taper[:, None] * cis(s[:, None] * w))
        mean, variance, pseudo = given(posterior, rows[:, None, :])
        return mean[0], variance[0], pseudo[0]

    return jax.lax.map(lambda item: one(*item), (rules, x))


# --- the prior --------------------------------------------------------------------------------------------------------


def prior_by_quadrature(
    kernel: Kernel, x: Float[Array, " T"], w: Float[Array, " F"], width: Float[Array, ""]
) -> tuple[Float[Array, "T F"], Complex[Array, "T F"]]:
    """Variance and pseudo-variance of `G` under the prior; the latter makes sense for a real process only.

    In the coordinates `c = (s + s') / 2` and `t = s - s' >= 0`, which has a kink of the kernel at its end:
    `h(s - x) h(s' - x) = exp(-((c - x)^2 + t^2 / 4) / width^2)`.
    """
    reach = _REACH * float(width) / np.sqrt(2)
    places = x[:1] if is_stationary(kernel) else x

    def at(step: float) -> tuple[Array, Array]:
        lag, middle = panels(0.0, 2 * reach, step), panels(-reach, reach, step / 2)
        return _prior_nodes(kernel, jnp.stack(lag), jnp.stack(middle), places, w, width)

    def error(new: tuple[Array, Array], old: tuple[Array, Array]) -> float:
        return max(float(jnp.max(jnp.abs(a - b)) / jnp.max(new[0])) for a, b in zip(new, old, strict=True))

    variance, pseudo = _refine(at, error, _first_step(kernel, w, width))
    if len(places) < len(x):  # a shift of a stationary process turns its coefficients
        shape = (len(x), len(w))
        variance, pseudo = jnp.broadcast_to(variance, shape), pseudo * cis(-2 * (x - x[0])[:, None] * w)
    return variance, pseudo


@eqx.filter_jit
def _prior_nodes(
    kernel: Kernel, lag: Float[Array, "2 n"], middle: Float[Array, "2 m"], x: Float[Array, " T"], w: Array, width: Array
) -> tuple[Float[Array, "T F"], Complex[Array, "T F"]]:
    (t, dt), (c, dc) = lag, middle
    over_lag, over_middle = dt * jnp.exp(-((t / (2 * width)) ** 2)), dc * jnp.exp(-((c / width) ** 2))
    pair = lambda s1, s2: kernel.gram(s1[None, None], s2[None, None])[0, 0]

    def one(x: Float[Array, ""]) -> tuple[Array, Array]:
        row = lambda middle: jax.vmap(pair)(middle + t / 2, middle - t / 2)
        values: Inexact[Array, "m n"] = jax.lax.map(row, x + c, batch_size=64)
        variance = 2 * jnp.real((over_middle @ values * over_lag) @ cis(-t[:, None] * w))
        return variance, 2 * (values @ over_lag * over_middle) @ cis(-2 * (x + c)[:, None] * w)

    return jax.lax.map(one, x)


# --- panels -----------------------------------------------------------------------------------------------------------


def panels(lo: float, hi: float, step: float, breaks: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on panels no longer than `step`, which end at the `breaks` too."""
    inner = np.zeros(0) if breaks is None else breaks[(breaks > lo) & (breaks < hi)]
    edges = np.unique(np.concatenate([[lo], inner, [hi]]))
    parts = [np.linspace(a, b, int(np.ceil((b - a) / step)), endpoint=False) for a, b in itertools.pairwise(edges)]
    edges = np.concatenate([*parts, [hi]])
    u, q = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + u)).ravel(), (half * q).ravel()


def _first_step(kernel: Kernel, w: Float[Array, " F"], width: Float[Array, ""]) -> float:
    band = kernel.bandwidth(1)
    highest = float(jnp.max(jnp.abs(w))) + (0.0 if band is None else float(band[0]))
    return min(float(width), _CYCLES / max(highest, 1e-300))


def _refine(at: Callable[[float], Result], error: Callable[[Result, Result], float], step: float) -> Result:
    old, missed = at(step), np.inf
    for _ in range(_TRIES):
        step /= _FINER
        new = at(step)
        missed, old = error(new, old), new
        if missed <= _AIM:
            return new
    if missed > _TOLERATED:
        warnings.warn(
            f"The quadrature under the window has not converged, the relative error is about {missed:.0e}: the kernel or its "
            "features have structure much finer than the width and the highest of the frequencies; ask with a smaller width.",
            RuntimeWarning,
            stacklevel=4,
        )
    return old

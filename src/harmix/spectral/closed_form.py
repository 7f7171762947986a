"""Closed-form spectra: the entry points. The formulas live with the kernels, one class a kernel.

Conventions (MATH.md section 1): frequencies are in cycles per input unit, `f^(w) = int f(x) exp(-2 pi i w.x) dx`.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jaxtyping import Array, Complex, Float

from harmix.arguments import points
from harmix.kernels.base import Kernel, parts
from harmix.precision import entry_point


def _kernel(k: Any) -> Kernel:
    if not isinstance(k, Kernel):
        raise TypeError(f"k must be a harmix kernel, got {k!r}; for any callable use harmix.spectral.numeric.")
    return k


@entry_point
def density(k: Kernel, w: Any) -> Float[Array, " m"]:
    """Spectral density of a stationary kernel, `S(w) = int k(t) exp(-2 pi i w.t) dt`.

    Args:
        k: a stationary kernel with a density: SE, Matern, the spectral mixtures, sums and scalings of them.
        w: frequencies `(m, D)` or `(m,)`, cycles per input unit.

    Returns:
        `(m,)`, and `int S(w) dw = k(0)`.

    Example:
        >>> import harmix as hx
        >>> hx.spectral.density(hx.kernels.SquaredExponential(1.0, 0.5), [0.0, 1.0]).shape
        (2,)
    """
    return _density(_kernel(k), points("w", w, k.input_dim))


@entry_point
def generalized_density(k: Kernel, w: Any, xi: Any) -> Complex[Array, "m1 m2"]:
    """Generalised spectral density, `S(w, xi) = iint k(x, x') exp(-2 pi i (w.x - xi.x')) dx dx'`.

    Args:
        k: a kernel that has one: LSG, the harmonizable mixtures, GSK on an LSG base, sums and scalings of them.
        w: frequencies `(m1, D)` or `(m1,)`, cycles per input unit.
        xi: frequencies `(m2, D)` or `(m2,)`.

    Returns:
        `(m1, m2)` complex; Hermitian as a matrix where `w` and `xi` are the same.

    Example:
        >>> import harmix as hx
        >>> k = hx.kernels.LocallyStationaryGaussian(0.1, 0.3)
        >>> hx.spectral.generalized_density(k, [0.0, 1.0], [0.5]).shape
        (2, 1)
    """
    w = points("w", w, _kernel(k).input_dim)
    for part in parts(k):
        part.check_generalized_density()
    return _generalized_density(k, w, points("xi", xi, w.shape[1]))


@entry_point
def wigner(k: Kernel, x: Any, w: Any) -> Float[Array, "n m"]:
    """Wigner distribution, `W(x, w) = int k(x + t/2, x - t/2) exp(-2 pi i w.t) dt`: how the power at x is spread over w.

    Args:
        k: a kernel that has one in closed form.
        x: places `(n, D)` or `(n,)`.
        w: frequencies `(m, D)` or `(m,)`, cycles per input unit.

    Returns:
        `(n, m)` real, not necessarily positive; `int W dw = k(x, x)` and `int W dx = S(w, w)`.

    Example:
        >>> import harmix as hx
        >>> hx.spectral.wigner(hx.kernels.LocallyStationaryGaussian(0.1, 0.3), [0.0, 1.0, 2.0], [0.5]).shape
        (3, 1)
    """
    x = points("x", x, _kernel(k).input_dim)
    return _wigner(k, x, points("w", w, x.shape[1]))


@eqx.filter_jit
def _density(k: Kernel, w: Array) -> Array:
    return k.density(w)


@eqx.filter_jit
def _generalized_density(k: Kernel, w: Array, xi: Array) -> Array:
    return k.generalized_density(w, xi)


@eqx.filter_jit
def _wigner(k: Kernel, x: Array, w: Array) -> Array:
    return k.wigner(x, w)

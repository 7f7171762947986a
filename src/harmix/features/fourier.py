"""Variational Fourier features: inducing variables that are frequencies of a component (MATH.md section 4).

The two covariances of a component's Fourier transform `f^(w)` are written once, for one `Component` in its own centred
coordinates. A complex process uses `f^(w)` as it is. A real process uses its real and imaginary part: the Fourier transform of
a real process is not circular, and the pseudo-covariance `S(w, -xi)` is part of their covariances.

A chirp spreads over many frequencies, but it is a modulation of something that does not: `f(x) = exp(i pi x.Rx) g(x)`, or the real
part of that for a real process, and the features are `g^(w)`. This g is complex and circular, so there is no mirror image.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from harmix.features.base import Features, safe_sqrt
from harmix.kernels.base import Kernel, Scaled, Sum
from harmix.kernels.component import Component
from harmix.kernels.harmonizable import HarmonizableMixture
from harmix.linalg import Blocks, inverse, lags, log_normal, product, quadratic
from harmix.parameters import parameter, real
from harmix.waves import cos_sin, turn_back

# --- one component ----------------------------------------------------------------------------------------------------


def has_real_spectrum(component: Component) -> bool:
    """Whether cosine and sine features are uncorrelated: they are when the weights are real."""
    return not jnp.iscomplexobj(component.weights)


def real_prior(component: Component, w: Float[Array, "m D"]) -> Float[Array, "b M M"]:
    """`cov(u, u)` of cosine and sine features: two blocks of size m for real weights, else one of size 2m."""
    same, mirrored = _transform_prior(component, w, w), _mirror(component) * _transform_prior(component, w, -w)
    cc, ss = jnp.real(same + mirrored) / 2, jnp.real(same - mirrored) / 2
    if has_real_spectrum(component):
        return jnp.stack([cc, ss])
    sc = jnp.imag(same + mirrored) / 2
    cs = jnp.imag(mirrored - same) / 2
    return jnp.block([[cc, cs], [sc, ss]])[None]


def _transform_prior(component: Component, w: Float[Array, "m1 D"], xi: Float[Array, "m2 D"]) -> Complex[Array, "m1 m2"]:
    """`cov(f^(w), f^(xi))`; of what a chirp modulates where there is one."""
    if component.rates is None:
        return component.generalized_density(w, xi)
    own = component.unchirped()
    density = own.one_sided_density(w, xi).astype(complex)
    if not component.real:
        return density
    return (density + _mirror(component) * jnp.conj(own.one_sided_density(-w, -xi))) / 2


def _mirror(component: Component) -> Float[Array, ""]:
    """1 where features contain the mirror image of the spectrum, those of a real process that does not chirp; else 0."""
    return jnp.asarray(1.0) if component.rates is None else jnp.where(jnp.all(component.rates == 0), 1.0, 0.0)


def transform_variance(component: Component, w: Float[Array, "m D"]) -> Float[Array, " m"]:
    """`S(w, w)`, the variance of `f^(w)`."""
    return jax.vmap(lambda v: jnp.real(_transform_prior(component, v[None], v[None])[0, 0]))(w)


def transform_covariance(
    component: Component, w: Float[Array, "m D"], x: Float[Array, "n D"], *, divided_by_window: bool = False
) -> tuple[Float[Array, "m n"], Float[Array, "m n"]]:
    """`cov(f^(w), f(x))`, real and imaginary part, for the component's own (real or complex) process.

    With `A = Sigma1 / 4 + Sigma2` and `K = A^-1 C`,

    `exp(-2 pi^2 x'(A - C A^-1 C) x) e^{-2 pi i w.Kx} sum_i N(w - mu_i | 0, A) e^{2 pi i mu_i.Kx} sum_j b_ij e^{-2 pi i mu_j.x}`:

    the sum over i is a matrix product, and one complex exponential is left for each pair of w and x. A chirp turns f(x) by
    `exp(i pi x.Rx)`.

    Args:
        component: the component.
        w: frequencies.
        x: places, relative to the component's centre.
        divided_by_window: leave out a factor `exp(-x' W^-2 x / 4)`, the window of the component.
    """
    S, C, mu = component.sigma1 / 2, component.lag, component.frequencies
    A = S + C
    inner = product(C, inverse(A))  # C A^-1, the transpose of K
    # A - C A^-1 C = (1 + C A^-1) Sigma1 / 2, without the cancellation; the window itself is exp(-2 pi^2 x' (Sigma1 / 2) x).
    decay = product(inner, S)
    if not divided_by_window:
        decay = decay + S
    envelope = jnp.exp(-2 * jnp.pi**2 * quadratic(decay, x))
    Kx = x * inner if inner.ndim == 1 else x @ inner

    # V_i(x) = e^{2 pi i mu_i.Kx} sum_j b_ij e^{-2 pi i mu_j.x}, in real arithmetic.
    c, s = cos_sin(mu @ x.T)
    R, J = jnp.real(component.weights), jnp.imag(component.weights)
    sums = (R @ c, -R @ s) if has_real_spectrum(component) else (R @ c + J @ s, J @ c - R @ s)
    V_r, V_i = turn_back(-mu @ Kx.T, *(envelope * v for v in sums))

    plus = jnp.exp(log_normal(w[:, None, :] - mu[None, :, :], A))
    if component.real:  # half of f^(w) at +mu, half of its mirror image at -mu
        minus = _mirror(component) * jnp.exp(log_normal(w[:, None, :] + mu[None, :, :], A))
        T_r, T_i = _matmul((plus + minus) / 2, V_r), _matmul((plus - minus) / 2, V_i)
    else:
        T_r, T_i = _matmul(plus, V_r), _matmul(plus, V_i)
    return turn_back(w @ Kx.T + component.chirp(x), T_r, T_i)


def _matmul(a: Float[Array, "m Q"], b: Float[Array, "Q n"]) -> Float[Array, "m n"]:
    """`a @ b` as a matrix product even for Q = 1, where XLA would rather multiply, and then compute b (waves and all) again
    for each of the m rows.
    """
    if a.shape[1] == 1:
        a, b = jnp.pad(a, ((0, 0), (0, 1))), jnp.pad(b, ((0, 1), (0, 0)))
    return a @ b


@jax.custom_jvp
def _stack(re: Float[Array, "P m n"], im: Float[Array, "P m n"]) -> Float[Array, "P 2 m n"]:
    """`jnp.stack((re, im), axis=1)`, by a choice: what XLA stacks it computes in a loop that branches at every element, waves
    and all, and that is not vectorised. A gradient takes slices of a stack; of a choice it would take sums.
    """
    return jnp.where(jnp.array([True, False])[:, None, None], re[:, None], im[:, None])


@_stack.defjvp
def _stack_jvp(primals: tuple, tangents: tuple) -> tuple:
    return _stack(*primals), jnp.stack(tangents, axis=1)


# --- features on a mixture --------------------------------------------------------------------------------------------


class FourierFrequencies(Features):
    """Fourier coefficients `f_p^(w)` of each component of a harmonizable mixture.

    Real processes get a cosine and a sine feature for every frequency (`M_total = 2 P M`), complex ones a complex feature
    (`M_total = P M`). `Kuu` is block diagonal. In a sum of kernels they stand for the harmonizable term.

    Args:
        frequencies: `(P, M, D)`, one row of M frequencies for each component, cycles per input unit. 0 is fine: the sine
            feature there is 0.

    Example:
        >>> import harmix as hx, numpy as np
        >>> k = hx.kernels.HarmonizableMixture([[0.0], [3.0]], [[1.0]], [[0.5]], [[[1.0]]], np.ones((1, 1, 1)))
        >>> u = hx.features.FourierFrequencies(np.linspace(0.5, 1.5, 4)[None, :, None].repeat(2, axis=0))
        >>> hx.features.kuu(u, k).blocks.shape
        (4, 4, 4)
    """

    frequencies: Float[Array, "P M D"] = parameter("frequencies", real, "P M D")

    def _components(self, kernel: Kernel) -> tuple[Component, Float[Array, "P D"]]:
        mixture = harmonizable_term(kernel)
        expected = mixture.centers.shape
        if (self.frequencies.shape[0], self.frequencies.shape[2]) != expected:
            raise ValueError(
                f"frequencies of FourierFrequencies have shape {self.frequencies.shape}, but the kernel has P = "
                f"{expected[0]} components in D = {expected[1]} dimensions: give (P, M, D), one row for each component."
            )
        return mixture.components, mixture.centers

    def kuu(self, kernel: Kernel) -> Blocks:
        """`S_p(w, xi)` within a component, 0 between components."""
        components, _ = self._components(kernel)
        if not components.real:
            return Blocks(jax.vmap(lambda c, w: _transform_prior(c, w, w))(components, self.frequencies))
        blocks = jax.vmap(real_prior)(components, self.frequencies)
        return Blocks(blocks.reshape(-1, *blocks.shape[2:]))

    def kuf(self, kernel: Kernel, X: Float[Array, "n D"]) -> Inexact[Array, "M n"]:
        """`cov(f_p^(w), f_p(x - x_p))`; for a real process its real parts, then its imaginary parts, by component."""
        components, centers = self._components(kernel)
        parts = jax.vmap(lambda c, w, center: transform_covariance(c, w, lags(X, center[None])[:, 0]))(
            components, self.frequencies, centers
        )
        rows = _stack(*parts) if components.real else jax.lax.complex(*parts)
        return rows.reshape(-1, X.shape[0])

    def scale(self, kernel: Kernel, kuu: Blocks) -> Float[Array, " M"]:
        """The standard deviation of `f^(w)`, for its cosine and its sine alike: near w = 0 the sine has no variance of its
        own, and jitter relative to this scale damps it.
        """
        components, _ = self._components(kernel)
        deviation = safe_sqrt(jax.vmap(transform_variance)(components, self.frequencies))
        return (jnp.stack([deviation, deviation], axis=1) if components.real else deviation).reshape(-1)


def harmonizable_term(kernel: Kernel) -> HarmonizableMixture:
    """The harmonizable mixture that Fourier features stand for: the kernel itself, or the one such term of a sum."""
    match kernel:
        case HarmonizableMixture():
            return kernel
        case Scaled(factor=factor, kernel=inner):
            mixture = harmonizable_term(inner)
            return eqx.tree_at(lambda k: k.weights, mixture, factor * mixture.weights)
        case Sum(kernels=terms):
            found = [k for k in terms if _is_harmonizable(k)]
            if len(found) == 1:
                return harmonizable_term(found[0])
            raise TypeError(
                f"FourierFrequencies need a sum with exactly one HarmonizableMixture term, got {len(found)} among "
                f"{_names(terms)}; put the components of several into one mixture."
            )
    raise TypeError(
        f"FourierFrequencies need a HarmonizableMixture (or a sum with one), got {type(kernel).__name__}; use "
        "InducingPoints for any kernel, or WindowedFourier for a stationary one."
    )


def _is_harmonizable(kernel: Kernel) -> bool:
    match kernel:
        case Scaled(kernel=inner):
            return _is_harmonizable(inner)
        case Sum(kernels=terms):
            return any(map(_is_harmonizable, terms))
    return isinstance(kernel, HarmonizableMixture)


def _names(kernels: tuple[Kernel, ...]) -> str:
    return ", ".join(type(k).__name__ for k in kernels)

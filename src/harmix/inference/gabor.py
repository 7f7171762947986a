"""Windowed Fourier coefficients of Gaussian kernels in closed form, in one input dimension (MATH.md section 7).

`G(x, w) = int f(s) h(s - x) exp(-2 pi i w s) ds`, `h(s) = exp(-s^2 / (2 width^2))`. Kernels whose components are harmonizable
(also with a window or a lengthscale without end: the stationary ones) are Gaussians times waves in both arguments, and so are
their covariances with Fourier features and inducing points, in the one argument that is left. Multiplied by the window
they stay such, and integrate in closed form.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Inexact

from harmix.features.base import Features
from harmix.features.fourier import FourierFrequencies, harmonizable_term
from harmix.features.points import InducingPoints
from harmix.features.windowed import WindowedFourier, gaussian_waves
from harmix.kernels.base import Kernel, Scaled, Sum
from harmix.kernels.component import Component
from harmix.kernels.harmonizable import HarmonizableMixture, HarmonizableMixtureProduct, LocallyStationaryGaussian
from harmix.kernels.stationary import SparseSpectrum, SpectralMixture, SpectralMixtureProduct, SquaredExponential
from harmix.waves import cis


class Packets(eqx.Module):
    """`k(x, x') = sum_p exp(-2 pi^2 (S (u^2 + u'^2) + C (u - u')^2)) sum_ij b_ij exp(2 pi i (mu_i u - mu_j u'))`, `u = x - x_p`.

    `S = Sigma1 / 2`. The kernel of a real process is written as two complex ones, at `mu` and at `-mu`. Chirps multiply by
    `exp(i pi r (u^2 - u'^2))`.

    Attributes:
        centers: `x_p`.
        window: `S`, zero where the window has no end.
        lag: `C`, zero where the lengthscale has no end.
        frequencies: `mu`.
        weights: `b`.
        rates: `r`; None where nothing chirps.
    """

    centers: Float[Array, " P"]
    window: Float[Array, " P"]
    lag: Float[Array, " P"]
    frequencies: Float[Array, "P Q"]
    weights: Complex[Array, "P Q Q"]
    rates: Float[Array, " P"] | None = None

    @property
    def pull(self) -> Float[Array, " P"]:
        """`K = C / (S + C)`: seen from z, the covariance peaks at `K z`. It is 1 where neither window nor lengthscale ends."""
        total = self.window + self.lag
        return jnp.where(total > 0, self.lag / jnp.where(total > 0, total, 1.0), 1.0)


def packets(kernel: Kernel) -> list[Packets] | None:
    """A kernel in one dimension as packets; None where some part of it is not of that form."""
    zero = jnp.zeros(1)
    match kernel:
        case HarmonizableMixture():
            return [_packets(kernel.components, kernel.centers[:, 0])]
        case HarmonizableMixtureProduct(factors=(factor,)):
            return packets(factor)
        case LocallyStationaryGaussian():
            return [_packets(jax.tree.map(lambda a: a[None], kernel._component(1)), zero)]
        case SquaredExponential() | SpectralMixture():
            columns = zip(*gaussian_waves(kernel, 1), strict=True)
            return [_stationary(*(jnp.stack([v.reshape(()) for v in column]) for column in columns))]
        case SpectralMixtureProduct():
            return [_stationary(kernel._weights()[:, 0], kernel.frequencies[:, 0], kernel.scales[:, 0] ** 2)]
        case SparseSpectrum(weights=a, frequencies=w):
            return [_stationary(a, w[:, 0], jnp.zeros_like(a))]
        case Scaled(factor=factor, kernel=inner):
            found = packets(inner)
            return (
                None if found is None else [eqx.tree_at(lambda g: g.weights, group, factor * group.weights) for group in found]
            )
        case Sum(kernels=terms):
            groups = [packets(term) for term in terms]
            known = [group for group in groups if group is not None]
            return [one for group in known for one in group] if len(known) == len(groups) else None
    return None


def _stationary(a: Float[Array, " P"], mu: Float[Array, " P"], lag: Float[Array, " P"]) -> Packets:
    """`sum_p a_p exp(-2 pi^2 C_p t^2) cos(2 pi mu_p t)`."""
    one = lambda C, w, b: Component(jnp.zeros(1), C[None], w[None, None], b[None, None], real=True)
    return _packets(jax.vmap(one)(lag, mu, a), jnp.zeros_like(a))


def _packets(component: Component, centers: Float[Array, " P"]) -> Packets:
    """A batch of components; full matrices are of size one here."""
    P = centers.shape[0]
    S, C = component.sigma1.reshape(P) / 2, component.lag.reshape(P)
    mu, B = component.frequencies[:, :, 0], component.weights.astype(complex)
    r = None if component.rates is None else component.rates[:, 0]
    if not component.real:
        return Packets(centers, S, C, mu, B, r)
    twice = lambda v: jnp.concatenate([v, v])
    both = jnp.concatenate([mu, -mu]), jnp.concatenate([B, jnp.conj(B)]) / 2
    return Packets(twice(centers), twice(S), twice(C), *both, None if r is None else jnp.concatenate([r, -r]))


# --- the prior --------------------------------------------------------------------------------------------------------


def prior_moments(
    group: Packets, x: Float[Array, " T"], w: Float[Array, " F"], width: Float[Array, ""]
) -> tuple[Float[Array, "T F"], Complex[Array, "T F"]]:
    """`iint k(s, s') h(s - x) h(s' - x) exp(-2 pi i w (s -+ s')) ds ds'`: with `-` the variance of `G`, and with `+`, for a real
    process, its pseudo-variance.

    In the coordinates `c = (s + s') / 2` and `t = s - s'` both are products of one-dimensional Gaussian integrals.
    """
    if group.rates is not None:
        return _chirped_moments(group, x, w, width)
    mu = group.frequencies
    flat = lambda v: v.reshape(v.shape[0], -1)
    beat, middle = flat(mu[:, :, None] - mu[:, None, :]), flat(mu[:, :, None] + mu[:, None, :]) / 2
    b = flat(group.weights)[:, None, :]
    # Over c: exp(-4 pi^2 S c^2) times exp(-(c - x)^2 / width^2) peaks at `ratio x`, with the variance V.
    decay = 4 * jnp.pi**2 * group.window
    ratio = 1 / (1 + decay * width**2)
    V = (ratio * width**2 / 2)[:, None, None]
    # Over t: exp(-sharpness t^2).
    sharpness = 2 * jnp.pi**2 * (group.window / 2 + group.lag) + 1 / (4 * width**2)
    away = x - group.centers[:, None]
    volume = jnp.sqrt(jnp.pi * ratio * width**2) * jnp.sqrt(jnp.pi / sharpness)
    size = volume[:, None] * jnp.exp(-(decay * ratio)[:, None] * away**2)
    peak = ratio[:, None] * away  # relative to the centre, (P, T)
    waves = b * cis(peak[:, :, None] * beat[:, None, :])

    spectral = lambda v: jnp.exp(-(jnp.pi**2) * v**2 / sharpness[:, None, None])
    over_lag = spectral(w - middle[:, :, None])  # (P, QQ, F)
    along = waves * jnp.exp(-2 * jnp.pi**2 * V * beat[:, None, :] ** 2)
    variance = jnp.einsum("pt,ptf->tf", size, _times_real(along, over_lag).real)

    over_middle = jnp.exp(-2 * jnp.pi**2 * V * (beat[:, :, None] - 2 * w) ** 2)
    across = _times_real(waves * spectral(middle[:, None, :]), over_middle)
    phase = -2 * (group.centers[:, None] + peak)[:, :, None] * w
    return variance, jnp.einsum("pt,ptf->tf", size, across * cis(phase))


def _chirped_moments(
    group: Packets, x: Float[Array, " T"], w: Float[Array, " F"], width: Float[Array, ""]
) -> tuple[Float[Array, "T F"], Complex[Array, "T F"]]:
    """`prior_moments` where the frequency over the lag is that of the place, `mu + r c`: first over t, then over c.

    Over t, `exp(-sharpness t^2 + 2 pi i v t)` gives `exp(-pi^2 v^2 / sharpness)` with v linear in c; what is left is a Gaussian in c.
    """

    def one(packet: Packets) -> tuple[Array, Array]:
        assert packet.rates is not None
        mu, r, S = packet.frequencies, packet.rates, packet.window
        flat = lambda v: v.reshape(-1)[:, None, None]
        beat, middle = flat(mu[:, None] - mu[None, :]), flat(mu[:, None] + mu[None, :]) / 2
        sharpness = 2 * jnp.pi**2 * (S / 2 + packet.lag) + 1 / (4 * width**2)
        away = (x - packet.centers)[None, :, None]
        steep = jnp.pi**2 / sharpness
        curvature = 4 * jnp.pi**2 * S + 1 / width**2 + steep * r**2

        def integral(still: Array, turns: Array) -> Array:
            """Of `exp(-curvature' c^2 - (c - x)^2 / width^2 - steep (still + r c)^2 + 2 pi i turns c)` over c."""
            slope = away / width**2 - steep * r * still + 1j * jnp.pi * turns
            fall = away**2 / width**2 + steep * still**2
            return jnp.sqrt(jnp.pi / curvature * jnp.pi / sharpness) * jnp.exp(slope**2 / curvature - fall)

        b = flat(packet.weights)
        variance = jnp.sum(b * integral(middle - w, beat), axis=0).real
        pseudo = jnp.sum(b * integral(middle, beat - 2 * w), axis=0) * cis(-2 * packet.centers * w)
        return variance, pseudo

    variances, pseudos = jax.vmap(one)(group)
    return jnp.sum(variances, axis=0), jnp.sum(pseudos, axis=0)


def _times_real(a: Complex[Array, "*batch n q"], b: Float[Array, "*batch2 q m"]) -> Complex[Array, "*batch3 n m"]:
    """`a @ b` in half the operations of a complex product."""
    return jax.lax.complex(a.real @ b, a.imag @ b)


# --- the features -----------------------------------------------------------------------------------------------------


class Atoms(eqx.Module):
    """`cov(u_m, f(s)) = sum_gq amplitude exp(-decay v^2) exp(2 pi i (frequency v + rate v^2 / 2))`, `v = s - center`: every feature as
    a sum of Gabor atoms. Sizes may be 1 in place of M where all features have the same; rates are None where nothing chirps.
    """

    decay: Float[Array, "g _"]
    centers: Float[Array, "g M"]
    frequencies: Float[Array, "g _ q"]
    amplitudes: Complex[Array, "g M q"]
    rates: Float[Array, "g _ q"] | None = None

    def integrate(self, x: Float[Array, " T"], w: Float[Array, " F"], width: Float[Array, ""]) -> Complex[Array, "M T F"]:
        """`cov(u_m, G(x, w)) = int cov(u_m, f(s)) h(s - x) exp(2 pi i w s) ds`."""

        def add(total: Array, one: Atoms) -> tuple[Array, None]:
            if one.rates is not None:
                return total + _integrate_chirps(one, x, w, width), None
            ratio = 1 / (1 + 2 * one.decay * width**2)
            V = ratio * width**2  # of the product of the two Gaussians, which peaks at `center + ratio away`
            away = x - one.centers[:, None]
            peak = ratio[:, None] * away
            size = jnp.sqrt(2 * jnp.pi * V)[:, None] * jnp.exp(-(one.decay * ratio)[:, None] * away**2)
            over_s = jnp.exp(-2 * jnp.pi**2 * V[:, None, None] * (w + one.frequencies[:, :, None]) ** 2)
            waves = size[:, :, None] * one.amplitudes[:, None, :] * cis(one.frequencies[:, None, :] * peak[:, :, None])
            # The phase w (center + ratio away) in two factors: fewer waves to compute than (M, T, F).
            still = cis(((1 - ratio) * one.centers)[:, None] * w)[:, None, :]
            moving = cis((ratio[:, None] * x)[:, :, None] * w)
            return total + _times_real(waves, over_s) * still * moving, None

        M, T, F = self.centers.shape[1], x.shape[0], w.shape[0]
        return jax.lax.scan(add, jnp.zeros((M, T, F), complex), self)[0]

    def support(self, deviations: float) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """From where to where the atoms reach."""
        reach = deviations / jnp.sqrt(2 * self.decay)
        return jnp.min(self.centers - reach), jnp.max(self.centers + reach)

    def band(self, deviations: float) -> Float[Array, ""]:
        """Up to which frequency."""
        highest = jnp.max(jnp.abs(self.frequencies), axis=2)
        if self.rates is not None:
            highest = highest + jnp.max(jnp.abs(self.rates), axis=2) * deviations / jnp.sqrt(2 * self.decay)
        return jnp.max(highest + deviations * jnp.sqrt(2 * self.decay) / (2 * jnp.pi))


def _integrate_chirps(
    one: Atoms, x: Float[Array, " T"], w: Float[Array, " F"], width: Float[Array, ""]
) -> Complex[Array, "M T F"]:
    """`integrate` of one group, `(M, ...)` each, with a complex decay: `int exp(-D v^2 + s v) dv = (pi / D)^1/2 exp(s^2 / 4D)`."""
    assert one.rates is not None
    away = (x - one.centers[:, None])[:, :, None]

    def wave(parts: tuple[Array, ...]) -> Array:
        frequency, rate, amplitude = (v[:, None, None] for v in parts)
        D = one.decay[:, None, None] + 1 / (2 * width**2) - 1j * jnp.pi * rate
        slope = away / width**2 + 2j * jnp.pi * (frequency + w)
        return amplitude * jnp.sqrt(jnp.pi / D) * jnp.exp(slope**2 / (4 * D) - away**2 / (2 * width**2))

    M, q = one.amplitudes.shape
    each = tuple(jnp.moveaxis(jnp.broadcast_to(v, (M, q)), 1, 0) for v in (one.frequencies, one.rates, one.amplitudes))
    start = jnp.zeros((M, x.shape[0], w.shape[0]), complex)
    total, _ = jax.lax.scan(lambda total, parts: (total + wave(parts), None), start, each)
    return total * cis(one.centers[:, None] * w)[:, None, :]


def atoms(features: Features, kernel: Kernel) -> list[Atoms] | None:
    """How the features covary with `f(s)`; None where that is not made of Gabor atoms."""
    match features:
        case InducingPoints(locations=z):
            groups = packets(kernel)
            return None if groups is None else [_of_points(group, z[:, 0]) for group in groups]
        case FourierFrequencies(frequencies=w):
            mixture = harmonizable_term(kernel)
            found = _of_transform(_packets(mixture.components, mixture.centers[:, 0]), w[:, :, 0], mixture.real)
            flat = lambda v: v.reshape(1, -1, *v.shape[2:])
            return [jax.tree.map(flat, found)]
        case WindowedFourier(frequencies=w, center=c):
            # A component a wave of the kernel; what is added up are the covariances with one and the same feature.
            components = [_packets(jax.tree.map(lambda a: a[None], part), c) for part in features._windowed(kernel)]
            return [_of_transform(group, w[None, :, 0], real=True, divided_by_window=True) for group in components]
    return None


def _of_points(group: Packets, z: Float[Array, " M"]) -> Atoms:
    """`k(z, s)`: with `A = S + C`, `A z^2 + A s^2 - 2 C z s = A (s - K z)^2 + S (1 + K) z^2`."""
    K = group.pull[:, None]
    away = z - group.centers[:, None]
    size = jnp.exp(-2 * jnp.pi**2 * group.window[:, None] * (1 + K) * away**2)
    mu = group.frequencies[:, None, :]
    here = jnp.einsum("pmi,pij->pmj", cis(mu * away[:, :, None]), group.weights)
    amplitudes = size[:, :, None] * here * cis(-mu * (K * away)[:, :, None])
    decay = 2 * jnp.pi**2 * (group.window + group.lag)
    atoms = Atoms(decay[:, None], group.centers[:, None] + K * away, -mu, amplitudes)
    if group.rates is None:
        return atoms
    # r (z^2 - s^2) / 2 around the peak, s = K z + v: r (1 - K^2) z^2 / 2 - r K z v - r v^2 / 2.
    r = group.rates[:, None]
    turned = amplitudes * cis(r * (1 - K**2) * away**2 / 2)[:, :, None]
    return Atoms(atoms.decay, atoms.centers, -mu - (r * K * away)[:, :, None], turned, -r[:, :, None] * jnp.ones_like(mu))


def _of_transform(group: Packets, w: Float[Array, "P m"], real: bool, *, divided_by_window: bool = False) -> Atoms:
    """`cov(f_p^(w), f(s))` (MATH.md section 4), group by group `(P, M, q)`; of a real process its real, then its imaginary part."""
    P, m = w.shape
    sides = 2 if real else 1  # a real process has two packets for each component
    w = jnp.tile(w, (sides, 1))
    S, A, K = group.window, group.window + group.lag, group.pull
    detuned = w[:, :, None] - group.frequencies[:, None, :]
    normal = jnp.exp(-0.5 * detuned**2 / A[:, None, None]) / jnp.sqrt(2 * jnp.pi * A)[:, None, None]
    amplitudes = (group.weights[:, None] * normal[..., None]).reshape(sides * P, m, -1)
    moved = K[:, None, None, None] * detuned[..., None] + group.frequencies[:, None, None, :]
    frequencies = -moved.reshape(sides * P, m, -1)
    chirps = jnp.zeros_like(group.centers) if group.rates is None else group.rates
    rates = -chirps[:, None, None] * jnp.ones_like(frequencies)
    if real:
        if group.rates is not None:  # of what chirps there is no mirror image
            second = jnp.arange(sides * P) >= P
            amplitudes = jnp.where((second & (chirps != 0))[:, None, None], 0.0, amplitudes)
        join = lambda v: jnp.concatenate(jnp.split(v, 2), axis=2)
        pairs: Inexact[Array, "P m q"]
        pairs, frequencies, rates = join(amplitudes), join(frequencies), join(rates)
        # Re T = T / 2 + its conjugate, Im T = T / 2i + its conjugate.
        half = jnp.concatenate([pairs / 2, pairs / 2j], axis=1)
        amplitudes = jnp.concatenate([half, jnp.conj(half)], axis=2)
        frequencies, rates = (jnp.tile(jnp.concatenate([v, -v], axis=2), (1, 2, 1)) for v in (frequencies, rates))
    decay = 2 * jnp.pi**2 * S * (K if divided_by_window else 1 + K)
    like = jnp.ones((P, sides * m))
    atoms = Atoms(decay[:P, None] * like, group.centers[:P, None] * like, frequencies, amplitudes)
    return atoms if group.rates is None else eqx.tree_at(lambda a: a.rates, atoms, rates, is_leaf=lambda v: v is None)

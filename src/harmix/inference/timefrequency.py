"""The time-frequency picture of the data, with error bars (MATH.md section 7), in one input dimension.

The windowed Fourier coefficient `G(x, w) = int f(s) h(s - x) exp(-2 pi i w s) ds` is linear in f, hence complex Gaussian under
a posterior. It is not normalised: `h(s) = exp(-s^2 / (2 width^2))` is 1 at its peak, so a sine of amplitude 1 has the
power `|G|^2 = pi width^2 / 2` at its frequency, and a stationary process whose spectral density S varies slowly has
`E|G|^2 = sqrt(pi) width S(w)`.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from harmix.arguments import points, positive_number
from harmix.inference import gabor
from harmix.inference.collapsed import require_finite
from harmix.inference.posterior import Posterior
from harmix.inference.power import Coefficients
from harmix.inference.windowed import Moments, given, given_by_quadrature, is_circular, prior_by_quadrature
from harmix.kernels.base import Kernel, NoClosedFormError, Scaled, Sum
from harmix.parameters import check_shapes
from harmix.precision import entry_point
from harmix.waves import cos_sin

# Covariances of features with coefficients held at a time.
_ENTRIES = 2**20
# Gaussians are followed for so many deviations: down to 1e-17 of their peak, and a product of two to 1e-34.
_DEVIATIONS = 9.0
# Lags of the Wigner distribution at a time; pairs of places in all, beyond which something is amiss.
_LAGS, _MOST_PAIRS = 1024, 2**28


@entry_point
def coefficients(posterior: Posterior, times: Any, frequencies: Any, width: Any, *, method: str = "auto") -> Coefficients:
    """Mean, variance and pseudo-variance of `G(x, w) = int f(s) h(s - x) exp(-2 pi i w s) ds` given the data.

    In closed form for kernels made of Gaussians and waves (harmonizable mixtures, squared exponential, spectral mixtures, sums
    and scalings of them) with the features of harmix or none; by quadrature under the window for all others.

    Args:
        posterior: with a kernel of one input dimension.
        times: `x`, `(T,)`.
        frequencies: `w`, `(F,)`, cycles per input unit.
        width: the standard deviation of the window `h(s) = exp(-s^2 / (2 width^2))`.
        method: "quadrature" integrates numerically whatever the kernel: slower, a check. A RuntimeWarning tells where it has
            not converged to 1e-6.

    Returns:
        Arrays `(T, F)`. A complex process is circular: its pseudo-variance is 0.

    Example:
        >>> import harmix as hx
        >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
        >>> coefficients(post, [0.0, 0.5, 1.0], [0.1, 0.2], 0.5).variance.shape
        (3, 2)
    """
    times, frequencies = _grid(posterior, times, frequencies)
    width = positive_number("width", width)
    if method not in ("auto", "quadrature"):
        raise ValueError(f'method must be "auto" or "quadrature", got {method!r}.')
    closed = method == "auto"
    variance, pseudo = (_prior if closed else prior_by_quadrature)(posterior.kernel, times, frequencies, width)
    if closed and gabor.atoms(posterior.basis.features, posterior.kernel) is not None:
        mean, more, more_pseudo = _given_atoms(posterior, times, frequencies, width)
    else:
        mean, more, more_pseudo = given_by_quadrature(posterior, times, frequencies, width, jnp.max(variance))
    pseudo = jnp.zeros_like(more_pseudo) if is_circular(posterior) else pseudo + more_pseudo
    moments = Coefficients(mean, jnp.maximum(variance + more, 0.0), pseudo)
    require_finite("the windowed Fourier transform", jnp.abs(mean) + moments.variance, posterior.basis.jitter)
    return moments


def _grid(posterior: Posterior, times: Any, frequencies: Any) -> tuple[Float[Array, " T"], Float[Array, " F"]]:
    for what in (posterior.kernel, posterior.basis.features):
        if _input_dim(what) not in (None, 1):
            raise ValueError(
                f"time-frequency pictures need one input dimension, but {type(what).__name__} has {_input_dim(what)}; "
                "for what varies along a line in several use Posterior.mean and Posterior.covariance."
            )
    return points("times", times, 1)[:, 0], points("frequencies", frequencies, 1)[:, 0]


def _input_dim(what: eqx.Module) -> int | None:
    return what.input_dim if isinstance(what, Kernel) else check_shapes(what).get("D")


@eqx.filter_jit
def _closed_prior(kernel: Kernel, x: Array, w: Array, width: Array) -> tuple[Array, Array]:
    shape = (x.shape[0], w.shape[0])
    total = (jnp.zeros(shape), jnp.zeros(shape, complex))
    for group in gabor.packets(kernel) or ():  # packet by packet: all at once may be large
        add = lambda total, one: (jax.tree.map(jnp.add, total, gabor.prior_moments(one, x, w, width)), None)
        total, _ = jax.lax.scan(add, total, jax.tree.map(lambda a: a[:, None], group))
    return total


def _prior(kernel: Kernel, x: Array, w: Array, width: Array) -> tuple[Float[Array, "T F"], Complex[Array, "T F"]]:
    """Variance and pseudo-variance of `G`, term by term in closed form or by quadrature."""
    if gabor.packets(kernel) is not None:
        return _closed_prior(kernel, x, w, width)
    match kernel:
        case Scaled(factor=factor, kernel=inner):
            variance, pseudo = _prior(inner, x, w, width)
            return factor * variance, factor * pseudo
        case Sum(kernels=terms):
            variances, pseudos = zip(*(_prior(term, x, w, width) for term in terms), strict=True)
            return sum(variances), sum(pseudos)
    return prior_by_quadrature(kernel, x, w, width)


@eqx.filter_jit
def _given_atoms(posterior: Posterior, x: Float[Array, " T"], w: Float[Array, " F"], width: Array) -> Moments:
    groups = gabor.atoms(posterior.basis.features, posterior.kernel) or []
    T = x.shape[0]
    size = max(1, min(T, _ENTRIES // (posterior.basis.size * w.shape[0])))

    def some(x: Float[Array, " t"]) -> Moments:
        return given(posterior, functools.reduce(jnp.add, [group.integrate(x, w, width) for group in groups]))

    chunks = jnp.pad(x, (0, -T % size), mode="edge").reshape(-1, size)
    mean, variance, pseudo = (part.reshape(-1, w.shape[0])[:T] for part in jax.lax.map(some, chunks))
    return mean, variance, pseudo


@entry_point
def wigner(posterior: Posterior, times: Any, frequencies: Any) -> Float[Array, "T F"]:
    """`int E[f(x + t / 2) conj f(x - t / 2) | y] exp(-2 pi i w t) dt`: the expected Wigner-Ville distribution given the data.

    That of the prior, in closed form, plus that of what the data add, `A(x + t / 2)^H N A(x - t / 2)` with
    `N = m m^H + R R^H - 1`, which is smooth, of limited band and falls off as the features' covariances with `f` do: the
    trapezoidal rule integrates it to rounding. (Term by term it has a closed form too, of M^2 Q^4 terms.)

    Args:
        posterior: with a kernel of one input dimension that is made of Gaussians and waves, and has a Wigner distribution.
        times: `x`, `(T,)`.
        frequencies: `w`, `(F,)`, cycles per input unit.

    Returns:
        `(T, F)` real, not necessarily positive; its integral over all frequencies is `E[|f(x)|^2 | y]`.

    Example:
        >>> import harmix as hx
        >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
        >>> wigner(post, [0.0, 0.5, 1.0], [0.1, 0.2]).shape
        (3, 2)
    """
    times, frequencies = _grid(posterior, times, frequencies)
    groups = gabor.atoms(posterior.basis.features, posterior.kernel)
    try:
        if groups is None:
            raise NoClosedFormError
        prior = _prior_wigner(posterior.kernel, times, frequencies)
    except NoClosedFormError:
        raise NoClosedFormError(
            f"the expected Wigner distribution under a {type(posterior.kernel).__name__} prior with "
            f"{type(posterior.basis.features).__name__} is not an integral that is known to converge; use Posterior.spectrogram, or "
            "harmix.spectral.numeric.wigner with a window of "
            "lambda X1, X2: post.covariance(X1, X2) + np.outer(post.mean(X1), np.conj(post.mean(X2)))."
        ) from None
    ends = [group.support(_DEVIATIONS) for group in groups]
    lo, hi = min(float(start) for start, _ in ends), max(float(end) for _, end in ends)
    band = max(float(group.band(_DEVIATIONS)) for group in groups)
    step = 1 / (float(jnp.max(jnp.abs(frequencies))) + band)
    # Both places of a pair must lie where the features reach; lags of either sign count alike.
    longest = float(jnp.max(2 * jnp.minimum(times - lo, hi - times)))
    count = 1 + max(0, int(min(longest / step, 1e12)))
    if count * len(times) > _MOST_PAIRS:
        raise ValueError(
            f"times and frequencies ask for {count * len(times):.0e} pairs of places: the kernel reaches from {lo:.3g} to {hi:.3g} and "
            "oscillates much faster; give fewer times, or use Posterior.spectrogram, which looks through a window."
        )
    size = min(_LAGS, 1 << (count - 1).bit_length())
    index = np.arange(count + -count % size)
    weights = step * np.where(index == 0, 1.0, 2.0) * (index < count)
    total = prior
    for start in range(0, count, size):
        some = slice(start, start + size)
        total = total + _data_wigner(posterior, times, frequencies, jnp.asarray(step * index[some]), jnp.asarray(weights[some]))
    require_finite("the Wigner distribution", total, posterior.basis.jitter)
    return total


@eqx.filter_jit
def _prior_wigner(kernel: Kernel, x: Array, w: Array) -> Array:
    return kernel.wigner(x[:, None], w[:, None])


@eqx.filter_jit
def _data_wigner(
    posterior: Posterior, x: Float[Array, " T"], w: Float[Array, " F"], lags: Float[Array, " L"], weights: Array
) -> Float[Array, "T F"]:
    m, root = posterior.mean_weights, posterior.root
    N = m[:, None] * jnp.conj(m) - jnp.eye(m.shape[0])
    if root is not None:
        N = N + root @ jnp.conj(root).T

    def one(x: Float[Array, ""]) -> Array:
        ahead, behind = (posterior.basis.project((x + side * lags / 2)[:, None]) for side in (1, -1))
        return weights * jnp.sum(jnp.conj(ahead) * (N @ behind), axis=0)

    values = jax.lax.map(one, x)
    cosine, sine = cos_sin(lags[:, None] * w)
    return values.real @ cosine + values.imag @ sine

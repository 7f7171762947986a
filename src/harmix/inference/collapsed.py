"""The collapsed variational bound: q(u) at its optimum, for a Gaussian likelihood (MATH.md section 5)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeVar, overload

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float, Inexact

from harmix.arguments import is_concrete, points, positive_number
from harmix.features.base import Basis, Features, make_basis
from harmix.kernels.base import Kernel
from harmix.linalg import Cholesky, adjoint, blockwise, cholesky, dense
from harmix.precision import entry_point
from harmix.summary import Summary, as_summary
from harmix.summary.guard import OutOfBandError, is_resolved, overreach, probe, refusal, tail

Tree = TypeVar("Tree")

# Nodes handled at a time: large enough to keep matrix products busy, small enough that a chunk of every
# intermediate stays in cache. What is held in memory is one chunk, whatever the number of nodes.
CHUNK = 4096


class Statistics(NamedTuple):
    """The sums over the data that the bound and the posterior are made of."""

    gram: Inexact[Array, "M M"]  # sum_n v_n A(x_n) A(x_n)^H
    projection: Inexact[Array, " M"]  # sum_n v_n A(x_n) y_n
    trace: Float[Array, ""]  # sum_n v_n k(x_n, x_n)
    tail: Float[Array, ""]  # how well a compressed summary resolves all this; 0 for exact data


class Diagnostics(NamedTuple):
    """How a bound was computed."""

    jitter: Float[Array, ""]  # added to the unit-scaled prior covariance of the features
    unexplained: Float[Array, ""]  # sum_n v_n (k(x_n, x_n) - Q_nn) / noise_variance: what the features miss
    tail: Float[Array, ""]  # estimated relative error of a compressed summary, 0 for exact data
    overreach: Float[Array, ""]  # reach of the kernel's spectrum over what the summary resolves, 0 for exact data


class Collapsed(NamedTuple):
    """The bound with the quantities that the optimal q(u) is made of."""

    bound: Float[Array, ""]
    mean: Inexact[Array, " M"]  # of the whitened features under the optimal q
    factor: Cholesky  # of their precision, I + gram / noise_variance
    diagnostics: Diagnostics


def gather(basis: Basis, summary: Summary) -> Statistics:
    """`Statistics` of weighted nodes, chunk by chunk; the derivative recomputes each chunk instead of storing it."""
    grid = summary.grid
    whitening = jax.lax.stop_gradient(basis.whitening)

    def chunk(x: Array, a: Array, b: Array) -> Statistics:
        rows, variance = basis.features.kuf(basis.kernel, x), basis.kernel.diagonal(x)
        gram, projection = _whitened_sums(rows, a, b, whitening)
        seen = jax.lax.stop_gradient((rows, variance))
        unresolved = jnp.zeros(()) if grid is None else tail(grid, probe(blockwise(whitening, seen[0]), seen[1]))
        return Statistics(gram, projection, jnp.dot(a, variance), unresolved)

    nodes, a, b = summary.nodes, summary.a, summary.b
    G = nodes.shape[0]
    if G <= CHUNK:
        return _with_whitening(chunk(nodes, a, b), basis)
    unit = 1 if grid is None else grid.order**grid.ndim  # panels stay whole
    count = -(-G // CHUNK)
    size = -(-G // (count * unit)) * unit
    count = -(-G // size)
    short = count * size - G
    # Fill up with copies of the first nodes (a whole number of panels) that count for nothing.
    nodes = jnp.concatenate([nodes, nodes[:short]])
    a, b = (jnp.concatenate([v, jnp.zeros(short, v.dtype)]) for v in (a, b))
    parts = (nodes.reshape(count, size, -1), a.reshape(count, size), b.reshape(count, size))

    def step(total: Statistics, part: tuple) -> tuple[Statistics, None]:
        new = jax.checkpoint(chunk, prevent_cse=False)(*part)
        added = jax.tree.map(jnp.add, total, new)
        return added._replace(tail=jnp.maximum(total.tail, new.tail)), None

    like = jax.eval_shape(chunk, *(p[0] for p in parts))
    start = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), like)
    return _with_whitening(jax.lax.scan(step, start, parts)[0], basis)


@jax.custom_jvp
def _whitened_sums(
    rows: Inexact[Array, "M n"], a: Float[Array, " n"], b: Inexact[Array, " n"], whitening: Inexact[Array, "B m m"]
) -> tuple[Inexact[Array, "M M"], Inexact[Array, " M"]]:
    """`sum_n a_n A_n A_n^H` and `sum_n b_n A_n`, `A = whitening rows`, for a `whitening` that is held fixed.

    Both factors of the first sum change with the rows, but one change is the adjoint of the other, and the whitening can be
    multiplied to what is `(M, M)`: a gradient takes one product of the size of this one, where JAX would take three.
    """
    A = blockwise(whitening, rows)
    return A @ adjoint(A * a), A @ b


def _whitened_sums_jvp(primals: tuple, tangents: tuple) -> tuple:
    rows, a, b, whitening = primals
    d_rows, d_a, d_b, _ = tangents
    A = blockwise(whitening, rows)
    gram, projection = _whitened_sums(*primals)
    d_gram, d_projection = jnp.zeros_like(gram), jnp.zeros_like(projection)
    # Data are not differentiated as a rule, and nothing is to be computed for their sake then.
    if not isinstance(d_rows, SymbolicZero):
        half = blockwise(whitening, d_rows @ adjoint(A * a))
        d_gram, d_projection = half + adjoint(half), blockwise(whitening, d_rows @ b)
    if not isinstance(d_a, SymbolicZero):
        d_gram += A @ adjoint(A * d_a)
    if not isinstance(d_b, SymbolicZero):
        d_projection += A @ d_b
    return (gram, projection), (d_gram, d_projection)


_whitened_sums.defjvp(_whitened_sums_jvp, symbolic_zeros=True)


def _with_whitening(stats: Statistics, basis: Basis) -> Statistics:
    """What whitening all the data at once changes, put to the sums: the same numbers, and their derivatives in it."""
    fixed, coloring = jax.lax.stop_gradient((basis.whitening, basis.coloring))
    change = jnp.eye(fixed.shape[-1]) + (basis.whitening - fixed) @ coloring
    gram = blockwise(change, adjoint(blockwise(change, stats.gram)))
    return stats._replace(gram=adjoint(gram), projection=blockwise(change, stats.projection))


def collapse(basis: Basis, noise_variance: Float[Array, ""], summary: Summary) -> Collapsed:
    """`h (-n log(c s2) + sum log v - log|B| - sum v|y|^2 / s2 + |L_B^-1 A y|^2 / s2^2 - tr(K - Q) / s2)`,

    `B = I + A A^H / s2`; `h = 1/2, c = 2 pi` for real data, `h = 1, c = pi` for complex data.
    """
    s2 = noise_variance
    stats = gather(basis, summary)
    complex_data = summary.is_complex or not basis.kernel.is_real
    half, constant = (1.0, jnp.pi) if complex_data else (0.5, 2 * jnp.pi)

    factor = cholesky(dense(jnp.eye(basis.size) + stats.gram / s2), jitter=0.0)
    white = factor.solve_lower(stats.projection) / s2
    unexplained = (stats.trace - jnp.real(jnp.trace(stats.gram))) / s2
    bound = half * (
        -summary.count * jnp.log(constant * s2)
        + summary.sum_log_weights
        - factor.logdet()
        - summary.sum_squares / s2
        + jnp.sum(jnp.abs(white) ** 2)
        - unexplained
    )
    diagnostics = Diagnostics(basis.jitter, unexplained, stats.tail, overreach(basis.kernel, summary))
    return Collapsed(bound, factor.solve_lower_adjoint(white), factor, diagnostics)


@eqx.filter_jit
def _collapse(kernel: Kernel, features: Features, noise_variance: Array, summary: Summary) -> Collapsed:
    return collapse(make_basis(kernel, features), noise_variance, summary)


@eqx.filter_jit
def _bound(kernel: Kernel, features: Features, noise_variance: Array, summary: Summary) -> tuple[Array, Diagnostics]:
    result = collapse(make_basis(kernel, features), noise_variance, summary)
    return result.bound, result.diagnostics


@overload
def collapsed_bound(
    kernel: Kernel, features: Features, noise_variance: Any, summary: Any, *, return_diagnostics: Literal[False] = ...
) -> Float[Array, ""]: ...


@overload
def collapsed_bound(
    kernel: Kernel, features: Features, noise_variance: Any, summary: Any, *, return_diagnostics: Literal[True]
) -> tuple[Float[Array, ""], Diagnostics]: ...


@entry_point
def collapsed_bound(
    kernel: Kernel, features: Features, noise_variance: Any, summary: Any, *, return_diagnostics: bool = False
) -> Any:
    """Lower bound on the log marginal likelihood, `log N(y | 0, Q + s2 I) - tr(K - Q) / (2 s2)`, `Q = Kfu Kuu^-1 Kuf`.

    For a complex kernel or complex data, `log CN(y | 0, Q + s2 I) - tr(K - Q) / s2`. Differentiable in the kernel, the
    features and the noise; memory does not grow with the number of data beyond the data themselves.

    Args:
        kernel: the prior.
        features: inducing features with M_total rows.
        noise_variance: `s2`, positive.
        summary: a `harmix.Summary`, or `(X, y)`.
        return_diagnostics: also return the jitter that was needed and what the features leave unexplained.

    Returns:
        The bound, a number; or the bound and `Diagnostics`.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> bound = hx.collapsed_bound(k, u, 0.1, hx.Summary.exact([0.0, 0.5, 1.0], [0.1, 0.2, 0.0]))
        >>> bool(bound <= hx.log_marginal_likelihood(k, 0.1, [0.0, 0.5, 1.0], [0.1, 0.2, 0.0]))
        True
    """
    summary = as_summary(summary)
    noise_variance = positive_number("noise_variance", noise_variance)
    points("the nodes of summary", summary.nodes, kernel.input_dim)
    bound, diagnostics = _bound(kernel, features, noise_variance, summary)
    bound = require_resolved(summary, bound, diagnostics)
    require_finite("collapsed_bound", bound, diagnostics.jitter)
    return (bound, diagnostics) if return_diagnostics else bound


def require_resolved(summary: Summary, value: Tree, diagnostics: Diagnostics) -> Tree:
    """`value`, unless the summary is too coarse for it: an error at once, or at run time where JAX is tracing."""
    resolved = is_resolved(summary, diagnostics.tail, diagnostics.overreach)
    if resolved is True:
        return value
    if is_concrete(resolved):
        if not resolved:
            raise OutOfBandError(refusal(summary, diagnostics.tail, diagnostics.overreach))
        return value
    return eqx.error_if(value, ~resolved, "the kernel or its features reach beyond the band of the summary (OutOfBandError)")


def require_finite(what: str, value: Array, jitter: Array) -> None:
    """Say what went wrong instead of handing out a NaN (only possible where the value is known)."""
    if is_concrete(value) and not jnp.all(jnp.isfinite(value)):
        raise FloatingPointError(
            f"{what} is not finite. The prior covariance of the features could not be factorised with a relative jitter of "
            f"{float(jitter):.0e}, or a parameter has overflowed: look for windows or lengthscales many orders of magnitude away "
            "from the range of the data, or for frequencies far outside the kernel's spectrum."
        )

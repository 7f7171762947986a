"""The only place that factorises matrices.

Large symmetric (Hermitian) matrices are `Blocks`: a batch of equal blocks along the diagonal. `dense` is one block,
`diagonal` is blocks of size one; every operation is written once, batched, and a matrix becomes dense only by `.to_dense()`.
Vectors and rows that go with `Blocks` are plain arrays of M = B m rows.

Jitter policy: what is added to the diagonal is relative to the natural scale of the matrix (its rows come with a `scale`),
starts at `JITTER`, grows tenfold until every block factorises, and is reported in the result.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Inexact

from harmix.precision import entry_point

JITTER = 1e-12
MAX_JITTER = 1e-3


class Blocks(eqx.Module):
    """A Hermitian matrix of B equal blocks of size m on the diagonal, `(B, m, m)`."""

    blocks: Inexact[Array, "B m m"]

    @property
    def size(self) -> int:
        """M, the number of rows."""
        return self.blocks.shape[0] * self.blocks.shape[1]

    def diagonal(self) -> Float[Array, " M"]:
        """The real diagonal."""
        return jnp.real(jnp.diagonal(self.blocks, axis1=1, axis2=2)).reshape(-1)

    def scaled(self, s: Float[Array, " M"]) -> Blocks:
        """`diag(s) K diag(s)`."""
        s = s.reshape(self.blocks.shape[:2])
        return Blocks(s[:, :, None] * self.blocks * s[:, None, :])

    def split(self, rows: Inexact[Array, "M *n"]) -> Inexact[Array, "B m *n"]:
        """Rows grouped by block."""
        return rows.reshape(*self.blocks.shape[:2], *rows.shape[1:])

    def restrict(self, matrix: Inexact[Array, "M M"]) -> Blocks:
        """The blocks of a dense matrix that lie where this one has its own."""
        B, m = self.blocks.shape[:2]
        index = jnp.arange(B)
        return Blocks(matrix.reshape(B, m, B, m)[index, :, index, :])

    @entry_point
    def to_dense(self) -> Inexact[Array, "M M"]:
        """The full matrix. The one place where structure is given up."""
        return jax.scipy.linalg.block_diag(*self.blocks)


def dense(matrix: Inexact[Array, "M M"]) -> Blocks:
    """A full matrix as one block."""
    return Blocks(matrix[None])


def diagonal(entries: Float[Array, " M"]) -> Blocks:
    """A diagonal matrix as blocks of size one."""
    return Blocks(entries[:, None, None])


class Cholesky(eqx.Module):
    """`K + diag(jitter) = L L^H`, blockwise, with the inverse of the factor.

    Attributes:
        lower: the factors `L`, `(B, m, m)`; NaN if even `MAX_JITTER` did not do.
        inverse: `L^-1`, `(B, m, m)`: applied to many columns as a matrix product.
        jitter: what was added to the diagonal, relative to its scale.
    """

    lower: Inexact[Array, "B m m"]
    inverse: Inexact[Array, "B m m"]
    jitter: Float[Array, ""]

    @property
    def size(self) -> int:
        """M, the number of rows."""
        return self.lower.shape[0] * self.lower.shape[1]

    def solve_lower(self, rows: Inexact[Array, "M *n"]) -> Inexact[Array, "M *n"]:
        """`L^-1 rows`."""
        return blockwise(self.inverse, rows)

    def solve_lower_adjoint(self, rows: Inexact[Array, "M *n"]) -> Inexact[Array, "M *n"]:
        """`L^-H rows`."""
        return blockwise(adjoint(self.inverse), rows)

    def logdet(self) -> Float[Array, ""]:
        """`log |K|`."""
        return 2 * jnp.sum(jnp.log(jnp.real(jnp.diagonal(self.lower, axis1=1, axis2=2))))


def blockwise(blocks: Inexact[Array, "B m m"], rows: Inexact[Array, "M *n"]) -> Inexact[Array, "M *n"]:
    """The product of a block-diagonal matrix with rows."""
    return jnp.matmul(blocks, rows.reshape(*blocks.shape[:2], -1)).reshape(rows.shape)


def adjoint(matrix: Inexact[Array, "*batch m n"]) -> Inexact[Array, "*batch n m"]:
    """The conjugate transpose."""
    return jnp.conj(jnp.swapaxes(matrix, -1, -2))


def cholesky(K: Blocks, *, jitter: float = JITTER, unit: float | None = None) -> Cholesky:
    """Factorises a matrix whose rows are of comparable scale (callers bring them to it; see `features.base`).

    Args:
        K: Hermitian positive semidefinite up to rounding.
        jitter: the smallest amount added, in units of `unit`; 0 for a matrix known to be well away from singular, which then
            only gets jitter when it needs it.
        unit: the scale of the diagonal; by default its largest entry.
    """
    largest = jax.lax.stop_gradient(jnp.max(K.diagonal())) if unit is None else jnp.asarray(unit, K.diagonal().dtype)
    return Cholesky(*_factorise(K.blocks, jnp.asarray(jitter, largest.dtype), largest))


@jax.custom_jvp
def _factorise(blocks: Array, jitter: Array, unit: Array) -> tuple[Array, Array, Array]:
    """`L`, `L^-1` and the jitter that was enough."""
    eye, usable = jnp.eye(blocks.shape[1]), jnp.all(jnp.isfinite(blocks))

    def failed(state: tuple[Array, Array, Array, Array]) -> Array:
        lower, _, amount, _ = state
        # A non-finite input fails at once: no jitter mends it.
        return ~jnp.all(jnp.isfinite(lower)) & usable & (amount < MAX_JITTER)

    def attempt(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        amount = state[3]
        return (*_factor_and_invert(blocks + amount * unit * eye), amount, jnp.maximum(10 * amount, JITTER))

    # The loop starts from a failure, so that what is long to compile is in the program once.
    nothing = jnp.full_like(blocks, jnp.nan)
    return jax.lax.while_loop(failed, attempt, (nothing, nothing, jitter, jitter))[:3]


@_factorise.defjvp
def _factorise_jvp(primals: tuple, tangents: tuple) -> tuple:
    # dL = L Phi(L^-1 dK L^-H), Phi the lower triangle with half the diagonal; the search for jitter is not differentiated.
    lower, inverse, jitter = _factorise(*primals)
    inner = inverse @ tangents[0] @ adjoint(inverse)
    phi = jnp.tril(inner) - inner * jnp.eye(inner.shape[-1]) / 2
    return (lower, inverse, jitter), (lower @ phi, -phi @ inverse, jnp.zeros_like(jitter))


# LAPACK below this size, halves above it. The BLAS that JAX calls starts its own threads for larger factorisations and for
# all triangular solves, and where the cores are busy these wait for one another: 200 ms in place of 1 for m = 256. Matrix
# products are XLA's own and do not. Far above, LAPACK's threads pay.
_SMALL, _LARGE = 96, 1024


def _factor_and_invert(K: Inexact[Array, "B m m"]) -> tuple[Inexact[Array, "B m m"], Inexact[Array, "B m m"]]:
    """`L` and `L^-1` by halves: `L = [[L1, 0], [W, L2]]`, `W = K21 L1^-H`, `L2 L2^H = K22 - W W^H`."""
    m = K.shape[-1]
    if m <= _SMALL or m > _LARGE:
        lower = _one_by_one(K)
        return lower, invert_lower(lower)
    h = m // 2
    L1, inverse1 = _factor_and_invert(K[:, :h, :h])
    W = K[:, h:, :h] @ adjoint(inverse1)
    W = W + (K[:, h:, :h] - W @ adjoint(L1)) @ adjoint(inverse1)  # as accurate as a triangular solve; see `_corrected`
    L2, inverse2 = _factor_and_invert(K[:, h:, h:] - W @ adjoint(W))
    zero = jnp.zeros_like(K[:, :h, h:])
    join = lambda A, C, D: jnp.concatenate([jnp.concatenate([A, zero], 2), jnp.concatenate([C, D], 2)], 1)
    lower = join(L1, W, L2)
    return lower, _corrected(lower, join(inverse1, -inverse2 @ (W @ inverse1), inverse2))


def _one_by_one(K: Inexact[Array, "B m m"]) -> Inexact[Array, "B m m"]:
    """Cholesky factors, one block after another.

    The batched LAPACK calls of jaxlib (before 0.11) spread a batch over XLA's threads and wait for them; where as many programs as
    there are threads do so at once, none is left to do the work, and all wait for ever.
    """
    return jnp.linalg.cholesky(K) if K.shape[0] == 1 else jax.lax.map(jnp.linalg.cholesky, K)


def _corrected(L: Inexact[Array, "B m m"], X: Inexact[Array, "B m m"]) -> Inexact[Array, "B m m"]:
    """One Newton step of an approximate inverse X, from the left.

    Where pivots are as small as the root of the jitter, 1e-6, the products that X is made of lose all that they cancel:
    `X L` is off by 1e-2, the variance a feature set explains exceeds the prior's, and the bound the evidence. After the
    step, rows `X k` are as good as by substitution.
    """
    return X + jnp.tril(jnp.eye(L.shape[-1]) - X @ L) @ X


def invert_lower(L: Inexact[Array, "B m m"]) -> Inexact[Array, "B m m"]:
    """The inverses of lower triangular matrices by matrix products alone: from the inverses of the diagonal blocks of size s
    those of size 2 s, all at once, `[[A, 0], [C, D]]^-1 = [[A^-1, 0], [-D^-1 C A^-1, D^-1]]`.
    """
    B, m, _ = L.shape
    size = 1 << (m - 1).bit_length()
    fill = jnp.diag((jnp.arange(size) >= m).astype(L.dtype))
    padded = jnp.pad(L, ((0, 0), (0, size - m), (0, size - m))) + fill
    inverse = (1 / jnp.diagonal(padded, axis1=1, axis2=2)).reshape(B, size, 1, 1)
    s = 1
    while s < size:
        count = size // (2 * s)
        pair = jnp.arange(count)
        # Advanced indices on both sides of a slice come first: (count, B, 2 s, 2 s).
        C = jnp.moveaxis(padded.reshape(B, count, 2 * s, count, 2 * s)[:, pair, :, pair, :], 0, 1)[:, :, s:, :s]
        A, D = inverse[:, 0::2], inverse[:, 1::2]
        upper = jnp.concatenate([A, jnp.zeros_like(A)], axis=3)
        inverse = jnp.concatenate([upper, jnp.concatenate([-D @ (C @ A), D], axis=3)], axis=2)
        s *= 2
    return _corrected(L, inverse[:, 0, :m, :m])


def inverse_root(precision: Blocks) -> Inexact[Array, "B m m"]:
    """Lower triangular `R` with `R R^H = precision^-1`, blockwise; NaN where the precision is not positive definite.

    With J the reversal of rows and `J precision J = G G^H`, `precision = U U^H` for the upper triangular `U = J G J`, and
    `R = U^-H`.
    """
    _, inverse = _factor_and_invert(precision.blocks[:, ::-1, ::-1])
    return adjoint(inverse[:, ::-1, ::-1])


def precision_of_root(root: Inexact[Array, "B m m"]) -> Blocks:
    """`(R R^H)^-1` for lower triangular R: the inverse of `inverse_root`."""
    inverse = invert_lower(root)
    return Blocks(adjoint(inverse) @ inverse)


def psd_factor(V: Inexact[Array, "*batch Q Q"]) -> Inexact[Array, "*batch Q Q"]:
    """Lower triangular `F` with `F F^H = V` for small, possibly singular matrices: V is lifted by 1e-10 of its trace (of 1 if
    V is zero).
    """
    trace = jnp.real(jnp.trace(V, axis1=-2, axis2=-1))[..., None, None]
    return jnp.linalg.cholesky(V + 1e-10 * jnp.where(trace > 0, trace, 1.0) * jnp.eye(V.shape[-1]))


# --- small covariances of the input or frequency space: (D,) is a diagonal, (D, D) a full matrix ----------------------


def apply(V: Inexact[Array, "..."], v: Float[Array, "*batch D"]) -> Inexact[Array, "*batch D"]:
    """`V v` for every vector in a batch."""
    return v * V if V.ndim == 1 else jnp.einsum("ij,...j->...i", V, v)


def quadratic(V: Inexact[Array, "..."], v: Float[Array, "*batch D"]) -> Inexact[Array, "*batch"]:
    """`v' V v` for every vector in a batch."""
    return jnp.sum(v * apply(V, v), axis=-1)


@jax.custom_jvp
def lags(X1: Float[Array, "n1 D"], X2: Float[Array, "n2 D"]) -> Float[Array, "n1 n2 D"]:
    """`x1 - x2` of all pairs, with gradients that are products with ones: XLA fuses much into a sum, and is slow at it."""
    return X1[:, None, :] - X2[None, :, :]


@lags.defjvp
def _lags_jvp(primals: tuple, tangents: tuple) -> tuple:
    ones1, ones2 = (jnp.ones(X.shape[0]) for X in primals)
    first, second = jnp.einsum("ad,b->abd", tangents[0], ones2), jnp.einsum("bd,a->abd", tangents[1], ones1)
    return lags(*primals), first - second


def inverse(V: Inexact[Array, "..."]) -> Inexact[Array, "..."]:
    """The inverse, of the same structure."""
    return 1 / V if V.ndim == 1 else jnp.linalg.inv(V)


def scale_both_sides(V: Float[Array, "..."], g: Float[Array, " D"]) -> Float[Array, "..."]:
    """`diag(g) V diag(g)`."""
    return V * g**2 if V.ndim == 1 else V * g[:, None] * g[None, :]


def product(*Vs: Float[Array, "..."]) -> Float[Array, "..."]:
    """The matrix product of covariances that are all diagonal or all full."""
    result = Vs[0]
    for V in Vs[1:]:
        result = result * V if V.ndim == 1 else result @ V
    return result


def log_normal(v: Float[Array, "*batch D"], V: Inexact[Array, "..."]) -> Inexact[Array, "*batch"]:
    """`log N(v | 0, V)`, the normal density with covariance V, as in MATH.md section 1; V may be complex with `|V| > 0`."""
    logdet = jnp.sum(jnp.log(V)) if V.ndim == 1 else jnp.linalg.slogdet(V)[1]
    return -0.5 * (quadratic(inverse(V), v) + logdet + V.shape[-1] * jnp.log(2 * jnp.pi))


def normal(v: Float[Array, "*batch D"], V: Float[Array, "..."]) -> Float[Array, "*batch"]:
    """`N(v | 0, V)`."""
    return jnp.exp(log_normal(v, V))

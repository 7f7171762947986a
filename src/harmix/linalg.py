"""The only place that factorises matrices."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

# --- small covariances of the input or frequency space: (D,) is a diagonal, (D, D) a full matrix ----------------------


def apply(V: Float[Array, "..."], v: Float[Array, "*batch D"]) -> Float[Array, "*batch D"]:
    """`V v` for every vector in a batch."""
    return v * V if V.ndim == 1 else jnp.einsum("ij,...j->...i", V, v)


def quadratic(V: Float[Array, "..."], v: Float[Array, "*batch D"]) -> Float[Array, "*batch"]:
    """`v' V v` for every vector in a batch."""
    return jnp.sum(v * apply(V, v), axis=-1)


def inverse(V: Float[Array, "..."]) -> Float[Array, "..."]:
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


def log_normal(v: Float[Array, "*batch D"], V: Float[Array, "..."]) -> Float[Array, "*batch"]:
    """`log N(v | 0, V)`, the normal density with covariance V, as in MATH.md section 1."""
    logdet = jnp.sum(jnp.log(V)) if V.ndim == 1 else jnp.linalg.slogdet(V)[1]
    return -0.5 * (quadratic(inverse(V), v) + logdet + V.shape[-1] * jnp.log(2 * jnp.pi))


def normal(v: Float[Array, "*batch D"], V: Float[Array, "..."]) -> Float[Array, "*batch"]:
    """`N(v | 0, V)`."""
    return jnp.exp(log_normal(v, V))

"""Natural gradients for q(u), real and complex, and the schedule that alternates them with Adam.

In natural parameters the natural gradient is the ordinary gradient in expectation parameters; for a whitened Gaussian q and
`g_n, h_n` the derivatives of `E_q log p(y_n | f_n)` in the mean and the variance of f_n, that is, with step rho,

    S'^-1     = (1 - rho) S^-1   + rho (I - c sum_n h_n A_n A_n^H),           c = 2 (real), 1 (complex)
    S'^-1 m'  = (1 - rho) S^-1 m + rho sum_n A_n (g_n - c h_n A_n^H m),

| q           | natural                  | expectation        |
| real        | (S^-1 m, -S^-1 / 2)      | (m, S + m m^T)     |
| complex     | (S^-1 m, -S^-1)          | (m, S + m m^H)     |

No derivative of a factorisation is taken, and a Gaussian likelihood is solved by one step of size 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from harmix.arguments import is_concrete, positive_number
from harmix.features.base import Basis, Features, make_basis
from harmix.inference.collapsed import require_finite
from harmix.inference.stochastic import (
    VariationalGaussian,
    batch_total,
    bound,
    checked_data,
    expected_log_likelihood,
    marginals,
)
from harmix.kernels.base import Kernel
from harmix.likelihoods import Likelihood
from harmix.linalg import Blocks, inverse_root, precision_of_root
from harmix.parameters import from_free, to_free
from harmix.precision import in_float64

# A likelihood that is not log-concave can ask for a precision that is not positive: the step is halved this often.
_HALVINGS = 12


def step(
    basis: Basis, likelihood: Likelihood, q: VariationalGaussian, X: Array, y: Array, rho: Any, n_total: Any
) -> VariationalGaussian:
    """One natural-gradient step on trusted arguments; see the module's docstring."""
    mean, variance, A = marginals(basis, q, X)
    total = lambda m, v: jnp.sum(expected_log_likelihood(likelihood, y, m, v)) * (n_total / X.shape[0])
    g, h = jax.grad(total, argnums=(0, 1))(mean, variance)
    # JAX returns dL/dx - i dL/dy for z = x + iy; the derivative that pairs with conj(z) is half its conjugate.
    g, c = (jnp.conj(g) / 2, 1.0) if q.is_complex else (g, 2.0)

    def update(m: Array, R: Array, g: Array, h: Array) -> tuple[Array, Array]:
        old = precision_of_root(R)
        rows = old.split(A)  # (B, m, n)
        target = jnp.eye(R.shape[-1]) - c * jnp.matmul(rows * h, jnp.conj(jnp.swapaxes(rows, 1, 2)))

        def root_after(rho: Array) -> Array:
            return inverse_root(Blocks((1 - rho) * old.blocks + rho * target))

        def too_far(state: tuple[Array, Any]) -> Array:
            return ~jnp.all(jnp.isfinite(root_after(state[0]))) & (state[1] < _HALVINGS)

        start = (jnp.asarray(rho, dtype=h.dtype), 0)
        size, _ = jax.lax.while_loop(too_far, lambda state: (state[0] / 2, state[1] + 1), start)
        roots = root_after(size)

        def block(moved: Array, part: tuple[Array, ...]) -> tuple[Array, Array]:
            # Blocks one after the other, each seeing what the ones before have changed: `c h` is the derivative of g in the
            # mean (Price's theorem), and all at once may overshoot where components overlap.
            A_b, m_b, P_b, R_b = part
            force = A_b @ (g + c * h * (moved - jnp.conj(A_b).T @ m_b))
            white = jnp.conj(R_b).T @ ((1 - size) * (P_b @ m_b) + size * force)
            new = R_b @ white
            return moved + jnp.conj(A_b).T @ (new - m_b), new

        _, means = jax.lax.scan(block, jnp.zeros(A.shape[1], m.dtype), (rows, old.split(m), old.blocks, roots))
        return means.reshape(m.shape), roots

    means, roots = jax.vmap(update, in_axes=(0, 0, 1, 1))(q.mean, q.lower, g, h)
    return eqx.tree_at(lambda q: (q.mean, q.root), q, (means, roots))


@eqx.filter_jit
def _step(
    kernel: Kernel, features: Features, likelihood: Likelihood, q: VariationalGaussian, X: Array, y: Array, rho: Array, n: Any
) -> VariationalGaussian:
    return step(make_basis(kernel, features), likelihood, q, X, y, rho, n)


@in_float64
def natural_gradient_step(
    kernel: Kernel,
    features: Features,
    likelihood: Likelihood,
    q: VariationalGaussian,
    X: Any,
    y: Any,
    *,
    step_size: float = 1.0,
    n_total: int | None = None,
) -> VariationalGaussian:
    """q(u) after one natural-gradient step up the stochastic bound.

    With a Gaussian likelihood and a dense q, a step of size 1 lands on the optimum, whatever it started from. Where the
    likelihood is not log-concave and the step would leave the covariances, it is halved until it does not.

    Args:
        kernel: the prior.
        features: inducing features.
        likelihood: one of `harmix.likelihoods`.
        q: where to start.
        X: `(n, D)` or `(n,)`; the data, or a minibatch of them.
        y: `(n,)`.
        step_size: in (0, 1].
        n_total: how many data a minibatch stands for.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> q, noise, data = hx.VariationalGaussian(u, k), hx.likelihoods.Gaussian(0.1), ([0.0, 1.0], [0.1, 0.2])
        >>> q = hx.natural_gradient_step(k, u, noise, q, *data)
        >>> bool(abs(hx.elbo(k, u, noise, q, *data) - hx.collapsed_bound(k, u, 0.1, data)) < 1e-9)
        True
    """
    X, y = checked_data(kernel, likelihood, q, X, y)
    rho = positive_number("step_size", step_size)
    if is_concrete(rho) and rho > 1:
        raise ValueError(f"step_size must be in (0, 1], got {step_size!r}.")
    result = _step(kernel, features, likelihood, q, X, y, rho, batch_total(n_total, X.shape[0]))
    require_finite("natural_gradient_step", result.root, jnp.zeros(()))
    return result


class Trained(NamedTuple):
    """What the alternating schedule ends in.

    Attributes:
        kernel: with learned parameters.
        features: with learned frequencies or locations.
        likelihood: with learned parameters.
        q: the variational distribution.
        history: the bound (its minibatch estimate) at each round, `(rounds,)`.
    """

    kernel: Kernel
    features: Features
    likelihood: Likelihood
    q: VariationalGaussian
    history: Float[np.ndarray, " rounds"]


def make_round(optimiser: optax.GradientTransformation, step_size: Any, n_total: float) -> Callable[..., Any]:
    """One round on trusted arguments: a natural-gradient step for q, then an Adam step for everything else."""

    def one_round(free: Any, static: Any, q: VariationalGaussian, state: Any, X: Array, y: Array) -> tuple[Any, ...]:
        def negative(free: Any, q: VariationalGaussian) -> Array:
            kernel, features, likelihood = from_free(eqx.combine(free, static))
            return -bound(kernel, features, likelihood, q, X, y, n_total)[0]

        kernel, features, likelihood = from_free(eqx.combine(free, static))
        q = step(make_basis(kernel, features), likelihood, q, X, y, step_size, n_total)
        loss, gradient = jax.value_and_grad(negative)(free, q)
        updates, state = optimiser.update(gradient, state, free)
        return optax.apply_updates(free, updates), q, state, -loss

    return one_round


@in_float64
def train_alternating(
    kernel: Kernel,
    features: Features,
    likelihood: Likelihood,
    X: Any,
    y: Any,
    *,
    q: VariationalGaussian | None = None,
    rounds: int = 1000,
    batch_size: int | None = None,
    step_size: float = 0.1,
    learning_rate: float = 0.01,
    key: Any = 0,
) -> Trained:
    """The paper's schedule: natural gradients for q, Adam for kernel, features and likelihood, in turn.

    All rounds run as one compiled program. Parameters move in unconstrained coordinates and stay admissible.

    Args:
        kernel: the prior to start from.
        features: the features to start from; their frequencies or locations are learned too.
        likelihood: one of `harmix.likelihoods`.
        X: `(n, D)` or `(n,)`.
        y: `(n,)`.
        q: where q starts; at the prior by default.
        rounds: how many.
        batch_size: size of the minibatches, drawn with replacement; all data by default.
        step_size: of the natural gradient, in (0, 1]; 1 for a Gaussian likelihood without minibatches.
        learning_rate: of Adam.
        key: a `jax.random` key or an integer seed, for minibatches.

    Example:
        >>> import harmix as hx
        >>> k, u = hx.kernels.SquaredExponential(1.0, 1.0), hx.features.InducingPoints([[0.0], [1.0]])
        >>> result = hx.train_alternating(k, u, hx.likelihoods.Bernoulli(), [0.0, 0.4, 1.0], [0.0, 1.0, 1.0], rounds=20)
        >>> bool(result.history[-1] > result.history[0])
        True
    """
    q = VariationalGaussian(features, kernel, n_latent=likelihood.n_latent) if q is None else q
    X, y = checked_data(kernel, likelihood, q, X, y)
    n = X.shape[0]
    for name, value in (("rounds", rounds), ("batch_size", n if batch_size is None else batch_size)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    key = jax.random.key(key) if isinstance(key, int) else key
    model, q, history = _train(
        (kernel, features, likelihood),
        q,
        X,
        y,
        key,
        positive_number("learning_rate", learning_rate),
        positive_number("step_size", step_size),
        rounds,
        batch_size if batch_size is not None and batch_size < n else None,
    )
    require_finite("the bound in train_alternating", history, jnp.zeros(()))
    kernel, features, likelihood = model
    return Trained(kernel, features, likelihood, q, np.asarray(history))


@eqx.filter_jit
def _train(
    model: Any,
    q: VariationalGaussian,
    X: Array,
    y: Array,
    key: Array,
    learning_rate: Array,
    step_size: Array,
    rounds: int,
    batch_size: int | None,
) -> tuple[Any, VariationalGaussian, Array]:
    optimiser = optax.adam(learning_rate)
    free, static = eqx.partition(to_free(model), eqx.is_inexact_array)
    one_round = make_round(optimiser, step_size, float(X.shape[0]))

    def scanned(carry: tuple, key: Array) -> tuple[tuple, Array]:
        rows = slice(None) if batch_size is None else jax.random.randint(key, (batch_size,), 0, X.shape[0])
        *carry, value = one_round(carry[0], static, *carry[1:], X[rows], y[rows])
        return tuple(carry), value

    start = (free, q, optimiser.init(free))
    (free, q, _), history = jax.lax.scan(scanned, start, jax.random.split(key, rounds))
    return from_free(eqx.combine(free, static)), q, history

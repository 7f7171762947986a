"""What every likelihood is: the probability of an observation given the latent, and its expectations."""

from __future__ import annotations

import abc
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, ParamSpec, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact

from harmix.arguments import is_concrete, numeric_array, show
from harmix.likelihoods.quadrature import Rule, bent_rule, expectation, peaked_rule, standard_deviation
from harmix.parameters import check_shapes
from harmix.precision import entry_point

P = ParamSpec("P")
T = TypeVar("T")

# Nodes of `expected_log_prob`. Worst error in value or slope, means in [-30, 30], relative to max(1, |.|):
#
#     nodes                                      20      32      40      48      Gauss-Hermite 20
#     logit, variance 100                        1e-5    7e-12   3e-14   3e-14   2e-2
#     probit, variance 100                       1e-4    1e-9    3e-11   1e-12   1e-2
#     Student-t (df 4, scale 0.1), variance 1    5e-4    2e-10   7e-13   7e-13   5e-2
#     the same, variance 1e4                     1e-3    1e-6    2e-9    3e-12   5e-2
BENT_NODES = 40
# Without a known bend: converged for functions that change over no less than a third of a standard deviation.
PLAIN_NODES = 160


def entry(method: Callable[P, T]) -> Callable[P, T]:
    """A method that may be called by a person (`entry_point`): arguments become arrays, and it is compiled.

    Inside the library, where everything is 64 bit and traced already, it costs nothing.
    """
    names = list(inspect.signature(method).parameters)[1:]
    compiled: Any = eqx.filter_jit(method)

    @entry_point
    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        self: Any = args[0]
        given = dict(zip(names, args[1:], strict=False)) | kwargs
        arrays = {k: numeric_array(k, v, allow_complex=self.allow_complex) for k, v in given.items()}
        return compiled(self, **arrays)

    return wrapped


class Likelihood(eqx.Module):
    """The distribution of an observation y given the latent f, an immutable pytree of its parameters.

    To write one, subclass and give `log_prob` and `moments`, the mean and variance of y given f. Everything
    else then follows by quadrature; override what has a closed form. One more thing only the author can know
    is `bend`, where `log_prob` turns sharply: it lets `expected_log_prob` use a quarter of the nodes and stay
    accurate under a wide Gaussian. `log_density` by quadrature is converged for likelihoods log-concave in f;
    others override it. The quadrature is over one latent: a likelihood of several gives `expected_log_prob`,
    `log_density` and `predict` itself, as `Softmax` does.

    All methods are vectorised over data, differentiable to any order in means, variances and parameters, and
    safe for variances from 0 to 1e6. Those given here, and all of the likelihoods in harmix, take lists and
    arrays and compute in 64 bit when called directly; your overrides do so when harmix calls them.

    Example:
        >>> import harmix as hx
        >>> class Laplace(hx.likelihoods.Likelihood):
        ...     def log_prob(self, y, f):
        ...         return -jnp.abs(y - f) - jnp.log(2.0)
        ...     def moments(self, f):
        ...         return f, 2.0 * jnp.ones_like(f)
        >>> Laplace().log_density([0.0], [0.0], [1.0]).shape
        (1,)
    """

    allow_complex: ClassVar[bool] = False

    def __check_init__(self) -> None:
        check_shapes(self)
        if self.n_latent != 1 and (missing := [k for k in _OVER_ONE_LATENT if getattr(type(self), k) is _OVER_ONE_LATENT[k]]):
            raise TypeError(
                f"{type(self).__name__} has {self.n_latent} latents, and {', '.join(missing)} of Likelihood are for one: "
                "override them."
            )

    # --- what an author writes ------------------------------------------------------------------------------

    @abc.abstractmethod
    def log_prob(self, y: Float[Array, "*#n"], f: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """`log p(y | f)`, elementwise; `f` has one more axis `(..., C)` if there are C > 1 latents."""

    @abc.abstractmethod
    def moments(self, f: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """Mean and variance of y given f, elementwise; `(..., C)` of the one-hot label if there are C > 1 latents."""

    @property
    def n_latent(self) -> int:
        """C, the number of independent latent functions."""
        return 1

    def bend(self, y: Float[Array, "*n"]) -> tuple[Any, Any] | None:
        """`(location, width)`: for complex f, `log_prob` is singular at `location +- i width`.

        Good to a factor of two is good enough. None if there is no such place or nobody knows.
        """
        return None

    def refuse(self, y: np.ndarray) -> str | None:
        """What is wrong with these labels and how to mend it, or None."""
        return None

    # --- what everybody calls -------------------------------------------------------------------------------

    @entry
    def expected_log_prob(
        self, y: Inexact[Array, "*#n"], mean: Inexact[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """`E log p(y | f)` over `f ~ N(mean, variance)`: the data term of a variational bound.

        Args:
            y: observations `(n,)`.
            mean: latent means, `(n,)` or `(n, C)`.
            variance: latent variances, as `mean`.

        Returns:
            `(n,)`.
        """
        y, mean, variance = jnp.broadcast_arrays(y, mean, variance)
        bend = self.bend(y)
        location, width = (mean, jnp.inf) if bend is None else bend
        rule = bent_rule(
            mean,
            variance,
            jnp.asarray(location, float),
            jnp.asarray(width, float),
            PLAIN_NODES if bend is None else BENT_NODES,
        )
        fn, args = self._log_prob_of(y)
        return expectation(fn, args, mean, variance, rule)

    @entry
    def log_density(
        self, y: Inexact[Array, "*#n"], mean: Inexact[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> Float[Array, "*n"]:
        """`log E p(y | f)` over `f ~ N(mean, variance)`: the predictive log density of each y.

        Args:
            y: observations `(n,)`.
            mean: latent means, `(n,)` or `(n, C)`.
            variance: latent variances, as `mean`.

        Returns:
            `(n,)`.
        """
        y, mean, variance = jnp.broadcast_arrays(y, mean, variance)
        fn, args = self._log_prob_of(y)
        stopped = jax.lax.stop_gradient(args)
        z, log_weights = peaked_rule(lambda f: fn(stopped, f[..., None])[..., 0], mean, variance)

        # The integral over its own value, which is a constant: 1, with the right derivatives and no overflow.
        m, sd = jax.lax.stop_gradient(mean), standard_deviation(jax.lax.stop_gradient(variance))
        f = m[..., None] + sd[..., None] * z
        value = jax.lax.stop_gradient(jax.nn.logsumexp(fn(stopped, f) + log_weights, axis=-1))
        scaled = lambda a, f: jnp.exp(fn(a[0], f) + a[1])
        rule = Rule(z, jnp.ones_like(z), jnp.full_like(mean, jnp.inf))
        ratio = expectation(scaled, (args, log_weights - value[..., None]), mean, variance, rule)
        return value + jnp.log(ratio)

    @entry
    def predict(
        self, mean: Inexact[Array, "*#n"], variance: Float[Array, "*#n"]
    ) -> tuple[Inexact[Array, "*n"], Float[Array, "*n"]]:
        """Mean and variance of a new observation whose latent is `N(mean, variance)`.

        Args:
            mean: latent means, `(n,)` or `(n, C)`.
            variance: latent variances, as `mean`.

        Returns:
            Mean and variance of y, shaped as `mean`.
        """
        mean, variance = jnp.broadcast_arrays(mean, variance)
        rule = bent_rule(mean, variance, mean, jnp.asarray(jnp.inf), PLAIN_NODES)
        params, static = eqx.partition(self, eqx.is_inexact_array)
        moments = lambda p, f: eqx.combine(p, static).moments(f)
        average = lambda fn: expectation(fn, params, mean, variance, rule)
        mean_y = average(lambda p, f: moments(p, f)[0])
        within = average(lambda p, f: moments(p, f)[1])
        centred = lambda a, f: (moments(a[0], f)[0] - a[1][..., None]) ** 2
        between = expectation(centred, (params, mean_y), mean, variance, rule)
        return mean_y, within + between

    def validate(self, y: Any) -> Inexact[Array, " n"]:
        """The labels as a 64-bit array, or an error that names the first misfit and what to do about it.

        Args:
            y: observations `(n,)`.
        """
        array = numeric_array("y", y, allow_complex=self.allow_complex)
        if array.ndim != 1:
            raise ValueError(f"y must have shape (n,), got shape {array.shape}; try y.ravel().")
        if is_concrete(array) and (complaint := self.refuse(np.asarray(array))) is not None:
            raise ValueError(f"{type(self).__name__}: {complaint}.")
        return array

    # --- helpers --------------------------------------------------------------------------------------------

    def _log_prob_of(self, y: Array) -> tuple[Callable[[Any, Array], Array], Any]:
        """`log_prob` as a function of its differentiable parts and of f with an axis of nodes."""
        args, static = eqx.partition((self, y), eqx.is_inexact_array)

        def fn(args: Any, f: Array) -> Array:
            likelihood, y = eqx.combine(args, static)
            return likelihood.log_prob(y[..., None], f)

        return fn, args


# What a likelihood of several latents has to give itself.
_OVER_ONE_LATENT = {name: getattr(Likelihood, name) for name in ("expected_log_prob", "log_density", "predict")}


def first_bad(y: np.ndarray, good: np.ndarray) -> str:
    """The first value that is not good and where it stands."""
    index = int(np.argmin(good))
    return f"got {show(y[index].item())} at position {index}"

"""What every likelihood is: a log-probability of the data given the latent, and Gaussian expectations of it."""

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
from harmix.likelihoods.quadrature import Rule, bent_rule, expectation, peaked_rule
from harmix.parameters import check_shapes

P = ParamSpec("P")
T = TypeVar("T")

# Nodes of `expected_log_prob`, measured over means in [-60, 60] with the bend known, as the worst error in the value
# relative to max(1, |value|). 20, 32, 40, 48 nodes reach, logit: 1e-7, 1e-12, 2e-14, 1e-14 at variance 100 and 5e-5, 1e-9,
# 1e-11, 2e-14 at 1e4; Student-t, whose bend is 500 times narrower than the Gaussian, at 1e4: 8e-5, 2e-7, 9e-10, 2e-12.
BENT_NODES = 40
# Without a known bend: converged for functions that change over no less than a third of a standard deviation.
PLAIN_NODES = 160


def entry(method: Callable[P, T]) -> Callable[P, T]:
    """A method that may be called by a person: its arguments become 64-bit arrays, and it is compiled.

    Inside the library, where everything is 64 bit already, it costs nothing.
    """
    names = list(inspect.signature(method).parameters)[1:]
    compiled = eqx.filter_jit(method)

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        self: Any = args[0]
        given = dict(zip(names, args[1:], strict=False)) | kwargs
        with jax.enable_x64(True):
            arrays = {k: numeric_array(k, v, allow_complex=self.allow_complex) for k, v in given.items()}
            return compiled(self, **arrays)

    return wrapped


class Likelihood(eqx.Module):
    """The distribution of an observation y given the latent f, an immutable pytree of its parameters.

    To write one, subclass and give `log_prob`. Everything else then follows by quadrature; override what has a closed
    form. Two things only the author can know: `moments`, the mean and variance of y given f, which `predict` needs; and
    `bend`, where `log_prob` turns sharply, which lets `expected_log_prob` use a quarter of the nodes and stay accurate
    under a wide Gaussian. `log_density` by quadrature is converged for likelihoods log-concave in f; others override it.

    All methods are vectorised over data, differentiable to any order in means, variances and parameters, and safe for
    variances from 0 to 1e6. Those given here, and all of the likelihoods in harmix, compute in 64 bit when called
    directly; your overrides do so when harmix calls them.

    Example:
        >>> import harmix as hx
        >>> class Laplace(hx.likelihoods.Likelihood):
        ...     def log_prob(self, y, f):
        ...         return -jnp.abs(y - f) - jnp.log(2.0)
        >>> Laplace().log_density([0.0], [0.0], [1.0]).shape
        (1,)
    """

    allow_complex: ClassVar[bool] = False

    def __check_init__(self) -> None:
        check_shapes(self)

    # --- what an author writes -------------------------------------------------------------------------------------

    @abc.abstractmethod
    def log_prob(self, y: Float[Array, "*#n"], f: Float[Array, "*n"]) -> Float[Array, "*n"]:
        """`log p(y | f)`, elementwise; `f` has one more axis `(..., C)` if there are C > 1 latents."""

    @property
    def n_latent(self) -> int:
        """C, the number of independent latent functions."""
        return 1

    def moments(self, f: Float[Array, "*n"]) -> tuple[Float[Array, "*n"], Float[Array, "*n"]]:
        """Mean and variance of y given f, elementwise."""
        raise NotImplementedError(
            f"{type(self).__name__} does not say what mean and variance y has given f: define moments(self, f), or "
            "override predict(self, mean, variance)."
        )

    def bend(self, y: Float[Array, "*n"]) -> tuple[Any, Any] | None:
        """`(location, width)`: `log_prob`, as a function of a complex f, is singular at `location +- i width`.

        Good to a factor of two is good enough. None if there is no such place or nobody knows.
        """
        return None

    def refuse(self, y: np.ndarray) -> str | None:
        """What is wrong with these labels and how to mend it, or None."""
        return None

    # --- what everybody calls --------------------------------------------------------------------------------------

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
        self._require_one_latent()
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
        """`log E p(y | f)` over `f ~ N(mean, variance)`: the predictive log density (or probability) of each y.

        Args:
            y: observations `(n,)`.
            mean: latent means, `(n,)` or `(n, C)`.
            variance: latent variances, as `mean`.

        Returns:
            `(n,)`.
        """
        self._require_one_latent()
        y, mean, variance = jnp.broadcast_arrays(y, mean, variance)
        fn, args = self._log_prob_of(y)
        stopped = jax.lax.stop_gradient(args)
        z, log_weights = peaked_rule(lambda f: fn(stopped, f[..., None])[..., 0], mean, variance)

        # The integral over its own value, which is a constant: 1, with the right derivatives and no overflow.
        f = jax.lax.stop_gradient(mean[..., None] + jnp.sqrt(jnp.maximum(variance, 0.0))[..., None] * z)
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
        self._require_one_latent()
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
        """The labels as a 64-bit array, or an error that names the first that does not fit and what to do about it.

        Args:
            y: observations `(n,)`.
        """
        array = numeric_array("y", y, allow_complex=self.allow_complex)
        if array.ndim != 1:
            raise ValueError(f"y must have shape (n,), got shape {array.shape}; try y.ravel().")
        if is_concrete(array) and (complaint := self.refuse(np.asarray(array))) is not None:
            raise ValueError(f"{type(self).__name__}: {complaint}.")
        return array

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _log_prob_of(self, y: Array) -> tuple[Callable[[Any, Array], Array], Any]:
        """`log_prob` as a function of its differentiable parts and of f with an axis of nodes."""
        args, static = eqx.partition((self, y), eqx.is_inexact_array)

        def fn(args: Any, f: Array) -> Array:
            likelihood, y = eqx.combine(args, static)
            return likelihood.log_prob(y[..., None], f)

        return fn, args

    def _require_one_latent(self) -> None:
        if self.n_latent != 1:
            raise NotImplementedError(
                f"{type(self).__name__} has {self.n_latent} latents: quadrature over one does not apply; override "
                "expected_log_prob, log_density and predict."
            )


def first_bad(y: np.ndarray, good: np.ndarray) -> str:
    """The first value that is not good and where it stands."""
    index = int(np.argmin(good))
    return f"got {show(y[index].item())} at position {index}"

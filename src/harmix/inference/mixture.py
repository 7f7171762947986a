"""Several posteriors, weighted: what is known where the hyperparameters are not known for sure."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Inexact

from harmix.arguments import numeric_array, points, show
from harmix.inference.posterior import Posterior, positive_count
from harmix.inference.power import Coefficients, Spectrogram, probability, spectrogram_of
from harmix.precision import entry_point, in_float64


class MixturePosterior(eqx.Module):
    """A mixture of posteriors: `p(f | y) = sum_k w_k p_k(f | y)`, with the methods of a single `Posterior`.

    Args:
        members: the posteriors, K of them.
        weights: `w`, `(K,)`, not negative; they are brought to the sum 1.

    Example:
        >>> import harmix as hx
        >>> data = [0.0, 1.0], [1.0, 2.0]
        >>> members = [hx.condition(hx.kernels.SquaredExponential(1.0, l), None, 0.1, data) for l in (0.5, 2.0)]
        >>> hx.MixturePosterior(members, [1.0, 3.0]).mean([0.0, 0.5, 1.0]).shape
        (3,)
    """

    members: tuple[Posterior, ...]
    weights: Float[Array, " K"]

    @in_float64
    def __init__(self, members: Any, weights: Any):
        self.members = tuple(members)
        weights = numeric_array("weights", weights)
        if weights.shape != (len(self.members),) or not (np.all(weights >= 0) and np.any(weights > 0)):
            raise ValueError(
                f"weights must be one for each of the {len(self.members)} members, not negative and not all 0, got {show(weights)}."
            )
        self.weights = weights / jnp.sum(weights)

    @entry_point
    def mean(self, X: Any) -> Inexact[Array, " n"]:
        """`sum_k w_k m_k(x)` at the rows of X, `(n, D)` or `(n,)`."""
        return self._average([m.mean(X) for m in self.members])

    @entry_point
    def variance(self, X: Any, *, noise: bool = False) -> Float[Array, " n"]:
        """`sum_k w_k (v_k(x) + |m_k(x) - m(x)|^2)`: what each member is unsure of, and what they disagree about."""
        means = [m.mean(X) for m in self.members]
        mean = self._average(means)
        within = self._average([m.variance(X, noise=noise) for m in self.members])
        return within + self._average([jnp.abs(m - mean) ** 2 for m in means])

    @entry_point
    def covariance(self, X1: Any, X2: Any = None) -> Inexact[Array, "n1 n2"]:
        """`Cov[f(x), f(x')]` between the rows of X1 and X2 (of X1 with itself when X2 is left out)."""
        X2 = X1 if X2 is None else X2
        left, right = ([m.mean(X) for m in self.members] for X in (X1, X2))
        within = self._average([m.covariance(X1, X2) for m in self.members])
        away = lambda means: [m - self._average(means) for m in means]
        between = [jnp.outer(a, jnp.conj(b)) for a, b in zip(away(left), away(right), strict=True)]
        return within + self._average(between)

    @entry_point
    def sample(self, key: Any, X: Any, n: int = 1, *, noise: bool = False) -> Inexact[Array, "n points"]:
        """n joint samples of `f` (with `noise=True` of new observations) at the rows of X, each from one member.

        Args:
            key: a `jax.random` key, or an integer seed.
            X: `(points, D)` or `(points,)`.
            n: how many samples.
            noise: add observation noise.
        """
        import jax

        n = positive_count("n", n)
        key = jax.random.key(key) if isinstance(key, int) else key
        choose, *keys = jax.random.split(key, len(self.members) + 1)
        which = np.asarray(jax.random.choice(choose, len(self.members), (n,), p=self.weights))
        places = points("X", X, self.members[0].kernel.input_dim)
        result = np.zeros((n, places.shape[0]), np.result_type(*(m.mean_weights.dtype for m in self.members)))
        for k, (member, own) in enumerate(zip(self.members, keys, strict=True)):
            rows = np.flatnonzero(which == k)
            if len(rows):
                result[rows] = member.sample(own, X, len(rows), noise=noise)
        return jnp.asarray(result)

    @entry_point
    def spectrogram(self, times: Any, frequencies: Any, width: Any, *, level: float = 0.9) -> Spectrogram:
        """The power of windowed Fourier coefficients; see `Posterior.spectrogram`. The band is that of the mixture."""
        from harmix.inference import timefrequency

        level = probability("level", level)
        each = [timefrequency.coefficients(m, times, frequencies, width) for m in self.members]
        stacked = Coefficients(*(jnp.stack(parts) for parts in zip(*each, strict=True)))
        return spectrogram_of(stacked, self.weights, times, frequencies, level=level)

    @entry_point
    def wigner(self, times: Any, frequencies: Any) -> Float[Array, "T F"]:
        """The expected Wigner-Ville distribution; see `Posterior.wigner`."""
        return self._average([m.wigner(times, frequencies) for m in self.members])

    def update(self, data: Any) -> MixturePosterior:
        """The members given further observations. Weights stay: they belong to the hyperparameters, which a new fit would revise."""
        return MixturePosterior([m.update(data) for m in self.members], self.weights)

    def _average(self, values: list[Any]) -> Array:
        return jnp.tensordot(self.weights, jnp.stack([jnp.asarray(v) for v in values]), axes=1)

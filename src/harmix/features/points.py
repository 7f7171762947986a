"""Inducing points: the process itself at chosen places, for any kernel."""

from __future__ import annotations

from jaxtyping import Array, Float, Inexact

from harmix.features.base import Features
from harmix.kernels.base import Kernel
from harmix.linalg import Blocks, dense
from harmix.parameters import parameter, real


class InducingPoints(Features):
    """`u_m = f(z_m)`.

    Args:
        locations: `z`, `(M, D)`.

    Example:
        >>> import harmix as hx
        >>> hx.features.InducingPoints([[0.0], [0.5], [1.0]]).locations.shape
        (3, 1)
    """

    locations: Float[Array, "M D"] = parameter("locations", real, "M D")

    def kuu(self, kernel: Kernel) -> Blocks:
        """`k(z, z')`."""
        return dense(kernel.gram(self.locations, self.locations))

    def kuf(self, kernel: Kernel, X: Float[Array, "n D"]) -> Inexact[Array, "M n"]:
        """`k(z, x)`."""
        return kernel.gram(self.locations, X)

"""The Gram matrix of a harmonizable mixture against as many squared exponentials: `python benchmarks/kernels.py`.

It must cost at most 2 times six SE Gram matrices at n = 2000, P = 6, Q = 3.
"""

from __future__ import annotations

import numpy as np
from timing import best_of

import harmix as hx

n, P, Q = 2000, 6, 3


def main() -> None:
    """Prints times and ratios."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, n)

    def mixture(complex_weights: bool, shared: bool) -> hx.kernels.HarmonizableMixture:
        F = rng.normal(size=(P, Q, Q)) + (1j * rng.normal(size=(P, Q, Q)) if complex_weights else 0)
        lengthscales = rng.uniform(0.3, 1, (1 if shared else P, 1))
        return hx.kernels.HarmonizableMixture(
            rng.uniform(-3, 3, (P, 1)),
            rng.uniform(0.5, 2, (P, 1)),
            lengthscales,
            rng.uniform(0, 3, (P, Q, 1)),
            F @ np.conj(np.swapaxes(F, 1, 2)),
        )

    exponentials = [hx.kernels.SquaredExponential(1.0, l) for l in rng.uniform(0.3, 1, P)]
    names = {
        "real weights": mixture(False, False),
        "Hermitian weights": mixture(True, False),
        "one lengthscale for all": mixture(False, True),
    }
    times = best_of(
        {f"{P} SE": lambda: [k(X) for k in exponentials], **{name: (lambda k=k: k(X)) for name, k in names.items()}},
        repetitions=25,
    )
    floor = times[f"{P} SE"]
    for name, seconds in times.items():
        print(f"{name:25s} {1e3 * seconds:8.1f} ms   {seconds / floor:5.2f} x {P} SE")


if __name__ == "__main__":
    main()

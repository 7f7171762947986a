"""Times of GPyTorch's SGPR; run by the benchmarks in GPyTorch's own environment. Prints one JSON line."""

import json
import sys
import time

import gpytorch
import numpy as np
import torch

torch.set_default_dtype(torch.float64)


class Model(gpytorch.models.ExactGP):
    """SGPR with an SE kernel."""

    def __init__(self, x, y, z, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
        self.covar_module = gpytorch.kernels.InducingPointKernel(base, z, likelihood)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def sgpr(n: int, M: int, repetitions: int) -> float:
    """Seconds of one collapsed bound with its gradient."""
    rng = np.random.default_rng(0)
    x = torch.tensor(np.sort(rng.uniform(0, 10, n)))[:, None]
    y = torch.sin(6 * np.pi * x[:, 0]) + 0.1 * torch.tensor(rng.normal(size=n))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Model(x, y, torch.linspace(0, 10, M)[:, None], likelihood).train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def step():
        model.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()

    step()
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    print(json.dumps({"sgpr": sgpr}[what](*map(int, numbers))))

"""Slow and obvious: likelihoods from scipy, integrals by thousands of nodes on hundreds of panels."""

import numpy as np
from scipy import special, stats

X, W = np.polynomial.legendre.leggauss(20)


def panels(breaks):
    """Gauss-Legendre nodes and weights on every interval between neighbouring breaks."""
    breaks = np.unique(breaks)
    half = np.diff(breaks)[:, None] / 2
    return (breaks[:-1, None] + half + half * X).ravel(), (half * W).ravel()


def around(place, scale):
    """Breaks at geometrically growing distances on both sides of a place."""
    steps = scale * 2.0 ** np.arange(-6, 60)
    return np.concatenate([place - steps, [place], place + steps])


def expected(g, mean, variance, place, scale):
    """`E g(f)` for `f ~ N(mean, variance)`, where g changes quickly near `place` over `scale`."""
    sd = np.sqrt(variance)
    reach = 12 + min(sd, 12)  # an integrand that grows as e^f has its bulk sd standard deviations out
    breaks = np.linspace(-reach, reach, 97)
    if sd > 0:
        breaks = np.concatenate([breaks, around((place - mean) / sd, scale / sd)])
    z, w = panels(breaks[np.abs(breaks) <= reach])
    return np.sum(w * stats.norm.pdf(z) * g(mean + sd * z))


def log_expected(log_g, mean, variance, place, scale):
    """`log E exp(log_g(f))`: find where the integrand is above exp(-60) of its peak, and integrate there."""
    if variance < 1e-20:
        return log_g(np.array([mean]))[0]
    sd = np.sqrt(variance)
    # In units of the deviation: next to a mean of 10, f itself does not resolve a deviation of 1e-6 to 1e-10.
    place, scale = (place - mean) / sd, scale / sd
    log_integrand = lambda z: log_g(mean + sd * z) + stats.norm.logpdf(z)
    ends = min(-14, place), max(14, place)
    grid = np.unique(np.concatenate([np.linspace(*ends, 2001), around(place, scale)]))
    for _ in range(3):
        value = log_integrand(grid)
        seen = np.flatnonzero(value > np.nanmax(value) - 60)
        low, high = grid[max(seen[0] - 1, 0)], grid[min(seen[-1] + 1, grid.size - 1)]
        breaks = np.concatenate([np.linspace(low, high, 301), around(place, scale)])
        grid = np.unique(breaks[(breaks >= low) & (breaks <= high)])
    z, w = panels(grid)
    value = log_integrand(z)
    return special.logsumexp(value, b=w)


# --- the distributions, by their names in scipy -----------------------------------------------------------


def log_prob(likelihood, y, f):
    """`log p(y | f)` for a scalar y and an array f."""
    name = type(likelihood).__name__
    if name == "Gaussian":
        return stats.norm.logpdf(y, f, np.sqrt(float(likelihood.variance)))
    if name == "StudentT":
        return stats.t.logpdf(y, float(likelihood.df), loc=f, scale=float(likelihood.scale))
    if name == "Poisson":
        rate = likelihood.exposure * np.exp(np.minimum(f, 300.0))
        return y * (f + np.log(likelihood.exposure)) - rate - special.gammaln(y + 1)
    if name == "Bernoulli":
        signed = (2 * y - 1) * f
        return stats.norm.logcdf(signed) if likelihood.link == "probit" else -np.logaddexp(0.0, -signed)
    if name == "Softmax":
        return np.take(f, int(y), axis=-1) - special.logsumexp(f, axis=-1)
    raise LookupError(f"say here what {name} is, independently of harmix")


def quick_place(likelihood, y):
    """Where `log p(y | f)` changes quickly, and over what distance."""
    name = type(likelihood).__name__
    if name == "StudentT":
        return y, float(likelihood.scale)
    if name == "Gaussian":
        return y, float(np.sqrt(likelihood.variance))
    if name == "Poisson":
        return np.log(max(y, 1) / likelihood.exposure), 1 / np.sqrt(y + 1)
    return 0.0, 1.0


def moments(likelihood, f):
    """Mean and variance of y given f."""
    name = type(likelihood).__name__
    if name == "Gaussian":
        return f, np.full_like(f, float(likelihood.variance))
    if name == "StudentT":
        df = float(likelihood.df)  # where there is no variance, inf, also where scipy says NaN for want of a mean
        return f, np.full_like(f, stats.t(df, scale=float(likelihood.scale)).var() if df > 2 else np.inf)
    if name == "Poisson":
        rate = likelihood.exposure * np.exp(f)
        return rate, rate
    if name == "Bernoulli":
        cdf = stats.norm.cdf if likelihood.link == "probit" else special.expit
        return cdf(f), cdf(f) * cdf(-f)
    if name == "Softmax":
        p = special.softmax(f, axis=-1)
        return p, p * (1 - p)
    raise LookupError(f"say here what {name} is, independently of harmix")


def tensor_expected(fn, mean, variance, step=0.2, reach=8.5):
    """`E fn(f)` over C <= 3 independent Gaussians, trapezoidal in C dimensions; fn maps (..., C) to (..., *any)."""
    z = np.arange(-reach, reach + step / 2, step)
    w = step * stats.norm.pdf(z)
    f = np.stack(np.meshgrid(*(m + np.sqrt(v) * z for m, v in zip(mean, variance, strict=True)), indexing="ij"), -1)
    total = fn(f)
    for _ in mean:
        total = np.tensordot(w, total, axes=(0, 0))
    return total


def gumbel(mean, variance, step=0.25, nodes=601):
    """Softmax as "f_k plus a Gumbel variable is the largest", by trapezoidal rules in u and f with the same steps throughout.

    For C classes with standard deviations up to 10: unlike harmix it neither looks for the place where something happens
    nor moves the class of highest mean to the front.

    Returns:
        `E log p(y = c | f)` and `E p(y = c | f)` for every class c.
    """
    sd = np.sqrt(variance)[:, None, None]
    reach = np.max(np.abs(mean)) + 9 * np.max(sd) + 45
    u = np.arange(-reach, reach, step)
    z = np.linspace(-9, 9, nodes)
    w = stats.norm.pdf(z) * (z[1] - z[0])
    x = np.minimum(u[:, None] + mean[:, None, None] + sd * z, 40.0)
    tail = np.minimum(-np.expm1(-np.exp(x)) @ w, 1 - 1e-16)  # 1 - phi_k(u), (C, U)
    psi = np.exp(x - np.exp(x)) @ w
    expected, p = [], []
    for c in range(len(mean)):
        log_others = np.sum(np.log1p(-np.delete(tail, c, axis=0)), axis=0)
        expected.append(step * np.sum((1 - tail[c]) * np.expm1(log_others)))
        p.append(step * np.sum(psi[c] * np.exp(log_others)))
    return np.array(expected), np.array(p)

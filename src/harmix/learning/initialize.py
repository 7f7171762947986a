"""Where learning starts: what local periodograms of uneven, gappy data say (MATH.md section 6 gives the sums).

For each window a constant, a slope and one oscillation are fitted together by weighted least squares, at every frequency: gaps
and uneven sampling need no care. What counts is not power but how far it stands out from the power at neighbouring
frequencies: a trend has more power than any line, but it has it everywhere. The best path of frequencies through the windows
(Viterbi's algorithm: gain, minus a price for every change) is a line; it is subtracted and the next is looked for.
Everything reads nodes and weights, so raw and compressed data take the same route.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.cluster.vq import kmeans2

from harmix.learning.models import Layout

# A line must stand out by this much (see `prominence`), on average over windows.
SIGNIFICANT = 4.0
# What a line pays for a change of its frequency by the spectral width of a window, in the same unit.
PRICE = 1.0
# Lines closer than so many spectral widths of a window are one.
MERGED = 3.0
# At most so many frequencies are tried.
LONGEST_SCAN = 3000


class Record(NamedTuple):
    """Data as initialisation sees them: weighted places with mean values.

    Attributes:
        x: `(G, D)`.
        v: weight of each place, `(G,)`: how many observations it stands for.
        y: mean observation there, `(G,)`.
        low: lowest corner, `(D,)`.
        span: range of the data, `(D,)`.
        highest: frequencies are looked for up to here, `(D,)`.
        variance: mean square of the observations.
        size: how many they are.
    """

    x: np.ndarray
    v: np.ndarray
    y: np.ndarray
    low: np.ndarray
    span: np.ndarray
    highest: np.ndarray
    variance: float
    size: float


class Proposal(NamedTuple):
    """A layout to start from, with the name it goes by in the history."""

    layout: Layout
    name: str


def window_centers(record: Record, P: int, seed: int) -> np.ndarray:
    """`(P, D)`: evenly spaced from end to end in one dimension, gaps included; k-means centres of the places in more."""
    D = record.x.shape[1]
    if D == 1:
        edges = np.linspace(0, 1, P) if P > 1 else np.array([0.5])
        return record.low + record.span * edges[:, None]
    unit = (record.x - record.low) / record.span
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(unit), min(len(unit), 5000), replace=False)
    centers, _ = kmeans2(unit[chosen], P, minit="++", seed=rng)
    return record.low + record.span * centers


def neighbours(centers: np.ndarray) -> np.ndarray:
    """Pairs `(E, 2)` of windows that are tied: consecutive ones in one dimension, a minimum spanning tree in more."""
    P, D = centers.shape
    if D == 1:
        return np.stack([np.arange(P - 1), np.arange(1, P)], axis=1)
    from scipy.sparse.csgraph import minimum_spanning_tree

    distance = np.linalg.norm((centers[:, None] - centers) / np.maximum(np.ptp(centers, axis=0), 1e-300), axis=-1)
    return np.stack(minimum_spanning_tree(distance + 1e-12).nonzero(), axis=1)


def natural_window(record: Record, P: int) -> np.ndarray:
    """The window `(D,)` that P of them fill the record with: as wide as their spacing."""
    D = record.x.shape[1]
    return record.span / max(P ** (1 / D) - 1, 1.0)


def periodogram(
    record: Record, residual: np.ndarray, centers: np.ndarray, window: np.ndarray, frequencies: np.ndarray
) -> np.ndarray:
    """Local power: what an oscillation explains in each window beyond a constant and a slope.

    Args:
        record: the data.
        residual: what is left to explain at the places, `(G,)`, real or complex.
        centers: `(P, D)`.
        window: `(D,)`.
        frequencies: `(F, D)`.

    Returns:
        The explained sum of squares in each window, `(P, F)`; weights are 1 at its centre.
    """
    power = np.empty((len(centers), len(frequencies)))
    for p, center in enumerate(centers):
        z = (record.x - center) / window
        near = np.sum(z**2, axis=1) < 12.0
        z, weight, r = z[near], record.v[near] * np.exp(-0.5 * np.sum(z[near] ** 2, axis=1)), residual[near]
        if len(r) < 3:
            power[p] = 0.0
            continue
        base = np.concatenate([np.ones((len(z), 1)), z], axis=1)  # constant and slope
        root = np.sqrt(weight)
        Q, _ = np.linalg.qr(base * root[:, None])
        data = root * r
        data = data - Q @ (Q.T @ data)
        power[p] = _explained(data, Q, root, record.x[near] - center, frequencies)
    return power


def _explained(data: np.ndarray, Q: np.ndarray, root: np.ndarray, x: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Squared length of `data` along cos and sin (one complex wave for complex data), each made orthogonal to Q."""
    result = np.empty(len(frequencies))
    for start in range(0, len(frequencies), 256):
        part = slice(start, start + 256)
        wave = np.exp(2j * np.pi * (frequencies[part] @ x.T)) * root  # (f, n)
        if np.iscomplexobj(data):
            wave = wave - (wave @ Q) @ Q.T
            norm = np.sum(np.abs(wave) ** 2, axis=1)
            result[part] = np.abs(np.conj(wave) @ data) ** 2 / np.maximum(norm, 1e-12 * np.sum(root**2))
            continue
        c, s = wave.real, wave.imag
        c, s = (u - (u @ Q) @ Q.T for u in (c, s))
        cc, ss, cs = np.sum(c * c, axis=1), np.sum(s * s, axis=1), np.sum(c * s, axis=1)
        dc, ds = c @ data, s @ data
        # A ridge: at frequencies that the window cannot tell from a slope the two are nearly dependent.
        ridge = 0.02 * np.sum(root**2)
        cc, ss = cc + ridge, ss + ridge
        result[part] = (ss * dc**2 - 2 * cs * dc * ds + cc * ds**2) / (cc * ss - cs**2)
    return result


def prominence(power: np.ndarray, frequencies: np.ndarray, resolution: np.ndarray) -> np.ndarray:
    """Gain in log likelihood `(P, F)` of a line over noise that has the power of its neighbourhood, `power / median - 1`, or
    its logarithm where that is large.

    The neighbourhood of a frequency reaches from 1/2.5 to 2.5 times it, and over 8 resolutions at least.
    """
    if frequencies.shape[1] > 1:
        background = np.median(power, axis=1, keepdims=True) * np.ones_like(power)
    else:
        f = frequencies[:, 0]
        background = np.empty_like(power)
        for i, center in enumerate(f):
            size = abs(center)
            reach = max(8 * resolution[0], 1.5 * size)
            near = (np.abs(f) > size / 2.5 - 8 * resolution[0]) & (np.abs(f - center) < reach)
            background[:, i] = np.median(power[:, near], axis=1)
    ratio = power / np.maximum(background, 1e-12 * np.max(power, initial=1e-300))
    return np.maximum(ratio - 1, 0) / (1 + 0.02 * np.maximum(ratio - 1, 0))


def path(gain: np.ndarray, frequencies: np.ndarray, edges: np.ndarray, price: float) -> np.ndarray:
    """The frequencies `(P,)` (as indices) along a chain or tree of windows that earn most: `sum gain - price |change|`.

    Args:
        gain: `(P, F)`.
        frequencies: `(F, D)`.
        edges: `(P - 1, 2)`, a tree.
        price: of a change by one unit of frequency; infinite for a single frequency throughout.
    """
    P = gain.shape[0]
    if P == 1 or np.isinf(price):
        return np.full(P, int(np.argmax(np.sum(gain, axis=0))))
    distance = price * np.linalg.norm(frequencies[:, None] - frequencies[None], axis=-1)
    tree: dict[int, list[int]] = {p: [] for p in range(P)}
    for i, j in edges:
        tree[int(i)].append(int(j))
        tree[int(j)].append(int(i))
    order, parent = [0], {0: -1}
    for node in order:
        for other in tree[node]:
            if other != parent[node]:
                parent[other] = node
                order.append(other)
    message, choice = gain.copy(), {}
    for node in reversed(order[1:]):
        reach = message[node][None] - distance  # (to, from)
        choice[node] = np.argmax(reach, axis=1)
        message[parent[node]] += np.max(reach, axis=1)
    found = np.zeros(P, int)
    found[0] = int(np.argmax(message[0]))
    for node in order[1:]:
        found[node] = choice[node][found[parent[node]]]
    return found


def local_fit(
    record: Record, residual: np.ndarray, centers: np.ndarray, window: np.ndarray, frequencies: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A constant, a slope and an oscillation fitted in every window and blended: `(G,)`; and the amplitudes `(P,)`."""
    total, weights = np.zeros(len(residual), residual.dtype), np.zeros(len(residual))
    amplitude = np.zeros(len(centers))
    for p, center in enumerate(centers):
        z = (record.x - center) / window
        shape = np.exp(-0.5 * np.sum(z**2, axis=1)) + 1e-30
        wave = np.exp(2j * np.pi * ((record.x - center) @ frequencies[p]))
        waves = wave[:, None] if np.iscomplexobj(residual) else np.stack([wave.real, wave.imag], axis=1)
        base = np.concatenate([np.ones((len(z), 1)), z], axis=1)
        columns = np.concatenate([base, waves], axis=1) * np.sqrt(record.v * shape)[:, None]
        normal = np.conj(columns).T @ columns
        normal += 0.02 * (np.real(np.trace(normal)) / len(normal)) * np.eye(len(normal))
        found = np.linalg.lstsq(normal, np.conj(columns).T @ (np.sqrt(record.v * shape) * residual), rcond=None)[0]
        oscillation = waves @ found[base.shape[1] :]
        amplitude[p] = np.linalg.norm(found[base.shape[1] :])
        total, weights = total + shape * oscillation, weights + shape
    return total / weights, amplitude


def scan(record: Record, window: np.ndarray, *, real: bool, seed: int) -> np.ndarray:
    """Frequencies to try, `(F, D)`: a grid finer than a window's spectral width, random directions in D > 1."""
    D = len(window)
    if D == 1:
        step = 0.2 / (2 * np.pi * window[0]) * 2
        lowest = 0.5 / (2.5 * window[0])  # below, it is part of the trend
        count = int(min(LONGEST_SCAN, max((record.highest[0] - lowest) / step, 8)))
        positive = np.linspace(lowest, max(record.highest[0], 1.5 * lowest), count)
        return (positive if real else np.concatenate([-positive[::-1], positive]))[:, None]
    rng = np.random.default_rng(seed)
    found = rng.uniform(-1, 1, (LONGEST_SCAN // 2, D)) * record.highest
    return found * rng.uniform(0, 1, (len(found), 1)) ** 0.5


def propose(
    record: Record, *, P: int, lines: int, drifting: bool, real: bool = True, rng: np.random.Generator, jitter: float = 0.0
) -> Proposal:
    """A layout of P windows with a trend and up to so many lines, as the data suggest.

    Args:
        record: the data.
        P: how many windows.
        lines: at most so many, besides the trend at frequency 0.
        drifting: whether lines may change their frequency from window to window.
        real: whether the process is real.
        rng: for jitter.
        jitter: relative noise on powers, so that restarts look elsewhere.
    """
    seed = int(rng.integers(2**31))
    D = record.x.shape[1]
    centers = window_centers(record, P, seed)
    P = len(centers)
    edges, window = neighbours(centers), natural_window(record, P)
    tried = scan(record, window, real=real, seed=seed)
    level = np.sum(record.v * record.y) / np.sum(record.v)
    residual = record.y - level
    variance = max(float(np.sum(record.v * np.abs(residual) ** 2) / np.sum(record.v)), 1e-300)
    found, amplitudes = [np.zeros((P, D))], [np.sqrt(variance / 2)]
    width = 1 / (2 * np.pi * window)
    for _ in range(2 * lines):
        if len(found) > lines:
            break
        power = periodogram(record, residual, centers, window, tried)
        gain = prominence(power, tried, 2 * width)
        noisy = gain * np.exp(jitter * rng.standard_normal(gain.shape[1])) if jitter else gain
        price = float(PRICE / np.mean(width)) if drifting else np.inf
        chosen = path(noisy, tried, edges, price)
        if np.mean(gain[np.arange(P), chosen]) < SIGNIFICANT and len(found) > 1:
            break
        frequencies = tried[chosen]
        oscillation, amplitude = local_fit(record, residual, centers, window, frequencies)
        residual = residual - oscillation
        if any(np.mean(np.linalg.norm((frequencies - f) / width, axis=1)) < MERGED for f in found[1:]):
            continue  # what a line that is not quite steady has left behind
        found.append(frequencies)
        amplitudes.append(max(float(np.sqrt(np.mean(amplitude**2) / 2)), 1e-3 * np.sqrt(variance)))
    left = _roughness(record, residual)
    noise_variance = np.clip(left, 1e-4 * variance, variance)
    # Windows overlap: P of them, as wide as their spacing, add up to sqrt(2 pi) of one in each dimension.
    overlap = 0.25 * D * np.log(2 * np.pi) if P > 1 else 0.0
    layout = Layout(
        centers=jnp.asarray(centers),
        edges=edges,
        window=jnp.asarray(window),
        lengthscale=jnp.asarray(0.5 * window),
        frequencies=jnp.asarray(np.stack(found)),
        drift=jnp.asarray(width if drifting else np.zeros(D)),
        amplitudes=jnp.asarray(np.log(amplitudes) - overlap),
        noise=jnp.asarray(np.log(noise_variance)),
        real=real,
    )
    return Proposal(layout, f"{P} windows, {len(found) - 1} {'drifting' if drifting else 'steady'} line(s)")


def _roughness(record: Record, residual: np.ndarray) -> float:
    """Variance of what neighbouring places do not share."""
    if record.x.shape[1] == 1:
        order = np.argsort(record.x[:, 0])
        return float(np.median(np.abs(np.diff(residual[order])) ** 2) / (2 * 0.455))
    return 0.1 * float(np.mean(np.abs(residual) ** 2))

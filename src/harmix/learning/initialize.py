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
from harmix.summary import Summary

# A line must stand out by this much (see `prominence`), on average over windows.
SIGNIFICANT = 4.0
# And by this much where its frequency may change within windows: of so many candidates noise alone finds some that reach 6.
SIGNIFICANT_CHIRP = 7.0
# What a line pays for a change of its frequency by the spectral width of a window, in the same unit.
PRICE = 1.0
# A trend with less than this share of the variance is left out.
NO_TREND = 0.02
# Lines closer than so many spectral widths of a window are one.
MERGED = 3.0
# Rates that are tried, in spectral widths of a window by its width: up to what sweeps the frequency of a line through many widths.
_RATES = 2.4 * np.arange(-5, 6)
_STEADY = np.zeros(1)
# At most so many frequencies are tried.
LONGEST_SCAN = 3000


class Record(NamedTuple):
    """Data as initialisation sees them: sums over the data are sums over places, `sum_n F(x_n) y_n = sum_g F(x_g) b_g`.

    Attributes:
        x: `(G, D)`.
        a: how many observations each place stands for, `(G,)`; negative ones too where data are compressed.
        b: the sum of those observations, `(G,)`.
        low: lowest corner, `(D,)`.
        span: range of the data, `(D,)`.
        highest: frequencies are looked for up to here, `(D,)`.
        variance: mean square of the observations.
        exact: whether places are data, so that neighbours can be compared.
    """

    x: np.ndarray
    a: np.ndarray
    b: np.ndarray
    low: np.ndarray
    span: np.ndarray
    highest: np.ndarray
    variance: float
    exact: bool


def record_of(summary: Summary, max_frequency: np.ndarray | None = None) -> Record:
    """What initialisation needs of a summary.

    Args:
        summary: exact or compressed.
        max_frequency: up to where frequencies are looked for, `(D,)`; by default half the mean sampling rate outside gaps, and
            what a compressed summary resolves.
    """
    a = np.asarray(summary.a)
    used = a != 0
    x, a, b = np.asarray(summary.nodes)[used], a[used], np.asarray(summary.b)[used]
    low, high = x.min(axis=0), x.max(axis=0)
    span = np.where(high > low, high - low, 1.0)
    if max_frequency is None:
        max_frequency = half_sampling_rate(x) if summary.grid is None else 0.5 * np.asarray(summary.grid.max_frequency)
    variance = max(float(summary.sum_squares) / max(float(np.sum(a)), 1e-300), 1e-300)
    return Record(x, a, b, low, span, np.maximum(max_frequency, 0.5 / span), variance, summary.grid is None)


def half_sampling_rate(x: np.ndarray) -> np.ndarray:
    """Half the mean sampling rate `(D,)`; in one dimension without its gaps, in more as if on a grid."""
    n, D = x.shape
    if D > 1:
        return 0.5 * n ** (1 / D) / np.maximum(np.ptp(x, axis=0), 1e-300)
    spacing = np.diff(np.unique(x[:, 0]))
    if len(spacing) == 0:
        return np.zeros(1)
    dense = spacing[spacing <= 6 * np.median(spacing)]
    return np.array([0.5 / np.mean(dense)])


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
    record: Record, b: np.ndarray, centers: np.ndarray, window: np.ndarray, frequencies: np.ndarray, rates: np.ndarray = _STEADY
) -> np.ndarray:
    """Local power: what an oscillation explains in each window beyond a constant and a slope.

    Args:
        record: the data.
        b: what is left to explain, summed at the places, `(G,)`, real or complex.
        centers: `(P, D)`.
        window: `(D,)`.
        frequencies: at the centre of the window, `(F, D)`.
        rates: at which they change along the first axis, `(R,)`.

    Returns:
        The explained sum of squares in each window, `(P, R, F)`, or `(P, F)` for the one rate 0; weights are 1 at its centre.
    """
    power = np.zeros((len(centers), len(rates), len(frequencies)))
    for p, center in enumerate(centers):
        z = (record.x - center) / window
        near = np.sum(z**2, axis=1) < 12.0
        if np.count_nonzero(near) < 3:
            continue
        z, shape = z[near], np.exp(-0.5 * np.sum(z[near] ** 2, axis=1))
        base = np.concatenate([np.ones((len(z), 1)), z], axis=1)  # constant and slope
        power[p] = _explained(shape * record.a[near], shape * b[near], base, record.x[near] - center, frequencies, rates)
    return power if rates is not _STEADY else power[:, 0]


def _explained(
    a: np.ndarray, b: np.ndarray, base: np.ndarray, x: np.ndarray, frequencies: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """What cos and sin (one wave, for complex data) add to a weighted least-squares fit of `base`, `(R, F)`: by normal equations."""
    count = float(np.sum(a))
    result = np.zeros((len(rates), len(frequencies)))
    if count <= 0:
        return result
    inverse = np.linalg.pinv((base.T * a) @ base, rcond=1e-10)
    level = inverse @ (base.T @ b)
    # Sums of waves over the data for all rates at once, as matrix products: what chirps is put with the data.
    chirps = np.exp(1j * np.pi * rates[:, None] * x[:, 0] ** 2)  # (R, n)
    columns = np.concatenate([[np.conj(b)], (base * a[:, None]).T])  # the data, and the base
    turned = (chirps[:, None] * columns).reshape(-1, len(x)).T
    twice = (chirps**2 * a).T
    for start in range(0, len(frequencies), 256):
        part = slice(start, start + 256)
        steady = np.exp(2j * np.pi * (frequencies[part] @ x.T))  # (f, n)
        sums = np.moveaxis((steady @ turned).reshape(len(steady), len(rates), -1), 0, 1)  # (R, f, 1 + base)
        data, cross = np.conj(sums[..., 0]), sums[..., 1:]
        if np.iscomplexobj(b):
            norm = count - np.real(np.sum((np.conj(cross) @ inverse) * cross, axis=-1))
            left = data - np.conj(cross) @ level
            result[:, part] = np.abs(left) ** 2 / np.maximum(norm, 0.02 * count)
            continue
        double, left = (steady**2 @ twice).T, np.conj(data) - cross @ level
        c, s = cross.real, cross.imag
        # A ridge: at frequencies that the window cannot tell from a slope the two are nearly dependent.
        cc = (count + double.real) / 2 - np.sum((c @ inverse) * c, axis=-1) + 0.02 * count
        ss = (count - double.real) / 2 - np.sum((s @ inverse) * s, axis=-1) + 0.02 * count
        cs = double.imag / 2 - np.sum((c @ inverse) * s, axis=-1)
        dc, ds = left.real, left.imag
        gain = ss * dc**2 - 2 * cs * dc * ds + cc * ds**2
        result[:, part] = gain / np.maximum(cc * ss - cs**2, 1e-12 * count**2)
    return np.maximum(result, 0.0)


def background(power: np.ndarray, frequencies: np.ndarray, resolution: np.ndarray) -> np.ndarray:
    """The median power `(P, F)` of the neighbourhood of each frequency, which reaches from 1/2.5 to 2.5 times it, and over 8
    resolutions at least.
    """
    if frequencies.shape[1] > 1:
        return np.median(power, axis=1, keepdims=True) * np.ones_like(power)
    f = frequencies[:, 0]
    result = np.empty_like(power)
    for i, center in enumerate(f):
        size = abs(center)
        reach = max(8 * resolution[0], 1.5 * size)
        near = (np.abs(f) > size / 2.5 - 8 * resolution[0]) & (np.abs(f - center) < reach)
        result[:, i] = np.median(power[:, near], axis=1)
    return result


def prominence(power: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Gain in log likelihood `(P, F)` of a line over noise that has the power of its neighbourhood, `power / floor - 1`, or its
    logarithm where that is large.
    """
    ratio = power / np.maximum(floor, 1e-12 * np.max(power, initial=1e-300))
    return np.maximum(ratio - 1, 0) / (1 + 0.02 * np.maximum(ratio - 1, 0))


def path(
    gain: np.ndarray, frequencies: np.ndarray, edges: np.ndarray, price: float, sweeps: np.ndarray | None = None
) -> np.ndarray:
    """The frequencies `(P,)` (as indices) along a chain or tree of windows that earn most: `sum gain - price |change|`.

    Args:
        gain: `(P, F)`.
        frequencies: `(F, D)`.
        edges: `(P - 1, 2)`, a tree.
        price: of a change by one unit of frequency; infinite for a single frequency throughout.
        sweeps: by how much the frequency would change to the next window as it changes in this one, `(P, F)`: a change like that of
            both is free.
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
        away = distance
        if sweeps is not None:
            sign = 1.0 if parent[node] < node else -1.0
            half = sign * sweeps / 2
            expected = frequencies[:, 0] + half[parent[node]], frequencies[:, 0] - half[node]
            away = price * np.abs(expected[0][:, None] - expected[1][None])
        reach = message[node][None] - away  # (to, from)
        choice[node] = np.argmax(reach, axis=1)
        message[parent[node]] += np.max(reach, axis=1)
    found = np.zeros(P, int)
    found[0] = int(np.argmax(message[0]))
    for node in order[1:]:
        found[node] = choice[node][found[parent[node]]]
    return found


def local_fit(
    record: Record, b: np.ndarray, centers: np.ndarray, window: np.ndarray, frequencies: np.ndarray, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A constant, a slope and an oscillation (frequencies `(P, D)` that change at `rates`, `(P,)`), fitted in every window and blended:
    the oscillation `(G,)`, its amplitudes `(P,)`, and the whole fit `(G,)`.
    """
    kind = np.result_type(b, float)
    oscillation, whole, weights = np.zeros(len(b), kind), np.zeros(len(b), kind), np.zeros(len(b))
    amplitude = np.zeros(len(centers))
    for p, center in enumerate(centers):
        z = (record.x - center) / window
        shape = np.exp(-0.5 * np.sum(z**2, axis=1)) + 1e-30
        x = record.x - center
        wave = np.exp(2j * np.pi * (x @ frequencies[p] + rates[p] * x[:, 0] ** 2 / 2))
        waves = wave[:, None] if np.iscomplexobj(b) else np.stack([wave.real, wave.imag], axis=1)
        columns = np.concatenate([np.ones((len(z), 1)), z, waves], axis=1)
        normal = (np.conj(columns).T * (record.a * shape)) @ columns
        normal += 0.02 * (np.real(np.trace(normal)) / len(normal)) * np.eye(len(normal))
        found = np.linalg.pinv(normal, rcond=1e-10) @ (np.conj(columns).T @ (shape * b))
        wavy = columns[:, 1 + z.shape[1] :] @ found[1 + z.shape[1] :]
        amplitude[p] = np.linalg.norm(found[1 + z.shape[1] :])
        oscillation, whole, weights = oscillation + shape * wavy, whole + shape * (columns @ found), weights + shape
    return oscillation / weights, amplitude, whole / weights


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
    residual = record.b
    variance = record.variance
    found, amplitudes = list[np.ndarray](), list[float]()
    width = 1 / (2 * np.pi * window)
    chirping = drifting and D == 1 and P > 1
    rates = _RATES * width[0] / window[0] if chirping else np.zeros(1)
    for _ in range(2 * lines):
        if len(found) == lines:
            break
        every = periodogram(record, residual, centers, window, tried, rates)  # (P, R, F)
        floor = background(every[:, len(rates) // 2], tried, 2 * width)
        # What would reach frequency 0 within its window is no line.
        every = (
            np.where(np.abs(rates[:, None]) * float(np.mean(window)) <= np.abs(tried[:, 0]), every, 0.0) if chirping else every
        )
        fastest = np.argmax(every, axis=1)
        gain = prominence(np.max(every, axis=1), floor)
        noisy = gain * np.exp(jitter * rng.standard_normal(gain.shape[1])) if jitter else gain
        sweeps = rates[fastest] * float(np.mean(window)) if chirping else None
        chosen = path(noisy, tried, edges, PRICE / float(np.mean(width)) if drifting else np.inf, sweeps)
        if np.mean(gain[np.arange(P), chosen]) < (SIGNIFICANT_CHIRP if chirping else SIGNIFICANT):
            break
        frequencies, changing = tried[chosen], rates[fastest[np.arange(P), chosen]]
        oscillation, amplitude, _ = local_fit(record, residual, centers, window, frequencies, changing)
        residual = residual - record.a * oscillation
        if any(np.mean(np.linalg.norm((frequencies - f) / width, axis=1)) < MERGED for f in found):
            continue  # what a line that is not quite steady has left behind
        found.append(frequencies)
        amplitudes.append(max(float(np.sqrt(np.mean(amplitude**2) / 2)), 1e-3 * np.sqrt(variance)))
    # A trend, at frequency 0, comes first, unless lines leave nothing of the kind.
    still = np.zeros((P, D))
    _, _, smooth = local_fit(record, residual, centers, window, still, np.zeros(P))
    slow = max(float(np.sum(record.a * np.abs(smooth) ** 2)) / float(np.sum(record.a)), 0.0)
    if slow > NO_TREND * variance or not found:
        found.insert(0, still)
        amplitudes.insert(0, float(np.sqrt(max(slow, 0.1 * variance))))
    noise_variance = np.clip(_noise(record, residual), 1e-4 * variance, variance)
    # Windows overlap: P of them, as wide as their spacing, add up to sqrt(2 pi) of one in each dimension.
    overlap = 0.25 * D * np.log(2 * np.pi) if P > 1 else 0.0
    layout = Layout(
        centers=jnp.asarray(centers),
        edges=edges,
        window=jnp.asarray(window),
        frequencies=jnp.asarray(np.stack(found)),
        drift=jnp.asarray(width if drifting else np.zeros(D)),
        amplitudes=jnp.asarray(np.log(amplitudes) - overlap),
        noise=jnp.asarray(np.log(noise_variance)),
        real=real,
    )
    count = sum(bool(np.any(f)) for f in found)
    trend = "a trend and " if count < len(found) else ""
    return Proposal(layout, f"{P} windows, {trend}{count} {'drifting' if drifting else 'steady'} line(s)")


def _noise(record: Record, residual: np.ndarray) -> float:
    """Variance of what neighbouring places do not share; of compressed data, a part of the variance."""
    if record.exact and record.x.shape[1] == 1 and len(record.a) > 8:
        order = np.argsort(record.x[:, 0])
        values = (residual / record.a)[order]
        return float(np.median(np.abs(np.diff(values)) ** 2) / (2 * 0.455))
    return 0.1 * record.variance

"""`kuu` and `kuf` of every feature are the covariances that its definition says, by quadrature of the kernel's formula."""

import inspect

import equinox as eqx
import jax
import numpy as np
import pytest
from features.draws import FAMILIES, NARROW, SCALES, VARIANT_IDS, VARIANTS, points
from references import inference as reference
from references.kernels import formula, gram

import harmix as hx
from harmix.features.base import as_blocks


def concrete_features():
    classes = [value for _, value in inspect.getmembers(hx.features, inspect.isclass)]
    return {c for c in classes if issubclass(c, hx.features.Features) and not inspect.isabstract(c)}


def test_every_public_feature_has_random_draws():
    assert concrete_features() == set(FAMILIES)


# --- what each feature is, by its defining integral -------------------------------------------------------------------


def one_component(k, p):
    """The p-th component of a mixture (or of the mixture in a sum) as a kernel of its own, and its scaling."""
    match k:
        case hx.kernels.Scaled(factor=factor, kernel=inner):
            return hx.kernels.Scaled(factor, one_component(inner, p))
        case hx.kernels.Sum(kernels=terms):
            return one_component(terms[-1], p)
    pick = lambda a: np.asarray(a)[p if len(a) > 1 else 0][None]
    parts = [pick(a) for a in (k.centers, k.windows, k.lengthscales, k.frequencies, k.weights)]
    return hx.kernels.HarmonizableMixture(*parts, real=k.real, rates=None if k.rates is None else pick(k.rates))


def without_chirp(k):
    """What the only component of a mixture modulates, a complex process."""
    return hx.kernels.HarmonizableMixture(k.centers, k.windows, k.lengthscales, k.frequencies, k.weights, real=False)


def innermost(k):
    return innermost(k.kernel) if isinstance(k, hx.kernels.Scaled) else k


def box(center, reach):
    return np.asarray(center) - reach, np.asarray(center) + reach


def of_fourier(features, k, X, reach, n):
    """`u = int f_p(s) exp(-2 pi i w.(s - x_p)) ds`; the real and imaginary part for a real process. By component.

    Of a chirp `f_p(s) = Re[exp(i pi (s - x_p).R(s - x_p)) g(s)]`, `E g(s) g(s') = 0`, `u = int g(s) exp(-2 pi i w.(s - x_p)) ds / 2`; a
    complex process does without the real part and the half.
    """
    Kuf, Kuu = [], []
    for p, w in enumerate(np.asarray(features.frequencies)):
        component = one_component(k, p)
        mixture = innermost(component)
        center, W = np.asarray(mixture.centers)[0], np.asarray(mixture.windows)[0]
        deviation = np.sqrt(np.diagonal(W)) if W.ndim == 2 else W
        grid = (*box(center, reach * deviation), n)
        f = formula(component)
        transform = lambda v: reference.transform_covariance(f, v, X, *grid, origin=center)
        prior = lambda v, xi: reference.transform_prior(f, v, xi, *grid, origin=center)
        if mixture.rates is not None and np.any(np.asarray(mixture.rates) != 0):
            f = formula(without_chirp(mixture))
            turn = np.exp(-1j * np.pi * np.sum(np.asarray(mixture.rates)[0] * (X - center) ** 2, axis=1))
            if k.is_real:  # E g g^* = 2 k
                Kuf.append(reference.parts(transform(w) * turn / 2))
                Kuu.append(reference.parts_prior(prior(w, w) / 2, np.zeros((len(w), len(w)))))
            else:
                Kuf.append(transform(w) * turn)
                Kuu.append(prior(w, w))
        elif k.is_real:
            Kuf.append(reference.parts(transform(w)))
            Kuu.append(reference.parts_prior(*np.split(prior(w, np.concatenate([w, -w])), 2, axis=1)))
        else:
            Kuf.append(transform(w))
            Kuu.append(prior(w, w))
    return np.concatenate(Kuf), Kuu


def of_windowed(features, k, X, reach, n):
    """`L(w) = int h(s) f(s) exp(-2 pi i w.(s - c)) ds`, real and imaginary part."""
    w, center, width = (np.asarray(a) for a in (features.frequencies, features.center, features.width))
    # The kernel's own decay does not help: the window must vanish at the faces of the box, and it does sqrt(2) sooner
    # than the envelope of a mixture, whose square root is what quadrature sees.
    grid = (*box(center, reach / np.sqrt(2) * width), n)
    how = {"window": lambda s: np.exp(-np.sum((s - center) ** 2 / (2 * width**2), axis=-1)), "origin": center}
    f = formula(k)
    prior = reference.transform_prior(f, w, np.concatenate([w, -w]), *grid, **how)
    Kuu = reference.parts_prior(*np.split(prior, 2, axis=1))
    return reference.parts(reference.transform_covariance(f, w, X, *grid, **how)), [Kuu]


def of_points(features, k, X, reach, n):
    """`u = f(z)`."""
    Z, f = np.asarray(features.locations), formula(k)
    return gram(f, Z, X), [gram(f, Z, Z)]


DEFINITIONS = {
    hx.features.FourierFrequencies: of_fourier,
    hx.features.InducingPoints: of_points,
    hx.features.WindowedFourier: of_windowed,
}


def block_diagonal(blocks):
    M = sum(len(b) for b in blocks)
    result, start = np.zeros((M, M), blocks[0].dtype), 0
    for block in blocks:
        result[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return result


def assert_covariances(k, u, X, reach, n, tolerance):
    Kuf, blocks = DEFINITIONS[type(u)](u, k, X, reach, n)
    Kuu = block_diagonal(blocks)
    found_uf, found_uu = hx.features.kuf(u, k, X), hx.features.kuu(u, k).to_dense()
    dtype = np.float64 if k.is_real else np.complex128
    assert found_uf.dtype == found_uu.dtype == dtype
    # Relative to the standard deviations involved: features may differ by orders of magnitude.
    u_scale = np.sqrt(np.max(np.abs(Kuu)))
    f_scale = np.sqrt(np.max(k.diag(X)))
    np.testing.assert_allclose(found_uu, Kuu, rtol=0, atol=tolerance * u_scale**2)
    np.testing.assert_allclose(found_uf, Kuf, rtol=0, atol=tolerance * u_scale * f_scale)


@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_covariances_agree_with_quadrature_in_one_dimension(family, name, draw):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        k, u = draw(rng, 1)
        assert type(u) is family
        assert_covariances(k, u, points(rng, 6, 1), reach=12.0, n=320, tolerance=1e-10)


@pytest.mark.parametrize("draw", NARROW, ids=VARIANT_IDS)
def test_covariances_agree_with_quadrature_in_two_unevenly_scaled_dimensions(draw):
    rng = np.random.default_rng(1)
    k, u = draw(rng, 2)
    # Near the centres, where there is something to compare.
    assert_covariances(k, u, rng.uniform(-1, 1, (6, 2)) * SCALES[:2], reach=7.5, n=40, tolerance=1e-6)


# --- what holds between them ------------------------------------------------------------------------------------------


@eqx.filter_jit
def scale_of(u, k):
    return u.scale(k, as_blocks(u.kuu(k)))


@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_features_and_process_have_a_joint_covariance(family, name, draw):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        k, u = draw(rng, 2)
        X = points(rng, 6, 2)
        Kuu, Kuf = hx.features.kuu(u, k).to_dense(), hx.features.kuf(u, k, X)
        joint = np.block([[Kuu, Kuf], [np.conj(Kuf).T, k(X)]])
        with jax.enable_x64(True):
            scale = np.asarray(scale_of(u, k))
        assert np.all(scale >= np.sqrt(np.real(np.diagonal(Kuu))) * (1 - 1e-9))
        scale = np.concatenate([scale, np.sqrt(k.diag(X))])
        correlation = joint / scale[:, None] / scale
        np.testing.assert_allclose(correlation, np.conj(correlation).T, rtol=0, atol=1e-12)
        assert np.linalg.eigvalsh(correlation)[0] >= -1e-11


def test_the_sine_at_frequency_zero_is_nothing_and_opposite_frequencies_are_the_same_features():
    k, _ = FAMILIES[hx.features.FourierFrequencies]["Hermitian weights"](np.random.default_rng(0), 2)
    w = np.stack([[[0.0, 0.0], [0.7, 0.1], [-0.7, -0.1]]] * 2)
    X = points(np.random.default_rng(0), 5, 2)
    rows = hx.features.kuf(hx.features.FourierFrequencies(w), k, X).reshape(2, 2, 3, 5)
    cosine, sine = rows[:, 0], rows[:, 1]
    assert np.max(np.abs(sine[:, 0])) <= 1e-15 * np.max(np.abs(cosine))
    np.testing.assert_allclose(cosine[:, 1], cosine[:, 2], rtol=1e-13)
    np.testing.assert_allclose(sine[:, 1], -sine[:, 2], rtol=1e-13)


@pytest.mark.parametrize("D", [1, 2])
def test_windowed_features_are_the_rescaled_fourier_features_of_the_windowed_kernel(D):
    # MATH.md section 5: cov(f(x), L(w)) = cov(g(x), g^(w)) / h(x) for g = h f.
    rng = np.random.default_rng(D)
    mu, s, a = rng.uniform(-1, 1, (2, D)), rng.uniform(0.1, 0.4, (2, D)), np.array([0.8, 1.7])
    w, center, width = rng.uniform(-2, 2, (4, D)), rng.uniform(-1, 1, D), rng.uniform(0.5, 2, D)
    X = center + rng.uniform(-2, 2, (7, D)) * width
    h = np.exp(-np.sum((X - center) ** 2 / (2 * width**2), axis=1))

    Kuf, Kuu = 0.0, 0.0
    for q in range(2):  # h(x) = exp(-x^2 / (4 W^2)): W^2 = width^2 / 2
        windowed = hx.kernels.HarmonizableMixture(
            center[None], width[None] / np.sqrt(2), 1 / (2 * np.pi * s[q : q + 1]), mu[None, q : q + 1], a[q].reshape(1, 1, 1)
        )
        u = hx.features.FourierFrequencies(w[None])
        Kuf = Kuf + hx.features.kuf(u, windowed, X) / h
        Kuu = Kuu + hx.features.kuu(u, windowed).to_dense()
    stationary = hx.kernels.SpectralMixture(a, mu, s)
    u = hx.features.WindowedFourier(w, center, width)
    np.testing.assert_allclose(hx.features.kuf(u, stationary, X), Kuf, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(hx.features.kuu(u, stationary).to_dense(), Kuu, rtol=1e-12, atol=1e-15)


def test_windowed_features_are_finite_and_vanish_far_from_their_window():
    u = hx.features.WindowedFourier([[0.0], [1.0]], [0.0], [1.0])
    k = hx.kernels.SquaredExponential(1.0, 0.5)
    far = hx.features.kuf(u, k, [-1e9, -1e3, -60.0, 60.0, 1e3, 1e9])
    assert np.all(np.isfinite(far))
    assert np.max(np.abs(far)) == 0.0


# --- structure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("real weights", (4, 3, 3)),
        ("Hermitian weights", (2, 6, 6)),
        ("complex process", (2, 3, 3)),
        ("one frequency, shared windows", (4, 3, 3)),
    ],
)
def test_components_and_for_real_weights_cosines_and_sines_are_blocks_of_their_own(name, shape):
    k, u = FAMILIES[hx.features.FourierFrequencies][name](np.random.default_rng(0), 1)
    assert hx.features.kuu(u, k).blocks.shape == shape


def test_windowed_features_have_a_block_of_cosines_and_one_of_sines_and_points_are_one_block():
    rng = np.random.default_rng(0)
    for family, shape in ((hx.features.WindowedFourier, (2, 3, 3)), (hx.features.InducingPoints, (1, 4, 4))):
        k, u = next(iter(FAMILIES[family].values()))(rng, 1)
        assert hx.features.kuu(u, k).blocks.shape == shape

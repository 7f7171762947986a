"""Pictures show what the spectra say: the arrays, their orientation, zero in the middle, labels."""

import re

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes

from harmix import plots, spectral
from harmix.kernels import (
    GeneralizedSpectralMixture,
    HarmonizableMixture,
    LocallyStationaryGaussian,
    SparseSpectrum,
    SquaredExponential,
)

X = np.linspace(-1.0, 1.5, 21)
W = np.linspace(-3.0, 3.0, 17)
XI = np.linspace(-2.0, 3.0, 19)
HMK = HarmonizableMixture(
    centers=[[-0.3], [0.7]],
    windows=[[0.4]],
    lengthscales=[[0.5]],
    frequencies=[[[1.0], [2.0]]],
    weights=[[[1.0, 0.5j], [-0.5j, 1.0]]],
)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


@pytest.fixture
def ax():
    return pyplot.subplots()[1]


def shown(ax):
    """The drawn values, `(to the right, upwards)`, and where they are drawn."""
    mesh = ax.collections[0]
    corners = mesh.get_coordinates()
    middle = lambda edges: (edges[1:] + edges[:-1]) / 2
    return np.asarray(mesh.get_array()).T, middle(corners[0, :, 0]), middle(corners[:, 0, 1])


def assert_zero_is_the_middle(ax):
    low, high = ax.collections[0].get_clim()
    assert low == -high < 0


def test_the_kernel_is_drawn_with_x_to_the_right(ax):
    lopsided = lambda X1, X2: np.add.outer(np.ravel(X1), 10 * np.ravel(X2))
    assert plots.kernel(lopsided, X, ax=ax) is ax
    values, right, up = shown(ax)
    np.testing.assert_allclose(values, lopsided(X, X))
    np.testing.assert_allclose(right, X)
    np.testing.assert_allclose(up, X)
    assert_zero_is_the_middle(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$x$ (input unit)", "$x'$ (input unit)")


def test_the_imaginary_part_of_a_complex_kernel(ax):
    k = HarmonizableMixture([[0.0]], [[1.0]], [[1.0]], [[[1.0]]], [[[1.0]]], real=False)
    plots.kernel(k, X, part="imag", ax=ax)
    np.testing.assert_allclose(shown(ax)[0], np.imag(k(X)))


def test_wigner_in_closed_form(ax):
    assert plots.wigner(HMK, X, W, ax=ax, unit="s") is ax
    values, right, up = shown(ax)
    np.testing.assert_allclose(values, spectral.wigner(HMK, X, W))
    np.testing.assert_allclose(right, X)
    np.testing.assert_allclose(up, W)
    assert_zero_is_the_middle(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("$x$ (s)", "frequency (cycles per s)")
    assert not ax.texts, "a closed form needs no note"


@pytest.mark.parametrize(("part", "take"), [("real", np.real), ("imag", np.imag)])
def test_generalized_density_in_closed_form(ax, part, take):
    assert plots.generalized_density(HMK, W, XI, part=part, ax=ax) is ax
    S = np.asarray(spectral.generalized_density(HMK, W, XI))
    values, right, up = shown(ax)
    np.testing.assert_allclose(values, take(S))
    np.testing.assert_allclose(right, W)
    np.testing.assert_allclose(up, XI)
    assert_zero_is_the_middle(ax)
    # Both parts are drawn to one scale, so that their pictures can be compared.
    assert ax.collections[0].get_clim()[1] == max(np.max(np.abs(S.real)), np.max(np.abs(S.imag)))


def test_without_a_closed_form_the_panel_says_numeric(ax):
    gsm = GeneralizedSpectralMixture([lambda x: 1.0], [lambda x: 1.5 + 0.1 * x], [lambda x: 0.3])
    plots.wigner(gsm, X, W, ax=ax, domain=(-4.0, 4.0), window=None)
    # The phase is quadratic, so the ridge is a Gaussian about its derivative, 1.5 + 0.2 x.
    deviation = 1 / (2 * np.pi * 0.3)
    peak = lambda v: np.exp(-0.5 * (v / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation)
    ridge = (1.5 + 0.2 * X)[:, None]
    np.testing.assert_allclose(shown(ax)[0], (peak(W - ridge) + peak(W + ridge)) / 2, atol=1e-8)
    assert [t.get_text() for t in ax.texts] == ["numeric"]


def test_a_stationary_kernel_is_seen_through_a_window_and_the_panel_says_so(ax):
    variance, l, s = 1.3, 0.4, 0.5
    plots.generalized_density(SquaredExponential(variance, l), W, XI, ax=ax, domain=(-4.0, 4.0), window=s)
    # exp(-x^2 / (2 s^2)) on both sides of an SE is locally stationary Gaussian: MATH.md section 2 with 4 W^2
    # = 2 s^2.
    sigma1 = 1 / (2 * np.pi**2 * s**2)
    windowed = LocallyStationaryGaussian(sigma1, sigma1 / 4 + 1 / (4 * np.pi**2 * l**2))
    expected = variance * np.asarray(spectral.generalized_density(windowed, W, XI)).real
    np.testing.assert_allclose(shown(ax)[0], expected, atol=1e-9)
    assert [t.get_text() for t in ax.texts] == ["windowed, sd 0.5"]


def test_point_masses_become_peaks_of_the_width_of_the_lag_window(ax):
    s = 0.5
    plots.wigner(SparseSpectrum([2.0], [[1.5]]), X, W, ax=ax, domain=(-6.0, 6.0), window=s)
    deviation = 1 / (2 * np.pi * s)
    peak = lambda v: np.exp(-0.5 * (v / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation)
    np.testing.assert_allclose(shown(ax)[0], np.tile(peak(W - 1.5) + peak(W + 1.5), (len(X), 1)), atol=1e-7)


def test_any_function_of_two_points_can_be_drawn(ax):
    se = lambda X1, X2: np.exp(-0.5 * np.subtract.outer(np.ravel(X1), np.ravel(X2)) ** 2 / 0.3**2)
    plots.wigner(se, X, W, ax=ax, domain=(-4.0, 4.0), window=None)
    expected = spectral.wigner(SquaredExponential(1.0, 0.3), X, W)
    np.testing.assert_allclose(shown(ax)[0], expected, atol=1e-9)


def test_a_new_figure_when_no_ax_is_given():
    ax = plots.wigner(HMK, X, W)
    assert isinstance(ax, Axes)
    assert len(ax.figure.axes) == 2, "the picture and its colour bar"
    assert len(plots.kernel(HMK, X, colorbar=False).figure.axes) == 1


def test_a_given_limit_is_the_scale(ax):
    plots.wigner(HMK, X, W, ax=ax, limit=3.0)
    assert ax.collections[0].get_clim() == (-3.0, 3.0)


def test_a_picture_of_zeros_can_be_drawn(ax):
    plots.kernel(lambda X1, X2: np.zeros((len(X1), len(X2))), X, ax=ax)
    assert_zero_is_the_middle(ax)


@pytest.mark.parametrize("draw", [plots.wigner, plots.generalized_density])
def test_without_closed_form_and_domain_the_remedy_is_named(draw):
    with pytest.raises(ValueError, match=r"domain=\(lo, hi\)"):
        draw(SparseSpectrum([1.0], [[1.0]]), W, W)
    with pytest.raises(ValueError, match=r"domain=\(lo, hi\)"):
        draw(lambda X1, X2: np.zeros((len(X1), len(X2))), W, W)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: plots.kernel(HMK, X, part="abs"), 'part must be "real" or "imag", got \'abs\''),
        (lambda: plots.generalized_density(HMK, W, W, part=""), 'part must be "real" or "imag", got \'\''),
        (lambda: plots.wigner(HMK, X[::-1], W), "x must be at least two values in ascending order"),
        (lambda: plots.wigner(HMK, X, [1.0]), "w must be at least two values in ascending order"),
        (lambda: plots.wigner(HMK, X, [1.0, np.nan]), "w must be finite, got nan"),
        (lambda: plots.kernel(HMK, np.zeros((4, 2))), "x has 2 input dimension(s)"),
        (lambda: plots.kernel(SquaredExponential(1.0, [1.0, 2.0]), X), "1 input dimension(s)"),
        (lambda: plots.wigner(HMK, X, W, limit=-1.0), "limit must be positive, got -1.0"),
    ],
)
def test_bad_arguments_are_refused_by_name(call, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        call()

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


# --- what was learned ----------------------------------------------------------------------------------------------------


class Line:
    """A posterior: the mean 2 x, and a deviation that grows with x."""

    mean = staticmethod(lambda x: 2.0 * x)
    variance = staticmethod(lambda x: (1.0 + x**2) ** 2)


class Regressor:
    """The same, as an estimator of the style of scikit-learn."""

    def predict(self, X, return_std=False):
        assert return_std
        return 2.0 * X[:, 0], 1.0 + X[:, 0] ** 2


class NoisyRegressor(Regressor):
    """An estimator whose deviation has noise in it, unless it is told not to."""

    def predict(self, X, return_std=False, *, noise=True):
        mean, deviation = super().predict(X, return_std)
        return mean, deviation + 100.0 * noise


@pytest.mark.parametrize("model", [Line(), Regressor(), NoisyRegressor()])
def test_the_posterior_is_a_line_in_its_band(ax, model):
    assert plots.posterior(model, X, data=([[0.0], [1.0]], [3.0, 4.0]), level=0.6826894921370859, ax=ax, unit="s") is ax
    np.testing.assert_allclose(ax.lines[0].get_xydata(), np.stack([X, 2 * X], axis=1))
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[0, 3], [1, 4]])
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    for x in (X[0], X[7]):
        edges = np.unique(corners[np.isclose(corners[:, 0], x), 1].round(9))
        np.testing.assert_allclose(edges, [2 * x - 1 - x**2, 2 * x + 1 + x**2], atol=1e-6)
    assert (ax.get_xlabel(), band.get_label()) == ("$x$ (s)", "68% band")


def test_what_is_no_posterior_is_refused(ax):
    with pytest.raises(TypeError, match="must have mean and variance, or predict"):
        plots.posterior(3.0, X, ax=ax)
    with pytest.raises(ValueError, match="level"):
        plots.posterior(Line(), X, level=90.0, ax=ax)
    complex_line = type("Complex", (Line,), {"mean": staticmethod(lambda x: 1j * x)})()
    with pytest.raises(TypeError, match="complex process"):
        plots.posterior(complex_line, X, ax=ax)


class Halves:
    """Two classes on either side of the line x_0 = 0.5."""

    classes_ = np.array(["left", "right"])

    def predict_proba(self, X):
        right = 1 / (1 + np.exp(-20 * (X[:, 0] - 0.5)))
        return np.stack([1 - right, right], axis=1)


class Thirds:
    classes_ = np.array([3, 5, 9])

    def predict_proba(self, X):
        return np.eye(3)[np.clip(np.floor(3 * X[:, 0]).astype(int), 0, 2)]


SQUARE = np.array([[0.0, 0.0], [1.0, 1.0], [0.9, 0.1], [0.4, 0.6]])


def test_the_boundary_of_two_classes_is_where_they_are_equally_likely(ax):
    assert plots.decision_boundary(Halves(), SQUARE, ["left", "right", "right", "left"], ax=ax, resolution=61) is ax
    mesh, contours = ax.collections
    assert mesh.get_clim() == (0, 1)
    middle = contours.get_paths()[1].vertices
    np.testing.assert_allclose(middle[:, 0], 0.5, atol=0.01)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["left", "right"]
    np.testing.assert_array_equal(ax.lines[0].get_xydata(), SQUARE[[0, 3]])


def test_three_classes_have_a_colour_each(ax):
    plots.decision_boundary(Thirds(), SQUARE, [3, 9, 9, 5], ax=ax, resolution=40)
    (image,) = ax.images
    shades = np.unique(np.asarray(image.get_array()).reshape(-1, 3).round(6), axis=0)
    assert len(shades) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["3", "5", "9"]
    with pytest.raises(ValueError, match="resolution"):
        plots.decision_boundary(Thirds(), SQUARE, resolution=1)


def test_training_shows_every_restart_and_the_chosen_one_in_front(ax):
    from types import SimpleNamespace

    runs = [SimpleNamespace(name=n, objective=np.array(v)) for n, v in (("a", [-9.0, -5, -4, -3.5]), ("b", [-9.0, -2.0]))]
    result = SimpleNamespace(restarts=runs, chosen=0)
    assert plots.training(SimpleNamespace(result_=result), ax=ax) is ax
    assert [line.get_label() for line in ax.lines] == ["b", "a (chosen)"]
    np.testing.assert_array_equal(ax.lines[1].get_xydata(), [[1, -9], [2, -5], [3, -4], [4, -3.5]])
    with pytest.raises(TypeError, match="restarts"):
        plots.training(3.0, ax=ax)

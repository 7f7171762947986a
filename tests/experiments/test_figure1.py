"""Figure 1 shows what it says: the panels agree with the kernels, and the HMK really approximates the GSM."""

import matplotlib as mpl

mpl.use("Agg")

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.image import imread

from harmix.experiments import approximation, figure1
from harmix.kernels import HarmonizableMixture

RESOLUTION = 61


@pytest.fixture(scope="module")
def panels():
    family = figure1.columns()
    figure = figure1.draw(family, resolution=RESOLUTION)
    grid = np.reshape(figure.axes[: 4 * len(family)], (4, len(family)))
    values = lambda ax: np.asarray(ax.collections[0].get_array()).T
    return {c.label: (c, [values(ax) for ax in axes], axes) for c, axes in zip(family, grid.T, strict=True)}


X = np.linspace(-1, 1, RESOLUTION)
W = np.linspace(-8, 8, RESOLUTION)


def gaussian(v, deviation):
    return np.exp(-0.5 * (v / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation)


def slow_gsd(k, window, centre=0.0):
    """The windowed GSD by a plain Riemann sum."""
    x = np.linspace(-2.5, 2.5, 601)
    h = np.exp(-0.5 * (x / window) ** 2) if window else np.ones_like(x)
    waves = np.exp(-2j * np.pi * np.outer(W, x)) * h * (x[1] - x[0])
    return waves @ np.asarray(k(x, x)) @ waves.conj().T


def test_every_kernel_is_drawn_as_it_is(panels):
    for column, (k, *_), _ in panels.values():
        np.testing.assert_allclose(k, np.asarray(column.kernel(X, X)), atol=1e-12)


def test_gsd_panels_agree_with_a_plain_sum(panels):
    for column, (_, _, real, imag), _ in panels.values():
        S = slow_gsd(column.kernel, column.gsd.get("window"))
        np.testing.assert_allclose(real + 1j * imag, S, atol=1e-7 * np.max(np.abs(S)), err_msg=column.label)


def test_wigner_panels_of_stationary_kernels_are_their_spectra(panels):
    peaks = {
        "SE": gaussian(W, 1 / (2 * np.pi * 0.2)),
        "SS": sum(
            a / 2 * (gaussian(W - f, 1 / (2 * np.pi * 0.35)) + gaussian(W + f, 1 / (2 * np.pi * 0.35)))
            for a, f in ((0.6, 2), (0.4, 5))
        ),
        "SM": sum(a / 2 * (gaussian(W - f, s) + gaussian(W + f, s)) for a, f, s in ((0.6, 2, 0.3), (0.4, 5, 0.6))),
    }
    for label, spectrum in peaks.items():
        np.testing.assert_allclose(panels[label][1][1], np.tile(spectrum, (RESOLUTION, 1)), atol=1e-8)


def test_the_ridge_of_the_gsm_panel_is_the_derivative_of_the_phase(panels):
    ridge = (3.2 + 1.6 * X)[:, None]
    deviation = 1 / (2 * np.pi * 0.3)
    expected = (gaussian(W - ridge, deviation) + gaussian(W + ridge, deviation)) / 2
    np.testing.assert_allclose(panels["GSM"][1][1], expected, atol=1e-7)


def test_panels_say_what_is_windowed(panels):
    notes = {
        label: [[t.get_text() for t in ax.texts if "sd" in t.get_text() or t.get_text() == "numeric"] for ax in axes]
        for label, (_, _, axes) in panels.items()
    }
    windowed, nothing = ["windowed, sd 0.35"], []
    assert notes["HMK"] == [nothing] * 4
    assert notes["GSM"] == [nothing, ["numeric"], windowed, windowed]
    assert notes["SS"] == [nothing, windowed, windowed, windowed]
    for label in ("SE", "SM", "GSK"):
        assert notes[label] == [nothing, nothing, windowed, windowed]


def test_both_parts_of_a_gsd_have_one_scale_about_zero(panels):
    for _, _, axes in panels.values():
        limits = [ax.collections[0].get_clim() for ax in axes]
        assert limits[2] == limits[3]
        assert all(low == -high for low, high in limits)


def test_the_imaginary_part_is_nothing_for_even_kernels_and_something_for_the_hmk(panels):
    largest = {label: (np.max(np.abs(real)), np.max(np.abs(imag))) for label, (_, (_, _, real, imag), _) in panels.items()}
    assert largest["HMK"][1] > 0.3 * largest["HMK"][0]
    for label in ("SE", "SS", "SM", "GSK"):
        assert largest[label][1] < 1e-12


def test_the_checks_pass_and_would_notice_a_wrong_panel(panels):
    for label, (column, _, axes) in panels.items():
        found = figure1.check(list(axes), column)
        assert found["wigner"]["marginal_error"] < 1e-6, label
        # What lies beyond the band that is drawn.
        assert found["generalized_density"]["inversion_error"] < 1e-4, label
        other = dataclasses.replace(column, kernel=2.0 * column.kernel)
        wrong = figure1.check(list(axes), other)
        assert wrong["wigner"]["marginal_error"] > 0.1
        assert wrong["generalized_density"]["inversion_error"] > 0.1


# One test, because the run behind it is the slowest thing here.
def test_a_run_writes_pictures_and_true_figures_and_the_hmk_approximates_the_gsm(tmp_path):
    out = tmp_path / "made"
    returned = figure1.run(out, resolution=21)
    result = json.loads((out / "figure1.json").read_text())
    assert result == returned
    assert list(result["kernels"]) == ["SE", "SS", "SM", "GSK", "GSM", "HMK"]
    assert all(s > 0 for s in result["seconds"].values())
    assert result["pictures"] == ["figure1.png", "gsm_by_hmk.png"]
    for name in result["pictures"]:
        picture = imread(out / name)
        assert min(picture.shape[:2]) > 900
        assert np.std(picture[..., :3]) > 0.05, "an empty picture"

    report = result["approximation"]
    assert report["relative_error"] < 0.01
    assert report["relative_error_between_grid_points"] < 0.01
    p = report["parameters"]
    weights = np.array([[[e["re"] + 1j * e["im"] for e in row] for row in B] for B in p.pop("weights")])
    hmk = HarmonizableMixture(**p, weights=weights)
    x = np.linspace(*report["fitted_on"], report["grid_points"])
    K, G = np.asarray(hmk(x)), np.asarray(approximation.gsm_kernel()(x))
    assert np.linalg.norm(K - G) / np.linalg.norm(G) == pytest.approx(report["relative_error"], rel=1e-6)


def test_the_ridge_is_the_derivative_of_nominal_frequency_times_x():
    x, h = np.linspace(0, 4, 50), 1e-6
    phase = lambda v: approximation.nominal_frequency(v) * v
    slope = (phase(x + h) - phase(x - h)) / (2 * h)
    np.testing.assert_allclose(approximation.ridge_frequency(x), slope, rtol=1e-7)


def test_the_difference_is_drawn_as_said():
    gsm = approximation.gsm_kernel()
    hmk, report = approximation.fit(gsm, P=4, Q=1, points=30, steps=30)
    figure = approximation.draw(gsm, hmk, report, resolution=21)
    values = [np.asarray(ax.collections[0].get_array()) for ax in figure.axes[:6]]
    for row in (values[:3], values[3:]):
        np.testing.assert_allclose(row[2], row[1] - row[0], atol=1e-12)
    scales = [ax.collections[0].get_clim()[1] for ax in figure.axes[:6]]
    assert scales[0] == scales[1] == pytest.approx(scales[2] * approximation.ENLARGED)
    assert scales[3] == scales[4] == pytest.approx(scales[5] * approximation.ENLARGED)

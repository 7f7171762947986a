"""The recovery experiment reports what it computed, and its full run keeps the promises."""

import matplotlib as mpl

mpl.use("Agg")

import json

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.image import imread

from harmix.experiments import recovery
from harmix.kernels import HarmonizableMixture


def rebuilt(parameters):
    weights = np.array([[[e["re"] + 1j * e["im"] for e in row] for row in B] for B in parameters["weights"]])
    return HarmonizableMixture(**{**parameters, "weights": weights})


def test_the_targets_are_as_announced():
    by_name = {target.name: target for target in recovery.targets()}
    fractional = [t for t in by_name.values() if t.family == recovery.FRACTIONAL]
    assert [float(t.kernel.hurst) for t in fractional] == [0.3, 0.5, 0.7]
    x = fractional[0].grid(120)
    assert (len(x), x[0] > 0.1, x[-1]) == (120, True, 1.1)
    assert by_name["gsm-wave"].grid(120)[[0, -1]].tolist() == [-1, 1]
    sweep = by_name["gsm-sweep"].kernel.frequency_fns[0]
    assert float(sweep(jnp.ones(1))[0] / sweep(-jnp.ones(1))[0]) == pytest.approx(3)


def test_a_run_writes_pictures_tables_and_errors_that_the_parameters_reproduce(tmp_path, monkeypatch):
    chosen = recovery.targets()[1::2][:2]
    monkeypatch.setattr(recovery, "targets", lambda: chosen)
    returned = recovery.run(tmp_path, points=16, P=2, Q=1, steps=12, Ps=(1, 2), Qs=(1,), terms=(1, 2))
    assert json.loads((tmp_path / "recovery.json").read_text()) == returned
    assert (tmp_path / "recovery.md").read_text().splitlines() == returned["table"]
    assert [line.split(" | ")[0] for line in returned["table"][2:]] == ["| fractional-0.5", "| gsm-linear"]
    for name in returned["pictures"]:
        picture = imread(tmp_path / name)
        assert min(picture.shape[:2]) > 400
        assert np.std(picture[..., :3]) > 0.05, "an empty picture"
    for target in chosen:
        report = returned["recovered"][target.name]
        on = np.sort(np.append(x := target.grid(16), (x[1:] + x[:-1]) / 2))
        squares = (np.asarray(rebuilt(report["parameters"])(on, on)) - np.asarray(target.kernel(on, on))) ** 2
        given = np.isin(on, x)
        for key, pairs in {"grid": (given, given), "between": (~given, ~given), "across": (given, ~given)}.items():
            assert report["mean_squared_error"][key] == pytest.approx(np.mean(squares[np.ix_(*pairs)]), rel=1e-6)
        assert np.shape(returned["theorem_3"][target.name]["grid"]) == (1, 2)


def test_the_picture_shows_both_kernels_on_one_scale_and_their_difference():
    target = recovery.targets()[0]
    k, report = recovery.recover(target, P=2, Q=1, points=16, steps=9)
    figure = recovery.draw_kernels([(target, k, report)], points=16)
    images = [ax.collections[0] for ax in figure.axes[:3]]
    true, recovered, difference = (np.asarray(image.get_array()) for image in images)
    np.testing.assert_allclose(difference, recovered - true, atol=1e-12)
    assert images[0].get_clim() == images[1].get_clim()
    assert images[2].get_clim()[1] == -images[2].get_clim()[0] == pytest.approx(np.max(np.abs(difference)))


@pytest.mark.slow
def test_every_kernel_is_recovered_as_promised_and_the_theorems_show(tmp_path):
    result = recovery.run(tmp_path)
    for name, report in result["recovered"].items():
        errors, promised = report["mean_squared_error"], recovery.PROMISED[report["family"]]
        assert errors["grid"] <= promised, name
        assert errors["between"] <= promised, name
        # Pairs half a step apart lie on the cusp that fractional Brownian motion has on the diagonal.
        assert errors["across"] <= 2 * promised, name
        assert report["seconds"]["cpu"] < 60, name
        x = np.random.default_rng(0).uniform(0.1, 1.1, 100)
        eigenvalues = np.linalg.eigvalsh(np.asarray(rebuilt(report["parameters"])(x, x)))
        assert eigenvalues[0] > -1e-12 * eigenvalues[-1]
    for table in result["theorem_3"].values():
        errors = np.array(table["grid"])
        assert np.all(errors[:, 1:] < errors[:, :-1])
        assert np.all(errors[1:] < errors[:-1])
    assert np.all(np.diff(np.log10(result["theorem_2"]["grid"])) < -1)

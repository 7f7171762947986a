"""The regressor speaks the user's units, learns further without the old data, and comes back from a file as it was."""

import copy
import dataclasses
import json
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from model_files import unpack
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import harmix as hx
from harmix.inference.update import updated

SMALL = {"n_components": 2, "n_frequencies": 1, "n_restarts": 1, "inference": "map", "random_state": 0}
N = 60


def record(n=N, seed=0):
    """A line at 0.9 cycles per unit with noise 0.1 about the level 5; uneven places in [0, 6]."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, 6, n))
    return x[:, None], 5 + np.sin(2 * np.pi * 0.9 * x) + 0.1 * rng.normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return hx.HarmonizableGPRegressor(**SMALL).fit(*record())


GRID = np.linspace(0.2, 5.8, 25)[:, None]


def test_it_finds_the_line_and_knows_how_sure_it_is(fitted):
    truth = 5 + np.sin(2 * np.pi * 0.9 * GRID[:, 0])
    mean, deviation = fitted.predict(GRID, return_std=True)
    _, of_signal = fitted.predict(GRID, return_std=True, noise=False)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.1
    assert np.all(of_signal < deviation)
    assert np.mean(np.abs(mean - truth) < 3 * of_signal) > 0.9
    assert 0.05 < np.median(deviation) < 0.2
    assert fitted.score(*record(seed=1)) > 0.9
    np.testing.assert_allclose(np.diag(fitted.predict(GRID, return_cov=True)[1]), deviation**2, rtol=1e-8)
    samples = fitted.sample_y(GRID[:5], 2000, random_state=1)
    assert samples.shape == (5, 2000)
    np.testing.assert_allclose(np.mean(samples, axis=1), mean[:5], atol=0.02)
    np.testing.assert_allclose(np.std(samples, axis=1), deviation[:5], rtol=0.1)
    with pytest.raises(RuntimeError, match="At most one"):
        fitted.predict(GRID, return_std=True, return_cov=True)


def test_the_table_of_components_is_in_the_units_of_the_user(fitted):
    table = fitted.components_
    assert list(table) == ["centre", "width", "frequencies", "power", "lengthscale"]
    assert table["power"].is_monotonic_decreasing
    assert table["frequencies"][0] == pytest.approx(0.9, abs=0.05)
    assert table["centre"].between(-1, 7).all()
    assert 0.1 < table["power"].sum() < 3


def test_the_table_says_how_fast_frequencies_rise_where_they_do(fitted):
    chirping = copy.copy(fitted)
    kernel = fitted.result_.kernel
    parts = kernel.centers, kernel.windows, kernel.lengthscales, -kernel.frequencies, kernel.weights
    kernel = hx.kernels.HarmonizableMixture(*parts, rates=[[0.3]])
    chirping.result_ = dataclasses.replace(fitted.result_, kernel=kernel)
    table = chirping.components_
    assert list(table)[-1] == "rate"
    # Rising at w < 0 is falling at -w, which is the same to a real process.
    falling = table["frequencies"] > 0
    np.testing.assert_allclose(table["rate"][falling], -0.3 / fitted.x_scale_[0] ** 2)


def test_units_do_not_matter(fitted):
    # Powers of two scale every number without rounding.
    X, y = record()
    other = hx.HarmonizableGPRegressor(**SMALL).fit(np.column_stack([1024 * X, np.ones(N)]), 64 * y)
    mean, deviation = fitted.predict(GRID, return_std=True)
    there = np.column_stack([1024 * GRID, np.full(25, 7.0)])  # a column that was constant says nothing
    mean_there, deviation_there = other.predict(there, return_std=True)
    np.testing.assert_allclose(mean_there, 64 * mean, rtol=1e-6)
    np.testing.assert_allclose(deviation_there, 64 * deviation, rtol=1e-5)
    a, b = fitted.components_, other.components_
    np.testing.assert_allclose(b["frequencies"] * 1024, a["frequencies"], rtol=1e-5)
    np.testing.assert_allclose(b["power"], a["power"] * 64**2, rtol=1e-4)


def test_weights_count_rows_and_zero_leaves_one_out(fitted):
    X, y = record()
    weights = np.arange(N) % 3
    one = hx.HarmonizableGPRegressor(**SMALL).fit(X, y, weights)
    two = hx.HarmonizableGPRegressor(**SMALL).fit(X.repeat(weights, axis=0)[::-1], y.repeat(weights)[::-1])
    np.testing.assert_array_equal(one.predict(GRID), two.predict(GRID))
    assert np.max(np.abs(one.predict(GRID) - fitted.predict(GRID))) > 1e-4


def test_further_data_end_in_the_posterior_of_all_data():
    X, y = record()
    first, second = slice(0, 45), slice(45, N)
    model = hx.HarmonizableGPRegressor(**SMALL).partial_fit(X[first], y[first])  # before a fit, it is one
    before = model.result_
    inside = (X - model.x_shift_) / model.x_scale_
    scaled = (y - model.y_shift_) / model.y_scale_
    assert model.partial_fit(X[second], y[second]) is model
    both = hx.condition(before.kernel, before.features, before.noise_variance, (inside, scaled))
    at = (GRID - model.x_shift_) / model.x_scale_
    np.testing.assert_allclose(model.predict(GRID), model.y_shift_ + model.y_scale_ * both.mean(at), rtol=1e-9)
    np.testing.assert_allclose(
        model.predict(GRID, return_std=True, noise=False)[1], model.y_scale_ * np.sqrt(both.variance(at)), rtol=1e-6
    )
    weighted, _ = updated(before.posterior, (inside[second], scaled[second], np.full(15, 2.0)))
    twice = copy.copy(model)
    twice.result_ = before
    twice.partial_fit(X[second], y[second], np.full(15, 2.0))
    np.testing.assert_allclose(twice.predict(GRID), model.y_shift_ + model.y_scale_ * weighted.mean(at), rtol=1e-9)


def test_times_are_times_everywhere(fitted):
    X, y = record()
    start = np.datetime64("2021-03-01", "us")
    days = start + np.round(X[:, 0] * 10 * 86400e6).astype("timedelta64[us]")  # a unit is ten days
    table = pd.DataFrame({"when": days})
    model = hx.HarmonizableGPRegressor(**SMALL).fit(table, y)
    assert model.x_units_ == ("d",)
    np.testing.assert_allclose(model.predict(table), fitted.predict(X), atol=1e-4)
    components = model.components_
    assert components["centre"].dtype.kind == "M"
    assert components["frequencies"][0] == pytest.approx(0.09, abs=0.005)
    assert components.attrs["units"] == {"when": "d"}
    picture = model.wigner(days[::20], [0.0, 0.09])
    assert picture.time.dtype.kind == "M"
    assert picture.frequency.attrs["units"] == "cycles per day"
    np.testing.assert_allclose(picture, 10 * fitted.wigner(X[::20, 0], [0.0, 0.9]), rtol=1e-2, atol=1e-2)
    with pytest.raises(ValueError, match="column 'when' of X had times"):
        model.predict(pd.DataFrame({"when": [1.0]}))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table.set_axis(["other"], axis=1))


def test_pictures_are_those_of_the_posterior_in_the_units_of_the_user(fitted):
    times, frequencies = np.linspace(1, 5, 4), np.linspace(0.1, 2.0, 40)
    power = fitted.spectrogram(times, frequencies, width=0.8, level=0.8)
    assert dict(power.sizes) == {"time": 4, "frequency": 40}
    np.testing.assert_array_equal(power.time, times)
    assert power.frequency.attrs["units"] == "cycles per unit of X"
    assert np.all((power.lower < power["mean"]) & (power["mean"] < power.upper))
    best = float(frequencies[int(np.argmax(power["mean"].values[1]))])
    assert best == pytest.approx(0.9, abs=0.1)
    assert float(power["mean"].max()) == pytest.approx(np.pi * 0.8**2 / 2, rel=0.3)  # of a sine of amplitude 1
    # Over all frequencies, of either sign, the Wigner distribution adds up to E f^2.
    w = np.linspace(-4, 4, 401)
    total = fitted.wigner([3.0], w).integrate("frequency").values
    mean, deviation = fitted.predict([[3.0]], return_std=True, noise=False)
    np.testing.assert_allclose(total, (mean - fitted.y_shift_) ** 2 + deviation**2, rtol=1e-2)
    assert fitted.spectrogram().sizes == {"time": 200, "frequency": 150}


def test_a_forecast_beyond_the_model_is_warned_of(fitted):
    fitted.predict(record()[0])
    far = np.array([[3.0], [1e3]])
    for ask in (fitted.predict, lambda X: fitted.predict(X, return_std=True), fitted.sample_y):
        with pytest.warns(hx.ExtrapolationWarning, match="1 of 2 rows of X lie outside the support .*between 0.* and 5.9"):
            ask(far)


def test_many_columns_have_inducing_points(tmp_path):
    # In ten dimensions fifty frequencies explain next to nothing: the model used to find no more than noise.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 10))
    y = 3 * X[:, 4] + rng.normal(size=120)
    model = hx.HarmonizableGPRegressor(random_state=0).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.7
    lengthscales = model.components_.filter(like="lengthscale").iloc[0]
    assert lengthscales.idxmin() == "lengthscale[x4]"
    model.save(tmp_path / "m")
    assert hx.load(tmp_path / "m").predict(X).tobytes() == model.predict(X).tobytes()
    with pytest.raises(ValueError, match='inference must be "auto" or "map" with more than 3 columns'):
        hx.HarmonizableGPRegressor(inference="nuts").fit(X, y)


# --- kept -------------------------------------------------------------------------------------------------------------


def test_a_saved_estimator_predicts_the_same_in_a_fresh_process(fitted, tmp_path):
    path = tmp_path / "model.harmix"
    fitted.save(path, details={"station": "Oulu"})
    again, details = hx.load(path, return_details=True)
    assert details["station"] == "Oulu"
    assert again.get_params() == fitted.get_params()
    for ask in (lambda m: m.predict(GRID), lambda m: m.predict(GRID, return_std=True)[1], lambda m: m.sample_y(GRID[:3])):
        assert ask(again).tobytes() == ask(fitted).tobytes()
    pd.testing.assert_frame_equal(again.components_, fitted.components_)
    again.save(tmp_path / "again")
    fitted.save(tmp_path / "first")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "first").read_bytes()
    code = "import sys, harmix; print(harmix.load(sys.argv[1]).predict([[1.0], [2.5]]).tobytes().hex())"
    run = subprocess.run([sys.executable, "-W", "error", "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == fitted.predict([[1.0], [2.5]]).tobytes().hex()


def test_no_training_data_are_saved(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    X, y = record()
    inside = {float(v) for v in np.concatenate([((X - fitted.x_shift_) / fitted.x_scale_)[1:-1, 0], X[1:-1, 0], y])}
    for name, content in unpack(tmp_path / "m").items():
        if name.endswith(".npy"):
            body = content[128:] if len(content) > 128 else b""
            values = np.frombuffer(body[: len(body) // 8 * 8], "<f8")
            assert not inside & set(map(float, values)), name
            assert len(values) != N


def test_names_and_times_and_settings_come_back(tmp_path):
    X, y = record()
    table = pd.DataFrame(
        {"a": np.ones(N), "when": np.datetime64("2021-03-01", "ms") + (X[:, 0] * 1e3).astype("timedelta64[ms]")}
    )
    model = hx.HarmonizableGPRegressor(**SMALL | {"max_frequency": 2.0, "random_state": np.random.RandomState(0)}).fit(table, y)
    model.save(tmp_path / "m")
    again = hx.load(tmp_path / "m")
    assert list(again.feature_names_in_) == ["a", "when"]
    assert again.x_units_ == ("s",)
    assert again.max_frequency == 2.0
    assert again.random_state is None  # a generator has moved on
    assert again.predict(table).tobytes() == model.predict(table).tobytes()


def test_copies_and_pickles_keep_every_bit(fitted):
    expected = fitted.predict(GRID, return_std=True)
    for other in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        for a, b in zip(other.predict(GRID, return_std=True), expected, strict=True):
            assert a.tobytes() == b.tobytes()


def test_a_file_whose_parts_do_not_go_together_is_refused(fitted, tmp_path):
    from model_files import pack

    from harmix.persistence import ModelFileError

    fitted.save(tmp_path / "m")
    members = unpack(tmp_path / "m")
    header = json.loads(members["header.json"])
    for change, words in (
        (lambda m: m.update(name="Evil"), "there is no estimator 'Evil'"),
        (lambda m: m["state"]["items"].update(n_features_in_=2), "varying_"),
        (lambda m: m["state"]["items"].update(n_features_in_="1"), "varying_"),
        (lambda m: m["state"]["items"].update(result=None), "result"),
        (lambda m: m["state"]["items"]["result"]["state"]["items"].update(chosen=7), "chosen does not fit"),
        (lambda m: m["state"]["items"].update(extra=1), "unknown part 'extra'"),
        (lambda m: m["state"]["items"]["parameters"]["items"].update(__class__="x"), "parameters are"),
        (lambda m: m["state"]["items"].update(clocks={"type": "list", "items": [1]}), "not valid"),
        (lambda m: m["state"]["items"].pop("reach_"), "reach_|no part of it refers"),
    ):
        changed = copy.deepcopy(header)
        change(changed["model"])
        (tmp_path / "m").write_bytes(pack(members | {"header.json": json.dumps(changed).encode()}))
        with pytest.raises(ModelFileError, match=words) as caught:
            hx.load(tmp_path / "m")
        assert "\n" not in str(caught.value)


# --- what cannot be done ----------------------------------------------------------------------------------------------

X2, Y2 = np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 3.0])
NOT_FITTED = hx.HarmonizableGPRegressor(**SMALL)
REFUSED = {
    "predict before fit": (lambda: NOT_FITTED.predict(X2), NotFittedError, "not fitted"),
    "save before fit": (lambda: NOT_FITTED.save("x"), NotFittedError, "not fitted"),
    "components before fit": (lambda: NOT_FITTED.components_, NotFittedError, "not fitted"),
    "one sample": (lambda: NOT_FITTED.fit(X2[:1], Y2[:1]), ValueError, "1 sample"),
    "constant y": (lambda: NOT_FITTED.fit(X2, np.full(3, 2.5)), ValueError, "y is constant, 2.5"),
    "constant X": (lambda: NOT_FITTED.fit(X2 * 0, Y2), ValueError, "all rows of X are the same"),
    "complex y": (lambda: NOT_FITTED.fit(X2, Y2 + 1j), ValueError, "Complex data not supported.*harmix.fit"),
    "complex list": (lambda: NOT_FITTED.fit(X2, [0.0, 1.0, 2j]), ValueError, "Complex data not supported"),
    "NaN in y": (lambda: NOT_FITTED.fit(X2, [0.0, np.nan, 1.0]), ValueError, "Input y contains NaN"),
    "infinite X": (lambda: NOT_FITTED.fit([[0.0], [np.inf], [1.0]], Y2), ValueError, "Input X contains infinity"),
    "1e308": (lambda: NOT_FITTED.fit(X2, [0.0, 1e308, -1e308]), ValueError, "other units"),
    "a flat X": (lambda: NOT_FITTED.fit(X2[:, 0], Y2), ValueError, "Expected 2D array, got 1D array"),
    "negative weights": (lambda: NOT_FITTED.fit(X2, Y2, [1.0, -1.0, 1.0]), ValueError, "sample_weight must not be negative"),
    "no weights": (lambda: NOT_FITTED.fit(X2, Y2, np.zeros(3)), ValueError, "zero"),
    "a missing time": (lambda: NOT_FITTED.fit(pd.DataFrame({"t": [pd.NaT, pd.NaT]}), Y2[:2]), ValueError, "contains NaN"),
    "text": (lambda: NOT_FITTED.fit([["a"], ["b"], ["c"]], Y2), ValueError, "could not convert string"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused_with_the_reason(name):
    attempt, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        attempt()


def test_pipelines_and_grid_search():
    X, y = record()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), hx.HarmonizableGPRegressor(**SMALL)),
        {"harmonizablegpregressor__max_frequency": [0.2, 2.0]},
        cv=[(np.arange(N) % 3 > 0, np.arange(N) % 3 == 0)],
    ).fit(X, y)
    assert search.best_score_ > 0.7
    assert search.best_params_ == {"harmonizablegpregressor__max_frequency": 2.0}

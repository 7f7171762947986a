"""The data sets promise: truth that is true, gaps that are empty, and the protocol every comparison uses."""

import inspect
import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from harmix import datasets
from harmix.datasets import load_banana, load_solar, make_chirp

KINDS = ("linear", "quadratic", "crossing", "jump", "burst")
SHARED = Path(os.environ.get("HARMIX_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


@pytest.fixture
def reference_data(monkeypatch):
    if not (SHARED / "solar_irradiance.csv").is_file():
        pytest.skip("set HARMIX_DATA to the directory of the reference data")
    monkeypatch.setenv("HARMIX_DATA", str(SHARED))


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No environment variable, and a cache that is empty."""
    monkeypatch.delenv("HARMIX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "harmix"


@pytest.mark.parametrize("kind", KINDS)
def test_a_chirp_has_the_shapes_and_masks_of_every_data_set(kind):
    d = make_chirp(201, kind=kind, gaps=0.3, random_state=0)
    R = 2 if kind == "crossing" else 1
    assert d.data.shape == (201, 1)
    assert d.target.shape == d.train.shape == d.test.shape == (201,)
    assert d.frequency.shape == d.amplitude.shape == (201, R)
    assert np.all(d.train ^ d.test)
    assert d.test.sum() == 60
    assert np.all(np.diff(d.data[:, 0]) > 0)
    assert d["target"] is d.target


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.3, 0.6])
def test_gaps_are_empty_and_add_up_to_the_fraction_asked_for(fraction):
    for seed in range(20):
        d = make_chirp(500, gaps=fraction, duration=8.0, random_state=seed)
        x = d.data[:, 0]
        inside = np.any((x[:, None] > d.gaps[:, 0]) & (x[:, None] < d.gaps[:, 1]), axis=1)
        assert not np.any(inside & d.train)
        assert np.array_equal(inside, d.test)
        assert np.sum(d.gaps[:, 1] - d.gaps[:, 0]) == pytest.approx(fraction * 8.0)
        edges = np.concatenate([[0.0], d.gaps.ravel(), [8.0]])
        assert np.all(np.diff(edges) >= 0), "gaps overlap or leave the record"


def test_sampling_is_uneven():
    steps = np.diff(make_chirp(400, gaps=0.0, random_state=0).data[:, 0])
    assert np.std(steps) > 0.5 * np.mean(steps)


@pytest.mark.parametrize("kind", KINDS)
def test_the_signal_to_noise_ratio_is_the_one_asked_for(kind):
    d = make_chirp(40_000, kind=kind, snr=6.0, random_state=1)
    x = d.data[:, 0]
    noise = (d.target - d.truth(x))[d.train]
    measured = 10 * np.log10(np.mean(d.truth(np.linspace(0, 10, 9999)) ** 2) / np.mean(noise**2))
    assert measured == pytest.approx(6.0, abs=0.15)
    assert np.std(noise) == pytest.approx(d.noise, rel=0.02)


def test_the_test_set_is_the_noiseless_truth():
    d = make_chirp(300, random_state=2)
    np.testing.assert_array_equal(d.target[d.test], d.truth(d.data[d.test]))
    assert np.all(d.target[d.train] != d.truth(d.data[d.train]))
    np.testing.assert_array_equal(
        make_chirp(50, noise=0.0, random_state=0).target, make_chirp(50, noise=0.0, random_state=0).target
    )


def test_ten_decibel_unless_asked_otherwise_and_noise_may_be_given_itself():
    # A cosine of amplitude 1 has power 1/2.
    assert make_chirp(5, random_state=0).noise == pytest.approx(np.sqrt(0.05), rel=0.02)
    assert make_chirp(5, noise=0.25, random_state=0).noise == 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_the_instantaneous_frequency_is_the_derivative_of_the_phase(kind):
    truth = make_chirp(5, kind=kind, duration=7.0, random_state=0).truth
    x, h = np.linspace(0.01, 6.99, 1000), 1e-5
    x = x[np.abs(x - 3.5) > 2 * h]  # where the frequency jumps it is no derivative
    slope = (truth.phase(x + h) - truth.phase(x - h)) / (2 * h)
    np.testing.assert_allclose(slope, truth.frequency(x), rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_the_signal_is_made_of_its_amplitudes_and_phases(kind):
    truth = make_chirp(5, kind=kind, random_state=0).truth
    x = np.linspace(0, 10, 101)
    waves = sum(a * np.cos(2 * np.pi * p) for a, p in zip(truth.amplitude(x).T, truth.phase(x).T, strict=True))
    np.testing.assert_allclose(truth(x), waves, atol=1e-14)
    np.testing.assert_array_equal(truth(x[:, None]), truth(x))


def test_kinds_do_what_their_names_say():
    of = lambda kind: make_chirp(5, kind=kind, random_state=0).truth
    assert of("linear").frequency([0, 5, 10])[:, 0].tolist() == [0.5, 2.25, 4.0]
    assert of("quadratic").frequency([0, 5, 10])[:, 0].tolist() == [0.5, 1.375, 4.0]
    assert of("crossing").frequency([5])[0].tolist() == [2.25, 2.25]
    assert of("jump").frequency([4.99, 5.01])[:, 0].tolist() == [1.0, 3.0]
    assert of("burst").amplitude([5])[0, 0] > 5 * of("burst").amplitude([0])[0, 0]


def test_the_same_random_state_gives_the_same_record():
    one, two = make_chirp(80, random_state=3), make_chirp(80, random_state=np.random.default_rng(3))
    np.testing.assert_array_equal(one.target, two.target)
    assert not np.array_equal(one.target, make_chirp(80, random_state=4).target)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.truth(again.data), one.truth(one.data))


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"n": 0}, ValueError, "n must be at least 1, got 0"),
        ({"n": 10.5}, TypeError, "n must be a whole number, got 10.5"),
        ({"n": True}, TypeError, "n must be a whole number, got True"),
        (
            {"kind": "sawtooth"},
            ValueError,
            "kind must be one of linear, quadratic, crossing, jump, burst; got 'sawtooth'",
        ),
        ({"gaps": 1.0}, ValueError, "gaps must be a fraction"),
        ({"gaps": -0.1}, ValueError, "gaps must be a fraction"),
        ({"gaps": "0.3"}, TypeError, "gaps must be a number, got '0.3'"),
        ({"snr": float("nan")}, ValueError, "snr must be finite, got nan"),
        ({"noise": -1.0}, ValueError, "noise is a standard deviation"),
        ({"noise": 0.1, "snr": 10.0}, ValueError, "give snr or noise, not both"),
        ({"duration": 0.0}, ValueError, "duration must be positive, got 0.0"),
        ({"random_state": "zero"}, TypeError, "random_state must be an integer"),
        ({"random_state": -1}, ValueError, "random_state must be at least 0"),
    ],
)
def test_bad_arguments_are_refused_by_name_and_value(arguments, error, says):
    # Unwrapped: where the tests check types at run time, that check would speak first.
    with pytest.raises(error, match=re.escape(says)):
        inspect.unwrap(make_chirp)(**{"n": 20, **arguments})


def test_a_field_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(AttributeError, match=r"no field 'y'; it has data, target"):
        _ = make_chirp(5, random_state=0).y


@pytest.mark.usefixtures("reference_data")
def test_solar_follows_the_protocol():
    d = load_solar()
    assert d.data.shape == (391, 1)
    assert d.target.shape == (391,)
    assert (d.test.sum(), d.train.sum()) == (110, 281)
    assert np.all(d.train ^ d.test)
    assert (d.year[0], d.irradiance[0]) == (1610.5, 1364.7338)
    for values in (d.data[:, 0], d.target):
        assert np.mean(values) == pytest.approx(0, abs=1e-12)
        assert np.std(values) == pytest.approx(1)
    np.testing.assert_allclose(d.target, (d.irradiance - d.irradiance.mean()) / d.irradiance.std())
    expected = np.zeros(391, dtype=bool)
    for start, stop in ((1620, 1650), (1700, 1720), (1780, 1800), (1850, 1870), (1930, 1950)):
        expected |= (start < d.year) & (d.year < stop)
    np.testing.assert_array_equal(d.test, expected)


@pytest.mark.usefixtures("reference_data")
def test_banana_is_two_classes_in_the_plane():
    d = load_banana()
    assert d.data.shape == (400, 2)
    assert set(d.target.tolist()) == {0, 1}
    assert d.target.dtype.kind == "i"
    assert d.train.all()
    assert not d.test.any()


def test_missing_data_name_both_places_and_the_remedy(nowhere, monkeypatch):
    with pytest.raises(FileNotFoundError) as raised:
        load_solar()
    message = str(raised.value)
    assert "solar_irradiance.csv" in message
    assert "HARMIX_DATA (it is not set)" in message
    assert str(nowhere) in message
    assert "Set HARMIX_DATA" in message
    monkeypatch.setenv("HARMIX_DATA", "/no/such/place")
    with pytest.raises(FileNotFoundError, match="/no/such/place") as raised:
        load_banana()
    assert str(nowhere) in str(raised.value)


@pytest.mark.usefixtures("reference_data")
def test_the_cache_serves_what_the_environment_variable_does_not(nowhere, monkeypatch, tmp_path):
    nowhere.mkdir(parents=True)
    (nowhere / "banana.csv").write_text((SHARED / "banana.csv").read_text())
    assert load_banana().data.shape == (400, 2)
    monkeypatch.setenv("HARMIX_DATA", str(tmp_path))
    assert load_banana().data.shape == (400, 2)
    with pytest.raises(FileNotFoundError):
        load_solar()


@pytest.mark.parametrize("content", ["1,2,3\n", "not a table\n", "<html></html>"])
def test_a_file_that_is_not_the_table_is_named(nowhere, content):
    nowhere.mkdir(parents=True)
    (nowhere / "banana.csv").write_text(content)
    with pytest.raises(ValueError, match=r"banana\.csv .*replace the file"):
        load_banana()


def test_the_cache_is_where_the_platform_wants_it(monkeypatch):
    monkeypatch.delenv("HARMIX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", "/home/somebody")
    for platform, place in (
        ("linux", "/home/somebody/.cache/harmix"),
        ("darwin", "/home/somebody/Library/Caches/harmix"),
    ):
        monkeypatch.setattr(datasets.sys, "platform", platform)
        assert [str(p) for p in datasets.data_directories()] == [place]
    monkeypatch.setenv("HARMIX_DATA", "~/data")
    assert str(datasets.data_directories()[0]) == "/home/somebody/data"

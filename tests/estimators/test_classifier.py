"""The classifier takes any labels, its answers agree with each other, and it comes back from a file as it was."""

import json
import pickle

import numpy as np
import pytest
from model_files import pack, unpack
from scipy.special import ndtr

import harmix as hx
from harmix.persistence import ModelFileError

SMALL = {"n_components": 2, "n_frequencies": 1, "n_inducing": 3, "n_restarts": 1, "random_state": 0}


def waves(n=60):
    """Labels that alternate along a line: "a", "b", "c" by turns."""
    x = np.linspace(-1, 1, n)
    return x[:, None], np.array(["a", "b", "c"], dtype=object)[np.digitize(x, [-0.4, 0.4])]


@pytest.fixture(scope="module")
def two():
    X, y = waves()
    return hx.HarmonizableGPClassifier(**SMALL).fit(X, y == "b")


@pytest.fixture(scope="module")
def three():
    return hx.HarmonizableGPClassifier(**SMALL).fit(*waves())


def test_two_classes(two):
    X, y = waves()
    assert two.score(X, y == "b") > 0.9
    np.testing.assert_array_equal(two.classes_, [False, True])
    probabilities, decision = two.predict_proba(X), two.decision_function(X)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(probabilities[:, 1], ndtr(decision), rtol=1e-12)
    np.testing.assert_array_equal(two.predict(X), decision > 0)


def test_three_classes_whose_names_are_objects(three):
    X, y = waves()
    assert three.score(X, y) > 0.9
    assert three.predict(X).dtype == object
    probabilities, decision = three.predict_proba(X), three.decision_function(X)
    np.testing.assert_allclose(np.sum(probabilities, axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.exp(decision), probabilities, rtol=1e-12)
    np.testing.assert_array_equal(three.predict(X), three.classes_[np.argmax(decision, axis=1)])
    assert type(three.result_.likelihood) is hx.likelihoods.Softmax


def test_weights_count_rows():
    X, y = waves()
    weights = np.arange(len(y)) % 3
    one = hx.HarmonizableGPClassifier(**SMALL).fit(X, y == "b", weights)
    two = hx.HarmonizableGPClassifier(**SMALL).fit(X.repeat(weights, axis=0)[::-1], (y == "b").repeat(weights)[::-1])
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_pictures_have_a_class_where_there_are_several(two, three):
    assert two.wigner([0.0], [0.1, 0.2]).sizes == {"time": 1, "frequency": 2}
    picture = three.spectrogram([0.0], [0.1, 0.2], width=0.2)
    assert dict(picture.sizes) == {"class": 3, "time": 1, "frequency": 2}
    assert list(picture["class"].values) == ["a", "b", "c"]
    assert len(three.components_) == SMALL["n_components"]


def test_a_saved_classifier_predicts_the_same(two, three, tmp_path):
    X, _ = waves()
    for model in (two, three):
        model.save(tmp_path / "m")
        for again in (hx.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))):
            assert again.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
            assert again.classes_.dtype == model.classes_.dtype
            np.testing.assert_array_equal(again.predict(X), model.predict(X))
    members = unpack(tmp_path / "m")
    header = json.loads(members["header.json"])
    header["model"]["state"]["items"]["classes_"] = {"type": "strings", "shape": [2], "items": ["a", "b"]}
    (tmp_path / "m").write_bytes(pack(members | {"header.json": json.dumps(header).encode()}))
    with pytest.raises(ModelFileError, match="q does not fit the rest"):
        hx.load(tmp_path / "m")


def test_places_without_support_are_warned_of(two):
    with pytest.warns(hx.ExtrapolationWarning, match="1 of 1 rows"):
        two.predict([[1e3]])


def test_one_class_is_refused():
    X, y = waves()
    with pytest.raises(ValueError, match="one class only, 'a'"):
        hx.HarmonizableGPClassifier(**SMALL).fit(X, y, y == "a")


def test_a_bar_is_drawn_only_on_a_terminal(capfd):
    X, y = waves()
    hx.HarmonizableGPClassifier(**SMALL | {"verbose": 1}).fit(X, y == "b")
    assert capfd.readouterr() == ("", "")

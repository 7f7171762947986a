"""The demo's picture: a kernel that has the signal's variance and frequency."""

import json

import numpy as np
import pytest

from harmix import spectral
from harmix.datasets import make_chirp
from harmix.experiments import demo


@pytest.fixture(scope="module")
def chirp():
    return make_chirp(100, kind="quadratic", random_state=0)


def test_the_kernel_has_the_variance_of_the_signal_everywhere(chirp):
    x = np.linspace(0, chirp.duration, 101)
    np.testing.assert_allclose(np.asarray(demo.kernel_along(chirp).diag(x)), 0.5, rtol=0.01)


def test_the_ridge_of_its_wigner_distribution_is_the_frequency_of_the_signal(chirp):
    x, w = np.linspace(1, 9, 33), np.linspace(0, 5, 501)
    W = np.asarray(spectral.wigner(demo.kernel_along(chirp), x, w))
    np.testing.assert_allclose(w[np.argmax(W, axis=1)], chirp.truth.frequency(x)[:, 0], atol=0.1)


def test_it_writes_one_picture_and_the_same_one_again(tmp_path):
    first = demo.run(tmp_path / "a")
    assert first["pictures"] == ["demo.png"]
    assert json.loads((tmp_path / "a" / "demo.json").read_text()) == first
    demo.run(tmp_path / "b")
    picture = (tmp_path / "a" / "demo.png").read_bytes()
    assert picture == (tmp_path / "b" / "demo.png").read_bytes()
    demo.run(tmp_path / "b", seed=1)
    assert picture != (tmp_path / "b" / "demo.png").read_bytes()


def test_a_directory_that_cannot_be_made_is_refused_before_any_work(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="choose another one with --out"):
        demo.run(tmp_path / "file" / "below")

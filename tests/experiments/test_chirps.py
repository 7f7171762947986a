"""The chirp experiment: its yardsticks, and one signal for real."""

import numpy as np
import pytest

import harmix as hx
from harmix.experiments import chirps


def test_the_ridge_error_is_the_distance_from_the_nearest_true_frequency() -> None:
    data = hx.datasets.make_chirp(50, kind="crossing", random_state=0)
    truth = data.truth.frequency(chirps.TIMES)
    assert chirps.ridge_error(truth[:, 1], data) == 0
    assert chirps.ridge_error(truth[:, 0] + 0.05, data) <= 0.05 + 1e-12


def test_faint_parts_of_a_signal_do_not_count() -> None:
    data = hx.datasets.make_chirp(50, kind="burst", random_state=0)
    ridge = np.where(np.abs(chirps.TIMES - 5) < 1.0, 2.0, 50.0)
    assert chirps.ridge_error(ridge, data) < chirps.ridge_error(np.full_like(ridge, 50.0), data) / 1.5


@pytest.mark.slow
def test_a_jump_is_followed() -> None:
    found = chirps.one("jump", 100)
    assert found["hmk"]["ridge"] < 0.1
    assert found["hmk"]["rmse"] < 0.4

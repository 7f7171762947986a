"""The denseness theorems, measured in small: more components, frequencies or terms come nearer."""

import numpy as np

from harmix import kernels
from harmix.experiments import theorems


def test_theorem_3_the_error_falls_with_components_and_with_frequencies():
    x = np.linspace(-0.5, 0.5, 20)
    chirp = kernels.GeneralizedSpectralMixture([lambda x: 1.0], [lambda x: 2 + x], [lambda x: 0.3])
    found = theorems.theorem_3(chirp, x, band=4.0, Ps=(1, 3), Qs=(1, 2), steps=30)
    for table in (np.array(found["grid"]), np.array(found["between"])):
        assert table.shape == (2, 2)
        assert np.all(table[:, 1] < table[:, 0] / 2)
        assert np.all(table[1] < table[0] / 1.5)


def test_theorem_2_the_error_falls_with_terms_and_the_parameters_are_those_of_a_covariance():
    target, base = kernels.Matern(1.5, 2.0, 0.5), kernels.SquaredExponential(1.0, 1.0)
    found = theorems.theorem_2(target, base, Qs=(1, 3), points=40)
    assert found["grid"][1] < found["grid"][0] / 20
    assert found["between"][1] < found["between"][0] / 20
    k = kernels.StationaryGeneralizedSpectral(base, **found["parameters"])
    x = np.linspace(0, 3, 40)
    assert theorems.mean_squared_error(k, target, x) == found["grid"][1]
    assert np.all(np.asarray(k.weights) >= 0)

"""Every kernel computes what its formula says."""

import inspect

import numpy as np
import pytest
from kernels.draws import FAMILIES, VARIANT_IDS, VARIANTS, points
from references.kernels import formula, gram

from harmix import kernels


def concrete_kernels():
    classes = [value for _, value in inspect.getmembers(kernels, inspect.isclass)]
    return {c for c in classes if issubclass(c, kernels.Kernel) and not inspect.isabstract(c)}


def test_every_public_kernel_has_random_draws():
    assert concrete_kernels() == set(FAMILIES)


@pytest.mark.parametrize("D", [1, 3])
@pytest.mark.parametrize(("family", "name", "draw"), VARIANTS, ids=VARIANT_IDS)
def test_a_kernel_agrees_with_its_formula(family, name, draw, D):
    rng = np.random.default_rng(D)
    k = draw(rng, D)
    X1, X2 = points(rng, 6, D), points(rng, 5, D)
    expected = gram(formula(k), X1, X2)
    values = k(X1, X2)
    assert type(k) is family
    assert values.shape == (6, 5)
    assert values.dtype == (np.float64 if k.is_real else np.complex128)
    np.testing.assert_allclose(values, expected, rtol=0, atol=1e-12 * np.max(np.abs(gram(formula(k), X1, X1))))

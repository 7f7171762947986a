"""Kuu stays block diagonal from its definition to the gradient: the program never holds it, or its factor, as a full matrix."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from inference.problems import KINDS, problem

import harmix as hx
from harmix.features import make_basis
from harmix.inference.collapsed import collapse
from harmix.inference.stochastic import bound


def equations(jaxpr):
    """Every primitive application, also inside loops, branches and custom derivatives."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


def program(fn, model):
    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    run = lambda arrays: fn(*eqx.combine(arrays, static))
    with jax.enable_x64(True):
        return list(equations(jax.make_jaxpr(jax.value_and_grad(run))(arrays).jaxpr))


def shapes(found):
    return [v.aval.shape for equation in found for v in equation.outvars if hasattr(v.aval, "shape")]


def cholesky_sizes(found):
    return [e.invars[0].aval.shape[-1] for e in found if e.primitive.name == "cholesky"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_array_of_the_full_size_of_kuu_is_made_but_the_posterior_precision(kind):
    p = problem(kind)
    blocks = hx.features.kuu(p.features, p.kernel).blocks
    M, m = blocks.shape[0] * blocks.shape[1], blocks.shape[1]
    assert m < M
    with jax.enable_x64(True):
        noise, data = jnp.asarray(p.noise), hx.Summary.exact(*p.data)
        q = hx.VariationalGaussian(p.features, p.kernel, structure="block")

    def stochastic(kernel, features, q):
        return bound(kernel, features, hx.likelihoods.Gaussian(p.noise), q, data.nodes, data.b, p.X.shape[0])[0]

    found = program(stochastic, (p.kernel, p.features, q))
    assert set(cholesky_sizes(found)) == {m}
    assert not [s for s in shapes(found) if s[-2:] == (M, M)]

    found = program(lambda k, u: collapse(make_basis(k, u), noise, data).bound, (p.kernel, p.features))
    # The precision of u given the data is dense, since the components overlap; Kuu is not.
    assert sorted(set(cholesky_sizes(found))) == [m, M]
    dense = program(
        lambda k, u: collapse(make_basis(k, u), noise, data).bound, (p.kernel, hx.features.InducingPoints(np.zeros((M, 1))))
    )
    assert len([s for s in cholesky_sizes(found) if s == M]) < len([s for s in cholesky_sizes(dense) if s == M])

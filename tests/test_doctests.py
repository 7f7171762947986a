"""Every example in a docstring runs and prints what it says; every public kernel and spectrum has one."""

import doctest
import importlib
import inspect
import pkgutil

import jax.numpy as jnp
import numpy as np
import pytest

import harmix as hx


def modules():
    yield hx
    for info in pkgutil.walk_packages(hx.__path__, "harmix."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    for module in modules():
        for test in finder.find(module, extraglobs={"jnp": jnp, "np": np}):
            if test.examples:
                yield pytest.param(test, id=test.name)


@pytest.mark.parametrize("example", list(examples()))
def test_the_example_in_a_docstring_prints_what_it_says(example):
    output = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(example, out=output.append)
    assert runner.failures == 0, "".join(output)


def public():
    for namespace in (hx.kernels, hx.spectral, hx.spectral.numeric):
        for name, value in inspect.getmembers(namespace):
            module = getattr(value, "__module__", "")
            ours = module.startswith(("harmix.kernels", "harmix.spectral")) and "._" not in module
            if ours and not name.startswith("_") and (inspect.isclass(value) or inspect.isfunction(value)):
                yield name, value


# Not for use by themselves, and an error.
WITHOUT_EXAMPLE = {"Kernel", "Pointwise", "Stationary", "Sum", "Product", "Scaled", "NoClosedFormError"}


@pytest.mark.parametrize("name", sorted({name for name, _ in public()} - WITHOUT_EXAMPLE))
def test_every_public_kernel_and_spectrum_has_an_example(name):
    for other, value in public():
        if other == name:
            assert "Example:\n" in inspect.getdoc(value)


@pytest.mark.parametrize("name", sorted({name for name, _ in public()}))
def test_everything_public_is_documented(name):
    for other, value in public():
        if other == name:
            assert inspect.getdoc(value)
            if inspect.isfunction(value):
                assert "Args:\n" in inspect.getdoc(value)

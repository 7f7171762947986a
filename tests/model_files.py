"""Small models, and model files taken apart and put together again."""

import io
import zipfile

import jax
import numpy as np

import harmix as hx


def pack(members, **kwargs):
    """A zip archive from names and contents (or pairs of them, where a name occurs twice)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **kwargs) as archive:
        for name, content in members.items() if isinstance(members, dict) else members:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, kwargs.get("compression"))
    return buffer.getvalue()


def npy(array, **kwargs):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version=(1, 0), **kwargs)
    return buffer.getvalue()


def unpack(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def assert_same(a, b):
    """The same tree of the same types, arrays equal in every bit."""
    assert type(a) is type(b) or (isinstance(a, jax.Array) and isinstance(b, jax.Array)), (type(a), type(b))
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for one, two in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if isinstance(one, str | int | float | bool):
            assert type(one) is type(two)
            assert one == two
        else:
            one, two = np.asarray(one), np.asarray(two)
            assert (one.dtype, one.shape) == (two.dtype, two.shape)
            assert one.tobytes() == two.tobytes()


def mixture(real=True):
    B = np.array([[[1.0, 0.3 + 0.2j], [0.3 - 0.2j, 0.5]]])
    return hx.kernels.HarmonizableMixture([[0.0], [2.0]], [[1.0]], [[0.5]], [[[1.0], [1.7]]], B, real=real)


def sparse(real=True):
    """Kernel, features, data."""
    rng = np.random.default_rng(0)
    u = hx.features.FourierFrequencies(rng.uniform(0.3, 2.0, (2, 4, 1)))
    y = rng.normal(size=12) + (0 if real else 1j * rng.normal(size=12))
    return mixture(real), u, (rng.uniform(-1, 3, 12), y)

"""A saved model comes back bit for bit, in this version and the next; see test_persistence_refusals for all other files.

`python tests/test_persistence.py` writes the files in tests/data: one of each format version, never to be written again.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from forged_models import header
from model_files import assert_same, mixture, npy, pack, sparse, unpack

import harmix as hx
from harmix import _archive, _tree
from harmix.persistence import load, save

DATA = Path(__file__).parent / "data"

# --- the files in tests/data ------------------------------------------------------------------------------------------

X, Y, NOISE, VARIANCE, LENGTH = np.array([0.0, 0.4, 1.1, 2.0]), np.array([0.3, -0.2, 0.9, 0.1]), 0.05, 1.5, 0.7


def squared_exponential(a, b):
    return VARIANCE * np.exp(-((a[:, None] - b) ** 2) / (2 * LENGTH**2))


def write_format_1(path):
    """An exact posterior in format 1, by hand: no code of harmix has a part in it."""
    lower = np.linalg.cholesky(squared_exponential(X, X) + NOISE * np.eye(4))
    arrays = []

    def array(value):
        arrays.append(np.asarray(value, dtype=float))
        return {"kind": "array", "member": f"arrays/{len(arrays) - 1}.npy", "dtype": "float64"}

    def module(kind, **fields):
        return {"kind": kind, "fields": fields}

    inverse = np.linalg.inv(lower)
    basis = module(
        "Basis",
        kernel=module("SquaredExponential", variance=array(VARIANCE), lengthscale=array(LENGTH)),
        features=module("InducingPoints", locations=array(X[:, None])),
        inverse_scale=array(np.ones(4)),
        factor=module("Cholesky", lower=array(lower[None]), inverse=array(inverse[None]), jitter=array(0.0)),
    )
    model = module("Posterior", basis=basis, mean_weights=array(inverse @ Y), root=None, noise_variance=array(NOISE))
    model = {"kind": "list", "items": [model, {"kind": "dict", "items": {"kind": "x"}}]}
    header = json.dumps({"format": "harmix model", "version": 1, "model": model}).encode()
    Path(path).write_bytes(pack({"header.json": header} | {f"arrays/{i}.npy": npy(a) for i, a in enumerate(arrays)}))


def write_format_4(path):
    """The same as this version saves it, and saved it in formats 2 and 3."""
    kernel = hx.kernels.SquaredExponential(VARIANCE, LENGTH)
    save([hx.condition(kernel, None, NOISE, (X, Y)), {"kind": "x"}], path, details={"from": "tests"})


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_files_of_every_format_version_still_predict_what_they_did(version):
    (posterior, rest), details = load(DATA / f"model_format_{version}.harmix", return_details=True)
    assert rest == {"kind": "x"}
    assert details == ({} if version == 1 else {"harmix": "0.1.0", "from": "tests"})
    at = np.array([-0.5, 0.7, 1.5])
    k, K = squared_exponential(X, at), squared_exponential(X, X) + NOISE * np.eye(4)
    np.testing.assert_allclose(posterior.mean(at), k.T @ np.linalg.solve(K, Y), rtol=1e-12)
    np.testing.assert_allclose(posterior.variance(at), VARIANCE - np.sum(k * np.linalg.solve(K, k), axis=0), rtol=1e-12)
    np.testing.assert_allclose(posterior.mean(at), [0.6883413610521, 0.2107355197603, 0.8561074154061], rtol=1e-10)


def test_there_is_a_file_of_every_format_version():
    assert {p.name for p in DATA.glob("*.harmix")} == {f"model_format_{v}.harmix" for v in range(1, _archive.VERSION + 1)}


def test_an_old_file_is_migrated_as_it_would_be_written_today(tmp_path):
    write_format_1(tmp_path / "old")
    save(load(tmp_path / "old"), tmp_path / "new")
    header = json.loads(unpack(tmp_path / "new")["header.json"])
    assert header["version"] == 4
    assert header["model"]["items"][0]["type"] == "Posterior"


def test_a_mixture_of_format_3_has_no_chirps(tmp_path):
    from kernels import draws

    kernel = draws.mixture(imaginary=True)(np.random.default_rng(0), 2)
    save({"of": [kernel]}, tmp_path / "new")
    parts = unpack(tmp_path / "new")
    header = json.loads(parts["header.json"]) | {"version": 3}
    assert header["model"]["items"]["of"]["items"][0]["fields"].pop("rates", "missing") is None
    (tmp_path / "old").write_bytes(pack(parts | {"header.json": json.dumps(header).encode()}))
    again = load(tmp_path / "old")["of"][0]
    assert again.rates is None
    np.testing.assert_array_equal(again(np.eye(2)), kernel(np.eye(2)))


# --- round trips ------------------------------------------------------------------------------------------------------


def round_trip(model, tmp_path):
    save(model, tmp_path / "model.harmix")
    return load(tmp_path / "model.harmix")


def classes(base):
    for cls in base.__subclasses__():
        if cls.__module__.startswith("harmix."):
            yield cls
            yield from classes(cls)


def kernels(D):
    from kernels import draws

    rng = np.random.default_rng(D)
    return {id: (family, draw(rng, D)) for (family, _, draw), id in zip(draws.VARIANTS, draws.VARIANT_IDS, strict=True)}


def test_every_kernel_comes_back_or_is_refused_with_a_reason(tmp_path):
    seen = set()
    for D in (1, 2):
        for family, kernel in kernels(D).values():
            seen.add(family)
            if family in _tree.WITH_FUNCTIONS:
                with pytest.raises(
                    TypeError, match=rf"model is a {family.__name__}, which is made of Python functions.*no code"
                ):
                    save(kernel, tmp_path / "refused")
            else:
                assert_same(round_trip(kernel, tmp_path), kernel)
    assert not (tmp_path / "refused").exists()
    assert seen == {cls for cls in classes(hx.kernels.Kernel) if not cls.__abstractmethods__}


def test_every_feature_and_likelihood_can_be_saved():
    for base in (hx.features.Features, hx.likelihoods.Likelihood):
        public = {cls for cls in classes(base) if not cls.__abstractmethods__ and not cls.__name__.startswith("_")}
        # Examples in docstrings define features and likelihoods too, under the name of the module that they stand in.
        public = {cls for cls in public if getattr(sys.modules[cls.__module__], cls.__name__, None) is cls}
        assert public <= set(_tree.TYPES.values())


def test_likelihoods_come_back(tmp_path):
    l = hx.likelihoods
    many = [
        l.Gaussian(0.1),
        l.StudentT(4.0, 0.2),
        l.Bernoulli(),
        l.Bernoulli("logit"),
        l.Poisson(),
        l.Poisson(2.5),
        l.Softmax(3),
    ]
    again = round_trip(many, tmp_path)
    assert_same(again, many)
    y, mean = [0.0, 1.0], [0.2, -0.1]
    assert_same(again[0].expected_log_prob(y, mean, [1.0, 1.0]), many[0].expected_log_prob(y, mean, [1.0, 1.0]))
    (tmp_path / "m").write_bytes(header(model={"type": "Poisson", "fields": {"exposure": 2}})(None))
    assert load(tmp_path / "m") == l.Poisson(2.0)  # an int is good enough for a float


def test_posteriors_of_every_kind_come_back(tmp_path):
    kernel, u, _ = sparse(real=False)
    windowed, stationary = hx.features.WindowedFourier([[0.2], [0.9]], [0.5], [2.0]), hx.kernels.SquaredExponential(1.0, 0.4)
    posteriors = [
        hx.posterior(kernel, u, hx.VariationalGaussian(u, kernel)),
        hx.posterior(stationary, windowed, hx.VariationalGaussian(windowed, stationary), hx.likelihoods.Gaussian(0.1)),
    ]
    assert_same(round_trip(posteriors, tmp_path), posteriors)


def test_a_loaded_posterior_predicts_exactly_as_the_saved_one(tmp_path):
    assert not jax.config.read("jax_enable_x64")
    kernel, u, data = sparse()
    posterior = hx.condition(kernel, u, 0.1, data)
    again = round_trip(posterior, tmp_path)
    assert_same(again, posterior)
    x = np.linspace(-1, 3, 5)
    for ask in (lambda p: p.mean(x), lambda p: p.variance(x)):
        assert ask(again).dtype == np.float64
        assert ask(again).tobytes() == ask(posterior).tobytes()


def test_a_fresh_32_bit_process_predicts_exactly_the_same():
    path = DATA / "model_format_4.harmix"
    code = (
        "import sys, jax; from harmix.persistence import load; assert not jax.config.read('jax_enable_x64');"
        "print(load(sys.argv[1])[0].mean([-0.5, 0.7, 1.5]).tobytes().hex())"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == load(path)[0].mean([-0.5, 0.7, 1.5]).tobytes().hex()


def test_variational_distributions_and_summaries_come_back(tmp_path):
    kernel, u, (x, y) = sparse()
    q = hx.VariationalGaussian(u, kernel, n_latent=2, structure="block")
    q = eqx.tree_at(lambda q: q.mean, q, np.random.default_rng(1).normal(size=q.mean.shape))
    compressed = hx.summarize(x, y, max_frequency=6.0, domain=(-1.0, 3.0))
    state = (q, hx.Summary.exact(x, y + 1j), compressed)
    again = round_trip(state, tmp_path)
    assert_same(again[1:], state[1:])
    np.testing.assert_array_equal(again[0].mean, q.mean)
    assert again[2].grid == compressed.grid
    assert_same(again[2] + compressed, compressed + compressed)


def test_nested_state_comes_back(tmp_path):
    state = {
        "list": [1, -(10**400), 0.1, 5e-324, -0.0, True, None, "ä\n\ud800", []],
        "tuple": ({}, (), {"type": "array", "items": [1]}),
        "floats": np.array([[1 / 3, -0.0, 5e-324, 1.7e308]]),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "strided": np.arange(10)[::-3],
        "complex": np.array([1 + 2j, -0.0j]),
        "flags": np.array([[True], [False]]),
        "empty": np.zeros((0, 3)),
        "times": np.array(["2001-01-01T00:00", "1969-12-31T23:59"], dtype="datetime64[s]"),
        "span": np.array([1, -5], dtype="timedelta64[ns]"),
        "day": np.datetime64("2020-02-29"),
        "number": np.float64(0.1),
        "labels": np.array([["cat", "ö"], ["dog", ""]]),
        "": hx.kernels.Matern(0.5, 1.0, 2.0),
    }
    again = round_trip(state, tmp_path)
    assert list(again) == list(state)
    assert_same(again, state)
    assert type(again["number"]) is np.float64
    again["floats"][0, 0] = 2.0  # arrays are the reader's own


def test_narrow_and_foreign_arrays_are_widened_exactly(tmp_path):
    narrow = {
        "f": np.float32([0.1, 3]),
        "i": np.array([7, -1], "int8"),
        "u": np.uint32([2**32 - 1]),
        "b": np.array([1.5], ">f8"),
    }
    again = round_trip(narrow | {"t": np.array([0, 1], "datetime64[25s]")}, tmp_path)
    assert [again[k].dtype.str for k in "fiub"] == ["<f8", "<i8", "<i8", "<f8"]
    assert all(np.array_equal(again[k], narrow[k]) for k in "fiub")
    assert again["t"][1] == np.datetime64(25, "s")


def test_a_python_number_in_place_of_a_parameter_is_saved_as_one(tmp_path):
    kernel = eqx.tree_at(lambda k: k.variance, hx.kernels.SquaredExponential(1.0, 2.0), 3.0)
    assert_same(round_trip(kernel, tmp_path), hx.kernels.SquaredExponential(3.0, 2.0))


def test_details_are_kept_with_the_version_of_harmix(tmp_path):
    save(None, tmp_path / "m", details={"a": [1, {"b": None}], "c": 0.5})
    assert load(tmp_path / "m", return_details=True) == (None, {"harmix": hx.__version__, "a": [1, {"b": None}], "c": 0.5})
    for bad, word in (({1: 2}, "details"), ({"a": np.ones(2)}, r"details\['a'\].*ndarray"), ({"a": np.nan}, "nan")):
        with pytest.raises(TypeError, match=word):
            save(None, tmp_path / "m", details=bad)


# --- writing ----------------------------------------------------------------------------------------------------------


class Own(hx.kernels.Pointwise):
    scale: float

    def evaluate(self, x1, x2):
        return self.scale * x1[0] * x2[0]


def broken_kernel():
    return eqx.tree_at(lambda k: k.variance, hx.kernels.SquaredExponential(1.0, 1.0), -1.0)


CANNOT_BE_SAVED = {
    "NaN in an array": (lambda: {"a": np.array([1.0, np.nan])}, ValueError, r"model\['a'\] must be finite"),
    "infinity": (lambda: [np.inf], ValueError, r"model\[0\] must be finite, got inf"),
    "a missing time": (lambda: np.array(["NaT"], "datetime64[s]"), ValueError, "model must have no missing times"),
    "objects": (lambda: np.array(["a", 1], dtype=object), TypeError, r"array of object.*astype\(str\)"),
    "wide integers": (lambda: np.array([2**64 - 1], "uint64"), TypeError, "array of uint64"),
    "a function": (lambda: {"f": len}, TypeError, r"model\['f'\] is a function.*no code"),
    "a set": (lambda: {1}, TypeError, "model is a set"),
    "a kernel of one's own": (lambda: 2.0 * Own(1.0), TypeError, "model.kernel is a Own, which is not one of harmix's own"),
    "keys that are numbers": (lambda: {1: 2}, TypeError, "model has the key 1"),
    "a random key": (lambda: jax.random.key(0), TypeError, "random key"),
    "a parameter out of range": (broken_kernel, ValueError, "variance must be positive, got -1.0"),
    "batched parameters": (
        lambda: eqx.tree_at(lambda k: k.variance, hx.kernels.SquaredExponential(1.0, 1.0), np.ones(2)),
        ValueError,
        "model.variance must be .*got float64 of shape",
    ),
    "something endless": (lambda: (a := [])[:0] or a.append(a) or a, ValueError, "more than 100 levels"),
}


@pytest.mark.parametrize("name", CANNOT_BE_SAVED)
def test_what_could_not_be_loaded_is_refused_before_a_file_is_touched(name, tmp_path):
    make, error, words = CANNOT_BE_SAVED[name]
    (tmp_path / "m").write_text("before")
    with pytest.raises(error, match=words) as caught:
        save(make(), tmp_path / "m")
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    assert (tmp_path / "m").read_text() == "before"


def test_the_same_model_makes_the_same_bytes_at_any_time(tmp_path, monkeypatch):
    save(mixture(), tmp_path / "a")
    monkeypatch.setattr(time, "time", lambda: 2e9)
    save(mixture(), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_opens_the_file_too(tmp_path):
    save({"x": np.arange(3.0)}, tmp_path / "m")
    with np.load(tmp_path / "m", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["arrays/0"], [0.0, 1.0, 2.0])


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    save(1, tmp_path / "m")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save(2, tmp_path / "m")
    monkeypatch.undo()
    assert load(tmp_path / "m") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_saving_follows_links_and_says_what_is_in_the_way(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "m")
    save(1, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(str(tmp_path / "m")) == 1
    (tmp_path / "plain").touch()
    assert (tmp_path / "m").stat().st_mode == (tmp_path / "plain").stat().st_mode
    with pytest.raises(IsADirectoryError, match="give the name of a file"):
        save(1, tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        save(1, tmp_path / "no" / "m")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(tmp_path / "nowhere")


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    write_format_1(DATA / "model_format_1.harmix")
    write_format_4(DATA / "model_format_4.harmix")

"""A file that is not a saved model, by accident or by intent, is refused in one line and does nothing."""

import json
import os
import pickle
import time

import numpy as np
import pytest
from forged_models import NOT_MODELS, array, npz
from model_files import assert_same, npy, pack, sparse, unpack

import harmix as hx
from harmix import _archive
from harmix.persistence import ModelFileError, load, save


class Evil:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


# --- files that are not models ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """What a saved posterior is made of."""
    path = tmp_path_factory.mktemp("model") / "m"
    kernel, u, data = sparse()
    save([hx.condition(kernel, u, 0.1, data), hx.summarize(*data, max_frequency=6.0)], path)
    return unpack(path)


@pytest.mark.parametrize("name", NOT_MODELS)
def test_a_file_that_is_no_model_is_refused_in_one_line_that_names_it(name, members, tmp_path):
    make, words = NOT_MODELS[name]
    path = tmp_path / "some.harmix"
    with pytest.warns(UserWarning, match="Duplicate") if name == "a member twice" else pytest.MonkeyPatch.context():
        path.write_bytes(make(members))
    with pytest.raises(ModelFileError, match=words) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path} ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 600
    assert any(remedy in message for remedy in ("give a file", "copy it again", "save the model again", "upgrade harmix")), (
        message
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f["grid"]["fields"].update(order=10**9), "out of range"),
        (lambda f: f["grid"]["fields"].update(order=47), "do not make up the panels"),
        (lambda f: f["grid"]["fields"].update(width={"type": "tuple", "items": []}), "one number for each dimension"),
        (lambda f: f["grid"]["fields"].update(width={"type": "tuple", "items": ["1"]}), "width must be tuple"),
        (lambda f: f.update(grid=None), "grid and panels belong together"),
        (lambda f: f.update(panels=f["a"], a=f["panels"]), "a must be Float"),
    ],
)
def test_a_summary_with_a_wrong_grid_is_refused(change, words, members, tmp_path):
    header = json.loads(members["header.json"])
    change(header["model"]["items"][1]["fields"])
    (tmp_path / "m").write_bytes(pack(members | {"header.json": json.dumps(header).encode()}))
    with pytest.raises(ModelFileError, match=words):
        load(tmp_path / "m")


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    with pytest.raises(ModelFileError, match="is a directory"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        load(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"PK\x03\x04")
    os.truncate(tmp_path / "large", _archive.LARGEST + 1)  # takes no space
    with pytest.raises(ModelFileError, match="more than the"):
        load(tmp_path / "large")


def test_a_pickle_in_a_model_file_executes_nothing(tmp_path):
    trace = tmp_path / "executed"
    evil = np.array([Evil(trace)], dtype=object)
    files = [
        pickle.dumps(Evil(trace)),
        array(npy(evil, allow_pickle=True), dtype="object")(0),
        array(npy(evil, allow_pickle=True))(0),
        npz(model=evil),
        npy(evil, allow_pickle=True),
        pack({"header.json": pickle.dumps(Evil(trace))}),
    ]
    for content in files:
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(ModelFileError):
            load(tmp_path / "m")
    assert not trace.exists()
    pickle.loads(files[0])
    assert trace.exists(), "this pickle would not have done anything anyhow"


# --- files at random --------------------------------------------------------------------------------------------------


def small():
    """A model of every sort of node, quick to check."""
    kernel = hx.kernels.Matern(1.5, 1.0, [0.5, 2.0]) + hx.kernels.SparseSpectrum([1.0, 0.5], [[0.1, 1.0], [0.3, 2.0]])
    return {
        "kernel": kernel,
        "list": [1, 0.5, None, True, "x"],
        "t": np.array([1, 2], "datetime64[s]"),
        "l": np.array(["a", "b"]),
    }


def damage(data, rng):
    """One of the things that happen to bytes."""
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 30))
    match rng.integers(5):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + length :]
        case 2:
            return data[:at] + rng.bytes(length) + data[at:]
        case 3:
            return data[:at] + bytes(length) + data[at + length :]
    return flipped(data, at, rng)


def flipped(data, at, rng):
    """One bit."""
    return data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :]


def test_a_damaged_file_is_refused_or_still_the_same_model(tmp_path):
    model, path = small(), tmp_path / "m"
    save(model, path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    # Every third byte has its turn, by one bit; and three hundred other accidents.
    flips = [flipped(data, i, rng) for i in range(0, len(data), 3)]
    outcomes = {"same": 0, "refused": 0}
    for content in flips + [damage(data, rng) for _ in range(300)]:
        path.write_bytes(content)
        start = time.perf_counter()
        try:
            assert_same(load(path), model)
            outcomes["same"] += 1
        except ModelFileError:
            outcomes["refused"] += 1
        assert time.perf_counter() - start < 5
    assert outcomes["refused"] > 600
    assert outcomes["same"] > 10  # in time stamps and the like


def test_a_forged_file_with_right_checksums_is_refused_or_a_valid_model(tmp_path):
    path = tmp_path / "m"
    save(small(), path)
    parts = unpack(path)
    rng = np.random.default_rng(1)
    loaded = refused = 0
    for _ in range(400):
        name = list(parts)[int(rng.integers(len(parts)))]
        forged = (
            damage(parts[name], rng) if rng.random() < 0.3 else flipped(parts[name], int(rng.integers(len(parts[name]))), rng)
        )
        path.write_bytes(pack(parts | {name: forged}))
        try:
            model = load(path)
        except ModelFileError:
            refused += 1
            continue
        save(model, path)  # what is loaded passes every check of what is saved
        loaded += 1
    assert loaded > 30
    assert refused > 200

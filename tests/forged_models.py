"""Files that are no models, each a function from the members of a saved one, with words of the message that refuses it."""

import io
import json
import pickle
import zipfile

import numpy as np
from model_files import npy, pack

# The members are those of `[posterior, summary]`.


def model(members):
    return json.loads(members["header.json"])["model"]["items"][0]


def edited(edit, at=()):
    """Changes the tree of the posterior, at the field that the names lead to."""

    def change(members):
        header = json.loads(members["header.json"])
        node = header["model"]["items"][0]
        for name in at:
            node = node["fields"][name]
        edit(node)
        return pack(members | {"header.json": json.dumps(header).encode()})

    return change


def header(**entries):
    """A model of one's own: `model=...`, and whatever else a header has."""
    whole = {"format": "harmix model", "version": 3, "details": {}, "model": None} | entries
    return lambda members: pack({"header.json": json.dumps(whole).encode()})


def text(content):
    return lambda members: pack({"header.json": content})


def array(content, dtype="float64", node=None, **others):
    """A file with one array member."""
    node = node or {"type": "array", "member": "arrays/0.npy", "dtype": dtype}
    whole = {"format": "harmix model", "version": 3, "details": {}, "model": node}
    return lambda members: pack({"header.json": json.dumps(whole).encode(), "arrays/0.npy": content, **others})


def replaced(field, change, at=()):
    """Another array in a field of the posterior."""

    def make(members):
        node = model(members)
        for name in at:
            node = node["fields"][name]
        name = node["fields"][field]["member"]
        return pack(members | {name: npy(change(np.load(io.BytesIO(members[name]))))})

    return make


def raw_npy(shape, dtype="<f8", data=b""):
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def overlapping(members):
    """Two members that are the same bytes, as the best zip bombs do it."""
    data = pack({"header.json": header()(0), "arrays/0.npy": bytes(9999)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entry = data[archive.start_dir : -22]
    last = entry[entry.rindex(b"PK\x01\x02") :]
    end = data[-22:]
    entry += last.replace(b"arrays/0", b"arrays/1")
    return data[: archive.start_dir] + entry + end[:8] + b"\3\0\3\0" + len(entry).to_bytes(4, "little") + end[16:]


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


SE = {"type": "SquaredExponential", "fields": {"variance": 1.0, "lengthscale": 1.0}}
INT = npy(np.array([3]))
NOT_MODELS = {
    "empty": (lambda m: b"", "is empty"),
    "text": (lambda m: b"hello, world", "is not a harmix model"),
    "a pickle": (lambda m: pickle.dumps({"a": 1}), "is a pickle, which harmix never reads"),
    "half a file": (lambda m: pack(m)[: len(pack(m)) // 2], "is damaged.*copy it again"),
    "one byte short": (lambda m: pack(m)[:-1], "is damaged"),
    "arrays of somebody else": (lambda m: npz(a=np.ones(3)), "no header.json.*give a file written by harmix.save"),
    "another format": (header(format="scipy"), "header does not say so"),
    "a newer format": (header(version=5, model={"type": "Quantum"}, extra=1), r"newer harmix \(format 5\); upgrade harmix"),
    "no version": (header(version="2"), "no valid format version"),
    "version 0": (header(version=0), "no valid format version"),
    "version true": (header(version=True), "no valid format version"),
    "entries of a header": (header(more=1), "entries.*more"),
    "details": (header(details=[1]), "header"),
    "not UTF-8": (text(b"\xff{}"), "not valid JSON"),
    "not JSON": (text(b"{'format': 1}"), "not valid JSON"),
    "not an object": (text(b"[]"), "does not say so"),
    "NaN in the header": (
        text(json.dumps({"format": "harmix model", "version": 3, "details": {}, "model": np.nan}).encode()),
        "NaN",
    ),
    "infinity in the header": (
        text(b'{"format": "harmix model", "version": 3, "details": {}, "model": 1e999}'),
        "1e999 is not fin",
    ),
    "a name twice": (text(b'{"format": "harmix model", "version": 3, "version": 3}'), "occurs twice"),
    "a huge integer": (text(b'{"format": "harmix model", "version": ' + b"9" * 5000 + b"}"), "not valid JSON"),
    "brackets": (text(b"[" * 100_000), "nested too deeply"),
    "lists in lists": (
        lambda m: header(model=json.loads('{"type":"list","items":[' * 150 + "]}" * 150))(m),
        "nested more than 100",
    ),
    "compressed": (lambda m: pack(m, compression=zipfile.ZIP_DEFLATED), "is compressed"),
    "a zip bomb": (
        lambda m: pack({"header.json": m["header.json"], "arrays/0.npy": bytes(10**8)}, compression=zipfile.ZIP_DEFLATED),
        "is compressed",
    ),
    "overlapping members": (overlapping, r"declares [\d,]+ bytes of content, but has"),
    "a member twice": (lambda m: pack([*m.items(), ("arrays/0.npy", INT)]), "two members of one name"),
    "an absolute name": (lambda m: pack(m | {"/etc/passwd": b""}), "member '/etc/passwd'"),
    "a name that climbs": (lambda m: pack(m | {"arrays/../../x.npy": b""}), "member 'arrays"),
    "another name": (lambda m: pack(m | {"code.py": b""}), "member 'code.py'"),
    "an array too many": (lambda m: pack(m | {"arrays/999.npy": INT}), "no part of it refers to"),
    "an array missing": (lambda m: pack({k: v for k, v in m.items() if k != "arrays/1.npy"}), "is missing"),
    "an array used twice": (
        array(INT, node={"type": "list", "items": [{"type": "array", "member": "arrays/0.npy", "dtype": "int64"}] * 2}),
        "belongs to another place",
    ),
    "not an array": (array(b"x" * 100), "invalid array arrays/0.npy"),
    "single precision": (array(npy(np.float32([1]))), "of type float32"),
    "strings": (array(npy(np.array(["a"]))), "of type <U1"),
    "records": (array(npy(np.zeros(2, "f8,i8"))), "not one of float64"),
    "the other byte order": (array(npy(np.ones(2, ">f8"))), "of type >f8"),
    "Fortran order": (array(npy(np.ones((2, 2), order="F"))), "does not fit"),
    "another type than declared": (array(INT), "declared as 'float64', but arrays/0.npy has type int64"),
    "an undeclared type": (array(npy(np.ones(1)), dtype="object"), "declared as 'object'"),
    "times of no unit": (array(INT, dtype="datetime64[fortnight]"), "declared as"),
    "times in floats": (array(npy(np.ones(1)), dtype="datetime64[s]"), "declared as"),
    "more data than there are": (array(raw_npy("(1000000000000,)", data=bytes(80))), "does not fit its"),
    "fewer data than there are": (array(raw_npy("(2,)", data=bytes(80))), "does not fit its"),
    "a negative shape": (array(raw_npy("(-1, -2)", data=bytes(16))), "does not fit its"),
    "an impossible shape": (array(raw_npy("(0, 9223372036854775807, 9223372036854775807)")), "impossible shape"),
    "a shape of Python 2": (array(raw_npy("(10L,)", data=bytes(80))), "invalid array"),
    "truth of 2": (array(raw_npy("(3,)", "|b1", b"\0\1\2"), dtype="bool"), "neither 0 nor 1"),
    "NaN": (array(npy(np.array([np.nan]))), "model must be finite"),
    "complex infinity": (array(npy(np.array([1j * np.inf])), dtype="complex128"), "model must be finite"),
    "labels that are numbers": (header(model={"type": "strings", "shape": [1], "items": [1]}), "made of strings"),
    "labels of another shape": (header(model={"type": "strings", "shape": [3], "items": ["a"]}), "model is not valid"),
    "no such type": (header(model={"type": "os.system", "fields": {}}), "no type that a model has, got 'os.system'"),
    "a class by its path": (header(model={"type": "harmix.kernels.Gibbs", "fields": {}}), "no type that"),
    "a type that is none": (header(model={"type": ["list"], "items": []}), "no type that"),
    "an object without a type": (header(model={"a": 1}), "no part of a model"),
    "a bare list": (header(model=[1]), "no part of a model"),
    "more than a list": (header(model={"type": "list", "items": [], "more": 1}), "no type that"),
    "format 1 in disorder": (header(version=1, model={"kind": "list", "items": {"kind": [1]}}), "entries|no type"),
    "numbers in place of arrays": (header(model=SE), r"model.variance must be Float\[\], got float"),
    "a field missing": (edited(lambda f: f["fields"].pop("root")), "model.0. is a Posterior with the fields"),
    "an unknown field": (edited(lambda f: f["fields"].update(more=1)), "is a Posterior with the fields.*more"),
    "a kernel in place of features": (
        edited(lambda f: f["fields"].update(features=f["fields"]["features"] | {"type": "Sum"}), ["basis"]),
        "Sum with the fields",
    ),
    "features in place of a kernel": (
        edited(lambda f: f["fields"].update(kernel=f["fields"]["features"], features=f["fields"]["kernel"]), ["basis"]),
        "basis.kernel must be Kernel, got FourierFrequencies",
    ),
    "a setting of another type": (
        edited(lambda f: f["fields"].update(real="no"), ["basis", "kernel"]),
        "real must be bool, got str",
    ),
    "a setting that is a list": (
        edited(lambda f: f["fields"].update(real={"type": "list", "items": []}), ["basis", "kernel"]),
        "real must be bool",
    ),
    "another smoothness": (header(model={"type": "Matern", "fields": {"nu": 1.5}}), "is a Matern with the fields"),
    "another link": (header(model={"type": "Bernoulli", "fields": {"link": "cauchy"}}), "link must be"),
    "one class": (header(model={"type": "Softmax", "fields": {"n_classes": 1}}), "n_classes must be"),
    "no exposure": (header(model={"type": "Poisson", "fields": {"exposure": -1}}), "exposure must be"),
    "no kernels": (header(model={"type": "Sum", "fields": {"kernels": {"type": "tuple", "items": []}}}), "kernels is empty"),
    "no factors": (
        header(model={"type": "HarmonizableMixtureProduct", "fields": {"factors": {"type": "tuple", "items": []}}}),
        "factors must be one-dimensional",
    ),
    "a negative window": (replaced("windows", lambda a: -a, ["basis", "kernel"]), "windows must be positive"),
    "an indefinite weight matrix": (
        replaced("weights", lambda a: a[:, ::-1], ["basis", "kernel"]),
        "weights must be Hermitian",
    ),
    "no weights": (replaced("weights", lambda a: a[:, :0, :0], ["basis", "kernel"]), "weights has shape"),
    "other dimensions": (replaced("centers", lambda a: np.hstack([a, a]), ["basis", "kernel"]), "D = 1, but centers has D = 2"),
    "other frequencies": (replaced("frequencies", lambda a: a[:1], ["basis", "features"]), "one row for each component"),
    "features for another factor": (replaced("frequencies", lambda a: a[:, :3], ["basis", "features"]), "have 12 rows, but"),
    "scales for another factor": (replaced("inverse_scale", lambda a: a[:1], ["basis"]), "inverse_scale must be 16"),
    "another mean": (replaced("mean_weights", lambda a: a[:-1]), "mean_weights and root must be of size 16"),
    "a matrix in place of a vector": (replaced("mean_weights", lambda a: np.diag(a)), r"mean_weights must be Inexact\[M\]"),
    "no noise": (replaced("noise_variance", lambda a: 0 * a), "noise_variance must be positive, got 0.0"),
    "a singular factor": (replaced("lower", lambda a: 0 * a, ["basis", "factor"]), "diagonal of lower must be positive"),
    "factors of two shapes": (
        replaced("inverse", lambda a: a[:, 1:, 1:], ["basis", "factor"]),
        "must have the same shape",
    ),
    "a root of another shape": (replaced("root", lambda a: a[1:, 1:]), "mean_weights and root must be of size 16"),
    "a root that is not square": (
        replaced("root", lambda a: a[1:]),
        r"root must be Inexact\[M M\] or NoneType, got float64 of shape",
    ),
}

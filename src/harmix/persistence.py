"""Saved models: documented, versioned, and nothing in a file is ever executed.

A model file is a zip archive (`harmix._archive`) of arrays and of a JSON header

    {"format": "harmix model", "version": 4, "details": {"harmix": "0.1.0", ...}, "model": NODE}

where a NODE is null, true, false, a number, a string, or one of

    {"type": "list", "items": [NODE, ...]}, {"type": "tuple", "items": [NODE, ...]}, {"type": "dict", "items": {NAME: NODE, ...}}
    {"type": "array", "member": "arrays/0.npy", "dtype": "float64"}     float64, complex128, int64, bool; and, kept as int64,
                                                                        datetime64[UNIT], timedelta64[UNIT]
    {"type": "strings", "shape": [3], "items": ["a", "b", "c"]}
    {"type": "Posterior", "fields": {NAME: NODE, ...}}                  one of `harmix._tree.TYPES`, with every field of the class
    {"type": "fitted", "name": "HarmonizableGPRegressor", "state": NODE}    a fitted estimator, or a "FitResult"

Numbers are finite, and every array belongs to one place. Older versions are brought up to date by `_MIGRATIONS`:

    version 1    said "kind" for "type", and had no details
    version 2    knew no estimators and no results of learning

Only the types in that list are ever made, from fields that pass the checks of their class; no converter runs, so that what
is loaded is what was saved, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

import harmix
from harmix import _archive
from harmix._archive import Refused, one_line
from harmix._tree import decode, encode
from harmix.precision import in_float64


class ModelFileError(ValueError):
    """A file that is not a model this harmix can read; the message names it and says what to do."""


@in_float64
def save(model: Any, path: str | PathLike[str], *, details: dict[str, Any] | None = None) -> None:
    """Writes a model to one file that is safe to share: numbers and names only, no pickle.

    An existing file is replaced, in one step. The same model and details make the same bytes.

    Args:
        model: estimators, a `FitResult`, kernels, features, likelihoods, a `Posterior`, `VariationalGaussian`, `Summary`, and
            dicts, lists and tuples of them, of arrays, strings and numbers. Integers and single precision are widened. Kernels
            made of Python functions and classes of your own cannot be saved.
        path: the file.
        details: what else to keep about the model, as JSON would have it: settings, where the data came from. The version of
            harmix is added.

    Example:
        >>> import harmix as hx, pathlib, tempfile
        >>> post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     save(post, pathlib.Path(directory, "model.harmix"), details={"station": "Oulu"})
        ...     again = load(pathlib.Path(directory, "model.harmix"))
        >>> bool(np.all(again.mean([0.5]) == post.mean([0.5])))
        True
    """
    if details is not None and not isinstance(details, dict):
        raise TypeError(f"details must be a dict, got {type(details).__name__}.")
    arrays: list[np.ndarray] = []
    header = {
        "format": _archive.FORMAT,
        "version": _archive.VERSION,
        "details": {"harmix": harmix.__version__} | _plain("details", details or {}),
        "model": encode(model, "model", arrays),
    }
    # What is written must be readable: every check of `load` is made now, while the model is still there.
    try:
        if (size := sum(a.nbytes for a in arrays)) > _archive.LARGEST or len(arrays) >= _archive.MOST_MEMBERS:
            raise Refused(f"{len(arrays):,} arrays of {size:,} bytes are more than a model file holds; save parts of it")
        if len(text := _archive.encode_header(header)) > _archive.LARGEST_HEADER:
            raise Refused("its names and numbers outside of arrays are too many; put them into NumPy arrays")
        _rebuild(_archive.decode_header(text), {_archive.member(i): a for i, a in enumerate(arrays)})
    except Refused as problem:
        raise ValueError(f"this model cannot be saved: {one_line(problem)}.") from None
    _archive.write(Path(path), header, arrays)


@overload
def load(path: str | PathLike[str], *, return_details: Literal[False] = ...) -> Any: ...


@overload
def load(path: str | PathLike[str], *, return_details: Literal[True]) -> tuple[Any, dict[str, Any]]: ...


@in_float64
def load(path: str | PathLike[str], *, return_details: bool = False) -> Any:
    """The model in a file that `save` wrote, bit for bit; files of older versions of harmix too.

    Whatever else the file is, damaged or malicious, the answer is a `ModelFileError`, and nothing in it is executed.

    Args:
        path: the file.
        return_details: also return the details that were saved, with the version of harmix under "harmix".

    Returns:
        The model; or the model and its details.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     save({"scale": 2.0, "times": np.arange(3.0)}, pathlib.Path(directory, "model.harmix"))
        ...     load(pathlib.Path(directory, "model.harmix"))
        {'scale': 2.0, 'times': array([0., 1., 2.])}
    """
    try:
        content = _archive.read(Path(path))
    except Refused as problem:
        raise ModelFileError(f"{one_line(path)} {one_line(problem)}.") from None
    try:
        model, details = _rebuild(*content)
    except Refused as problem:
        raise ModelFileError(
            f"{one_line(path)} holds no valid model: {one_line(problem)}; save the model again with harmix.save."
        ) from None
    return (model, details) if return_details else model


def _plain(place: str, value: Any) -> Any:
    """What JSON keeps as it is."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(f"{place}[{key!r}]", v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(f"{place}[{i}]", v) for i, v in enumerate(value)]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise TypeError(
        f"{place} must be what JSON holds (dicts with string keys, lists, strings, finite numbers, None), "
        f"got {value if isinstance(value, float) else type(value).__name__}."
    )


def _from_1(header: dict[str, Any]) -> dict[str, Any]:
    """Format 1 said "kind" for "type", and had no details."""

    def renamed(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        new = {"type" if key == "kind" else key: value for key, value in node.items()}
        for key in ("items", "fields"):
            if isinstance(inner := new.get(key), dict):
                new[key] = {name: renamed(value) for name, value in inner.items()}
            elif isinstance(inner, list):
                new[key] = [renamed(value) for value in inner]
        return new

    return header | {"version": 2, "details": {}, "model": renamed(header.get("model"))}


def _from_2(header: dict[str, Any]) -> dict[str, Any]:
    """All that format 2 says, format 3 says in the same way."""
    return header | {"version": 3}


def _from_3(header: dict[str, Any]) -> dict[str, Any]:
    """Format 3 knew no chirps: mixtures get rates, which are None."""
    nodes = [header.get("model")]  # a list, not calls: nobody has checked how deep the model is nested
    while nodes:
        node = nodes.pop()
        if isinstance(node, list):
            nodes.extend(node)
        elif isinstance(node, dict):
            if node.get("type") == "HarmonizableMixture" and isinstance(node.get("fields"), dict):
                node["fields"].setdefault("rates", None)
            nodes.extend(node.values())
    return header | {"version": 4}


# From the version that is the key to the next. They run before anything has been checked but the version.
_MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_1, 2: _from_2, 3: _from_3}


def _rebuild(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[Any, dict[str, Any]]:
    """The model and its details from what a file holds, or `Refused`."""
    try:
        while (version := header["version"]) < _archive.VERSION:
            header = _MIGRATIONS[version](header)
        if set(header) != {"format", "version", "details", "model"} or not isinstance(header["details"], dict):
            raise Refused(f"the header has the entries {', '.join(header)}, not format, version, details, model")
        left = dict(arrays)
        model = decode(header["model"], "model", left)
    except RecursionError:
        raise Refused("it is nested too deeply") from None
    if left:
        raise Refused(f"no part of it refers to the array {min(left)}")
    return model, header["details"]

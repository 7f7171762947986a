"""The container of model files: arrays and a JSON header in one file, read as if whoever wrote it meant harm.

It is NumPy's own `.npz`, a zip archive without compression, so that `numpy.load` opens it too:

    header.json       {"format": "harmix model", "version": 3, ...}, UTF-8
    arrays/0.npy      float64, complex128, int64 or bool, C order, little-endian; arrays/1.npy, ...

What the header says of the arrays is the business of `harmix.persistence`. The same content always makes the same bytes.
Nothing in a file is ever executed, and a file cannot make its reader use much more memory than its own size: without
compression no member is larger than what is there of it.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import secrets
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = "harmix model"
VERSION = 4

HEADER = "header.json"
_ARRAY = re.compile(r"arrays/(0|[1-9][0-9]{0,5})\.npy")
DTYPES = {"float64": "<f8", "complex128": "<c16", "int64": "<i8", "bool": "|b1"}

# Bytes of a file, bytes of its header, and members; far above any model, far below what hurts.
LARGEST, LARGEST_HEADER, MOST_MEMBERS = 8 << 30, 16 << 20, 100_000

_FOREIGN = "give a file written by harmix.save"
_DAMAGED = "copy it again from where it came, or save the model again"


class Refused(ValueError):
    """What is wrong with a file, before its name is known."""


def member(number: int) -> str:
    """The name of an array in the archive."""
    return f"arrays/{number}.npy"


def one_line(text: object) -> str:
    """Without line breaks, and cut in the middle where it is long."""
    line = " ".join(str(text).split()).rstrip(".")
    return line if len(line) <= 400 else line[:300] + " ... " + line[-95:]


# --- writing ----------------------------------------------------------------------------------------------------------


def write(path: Path, header: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Writes beside `path` and then takes its place, so that a reader sees the old file or the new one, never half of one."""
    target = Path(os.path.realpath(path))  # behind a symbolic link, not in its place
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the directory {target.parent} does not exist; make it first.")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_info(HEADER), encode_header(header))
                for number, array in enumerate(arrays):
                    buffer = io.BytesIO()
                    little = np.asarray(array, dtype=DTYPES[array.dtype.name], order="C")
                    np.lib.format.write_array(buffer, little, version=(1, 0), allow_pickle=False)
                    archive.writestr(_info(member(number)), buffer.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def encode_header(header: dict[str, Any]) -> bytes:
    """As JSON that people can read too."""
    return json.dumps(header, indent=1, allow_nan=False).encode()


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, 0o644 << 16  # the same on every system
    return info


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header, of this format version or an older one, and the arrays by name, not writable; or `Refused`."""
    if path.is_dir():
        raise Refused(f"is a directory; {_FOREIGN}")
    with _regular(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        _check_kind(file.read(4), size)
        try:
            with zipfile.ZipFile(file) as archive:
                members = _checked_members(archive, size)
                header = decode_header(archive.read(members.pop(HEADER)))
                _check_names(members)
                arrays = {name: _array(name, archive.read(info)) for name, info in members.items()}
        except Refused:
            raise
        except Exception as error:  # bytes at random bring zipfile to raise a dozen kinds of error, and some of struct, codecs
            raise Refused(f"is damaged ({type(error).__name__}: {error}); {_DAMAGED}") from None
    return header, arrays


def _regular(path: Path) -> Path:
    # To open a named pipe is to wait for its writer.
    if path.exists() and not path.is_file():
        raise Refused(f"is not a regular file; {_FOREIGN}")
    return path


def _check_kind(start: bytes, size: int) -> None:
    if size == 0:
        raise Refused(f"is empty; {_FOREIGN}")
    if size > LARGEST:
        raise Refused(f"has {size:,} bytes, more than the {LARGEST:,} of the largest model; {_FOREIGN}")
    if start[:1] == b"\x80":
        raise Refused(f"is a pickle, which harmix never reads, because it can run anything; {_FOREIGN}")
    if start != b"PK\x03\x04":
        raise Refused(f"is not a harmix model (it does not begin like a zip archive); {_FOREIGN}")


def _checked_members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """By name, with `header.json` among them; nothing has been unpacked yet."""
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if HEADER not in members:
        raise Refused(f"is not a harmix model (it has no {HEADER}); {_FOREIGN}")
    if len(infos) > MOST_MEMBERS:
        raise Refused(f"has {len(infos):,} members, more than {MOST_MEMBERS:,}; {_FOREIGN}")
    if len(members) < len(infos):
        raise Refused(f"has two members of one name; {_FOREIGN}")
    if any(i.compress_type != zipfile.ZIP_STORED or i.file_size != i.compress_size or i.flag_bits & 1 for i in infos):
        raise Refused(f"is compressed or encrypted, which model files never are; {_FOREIGN}")
    # Members that overlap would count the same bytes many times.
    declared = sum(info.file_size for info in infos)
    if declared > size:
        raise Refused(f"declares {declared:,} bytes of content, but has {size:,}; {_FOREIGN}")
    if members[HEADER].file_size > LARGEST_HEADER:
        raise Refused(f"has a header of {members[HEADER].file_size:,} bytes, more than {LARGEST_HEADER:,}; {_FOREIGN}")
    return members


def _check_names(members: dict[str, zipfile.ZipInfo]) -> None:
    """Nothing is unpacked to disk, and still no other name is welcome: neither `/etc/x` nor `../x`."""
    for name in members:
        if not _ARRAY.fullmatch(name):
            raise Refused(f"has a member {name[:60]!r} that no model has; {_FOREIGN}")


def decode_header(text: bytes) -> dict[str, Any]:
    """The header of a version that is known, or `Refused`."""
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_float=_finite, parse_constant=_not_a_number)
    except RecursionError:
        raise Refused(f"has a header nested too deeply; {_FOREIGN}") from None
    except ValueError as error:
        raise Refused(f"has a header that is not valid JSON ({error}); {_DAMAGED}") from None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise Refused(f"is not a harmix model (its header does not say so); {_FOREIGN}")
    version = header.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise Refused(f"has no valid format version; {_DAMAGED}")
    if version > VERSION:
        raise Refused(f"was written by a newer harmix (format {version}); upgrade harmix")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return result


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:30]} is not finite")
    return number


def _not_a_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def _array(name: str, data: bytes) -> np.ndarray:
    """A `.npy` file. Its shape and type are compared with the bytes that are there before any array is made."""
    buffer = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy warns of headers that Python 2 wrote, and repairs them
            if np.lib.format.read_magic(buffer) != (1, 0):
                raise ValueError("another version of .npy")
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(buffer)
    except Exception as error:
        raise Refused(f"has an invalid array {name} ({error}); {_DAMAGED}") from None
    if dtype.hasobject:
        raise Refused(f"has Python objects (a pickle) in {name}, which harmix never reads; {_FOREIGN}")
    if dtype.str not in DTYPES.values():
        raise Refused(f"has an array {name} of type {str(dtype)[:60]}, not one of {', '.join(DTYPES)}; {_FOREIGN}")
    start, count = buffer.tell(), math.prod(shape)
    if fortran_order or any(n < 0 for n in shape) or len(data) - start != count * dtype.itemsize:
        raise Refused(f"has an array {name} whose shape {str(shape)[:60]} does not fit its {len(data)} bytes; {_DAMAGED}")
    if dtype.kind == "b" and any(data[start:].translate(None, b"\0\1")):
        raise Refused(f"has an array {name} with truth values that are neither 0 nor 1; {_DAMAGED}")
    try:
        return np.frombuffer(data, dtype, count, start).reshape(shape)
    except (ValueError, OverflowError) as error:  # no bytes, but sizes that NumPy cannot hold
        raise Refused(f"has an array {name} of an impossible shape ({error}); {_DAMAGED}") from None

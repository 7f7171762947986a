"""Where a table lies and how it is written: found out once, before any of it is taken for data."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import re
import shutil
import stat
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# What stands for a missing value in text; pandas' own list has these and a few more.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "None", "none", "#N/A", "-", "--", "?", ".")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?$|[+-]?(inf|infinity|nan)$", re.IGNORECASE)
_DATE = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]\d{2}(:\d{2}(:\d{2}(\.\d+)?)?)?\s*(Z|[+-]\d{2}:?\d{2})?)?)?$")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?$")
# Tables of more bytes are read in chunks.
LARGEST_IN_MEMORY = 256 << 20
# A header and a first row are looked for in so many characters.
_LONGEST_HEAD = 1 << 26
# Columns of a table that is read whole.
_WIDE = 1000
_FOREIGN = {b"PK\x03\x04": "a zip archive or a spreadsheet", b"\x89HDF": "an HDF5 file", b"\xd0\xcf\x11\xe0": "an Excel file"}


class TableError(ValueError):
    """A table that cannot be used; the message names the file, the column and what to do."""


class Source(NamedTuple):
    """A table that has been looked at.

    Attributes:
        path: the file; what came through a pipe has been put into one.
        label: how messages call it.
        parquet: whether it is Parquet, else text.
        columns: their names.
        size: bytes of the values, roughly.
        separator, decimal, skip: of text: between columns, in numbers, and how many lines come before the first row.
        compressed: whether it is text that gzip has compressed.
    """

    path: Path
    label: str
    parquet: bool
    columns: tuple[str, ...]
    size: int
    separator: str = ","
    decimal: str = "."
    skip: int = 0
    compressed: bool = False

    def frames(self, wanted: Sequence[str], rows: int | None) -> Iterator[Any]:
        """Data frames of the wanted columns, with at most so many rows each; all of them in one when `rows` is None."""
        return _parquet_frames(self, wanted, rows) if self.parquet else _text_frames(self, wanted, rows)


def open_source(place: str | Path) -> Source:
    r"""Finds out what kind of table a file (or the standard input, "-") is, and its columns.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     path = pathlib.Path(directory, "a.csv")
        ...     _ = path.write_text("time; height\n0; 1,5\n1; 2,5\n")
        ...     found = open_source(path)
        >>> found.columns, found.separator, found.decimal
        (('time', 'height'), ';', ',')
    """
    if str(place) == "-":
        path, label = _from_pipe(), "standard input"
    else:
        path = Path(place)
        label = str(place)
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            if any(path.glob("*.parquet")):
                return _parquet_source(path, label)
            raise TableError(f"{label} is a directory; give the name of a CSV, TSV or Parquet file in it.")
        with path.open("rb") as file:
            start = file.read(4096)
    except FileNotFoundError:
        raise TableError(f"there is no file {label}; check the name (the working directory is {Path.cwd()}).") from None
    except PermissionError:
        raise TableError(f"{label} may not be read by you; ask its owner, or run chmod u+r on it.") from None
    except OSError as error:  # a name that is too long, a loop of links, ...
        raise TableError(f"{label} cannot be opened ({error.strerror}); check the name.") from None
    compressed = start.startswith(b"\x1f\x8b")
    if compressed:
        with _readable(label), gzip.open(path) as inner:
            start = inner.read(4096)
    if not start:
        raise TableError(f"{label} is empty; give a table with a header and a row for each observation.")
    if start.startswith(b"PAR1") and not compressed:
        return _parquet_source(path, label)
    for magic, what in _FOREIGN.items():
        if start.startswith(magic):
            raise TableError(f"{label} is {what}, not a table of text; export it as CSV or Parquet.")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TableError(f"{label} is UTF-16 text; convert it first: iconv -f UTF-16 -t UTF-8.")
    if b"\0" in start:
        raise TableError(f"{label} is a binary file, not a table of text; export it as CSV or Parquet.")
    if label.lower().endswith((".parquet", ".pq")):
        raise TableError(
            f"{label} is not a Parquet file, whatever its name says; copy it again, or rename it to .csv if it is text."
        )
    return _text_source(path, label, compressed)


def _from_pipe() -> Path:
    if sys.stdin.isatty():
        raise TableError("standard input is the keyboard; pipe a table into harmix, or give the name of a file for '-'.")
    import atexit

    with tempfile.NamedTemporaryFile(prefix="harmix-", suffix=".csv", delete=False) as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    atexit.register(Path(file.name).unlink, missing_ok=True)
    return Path(file.name)


# --- text --------------------------------------------------------------------------------------------------------------


def is_number(text: str) -> bool:
    """Whether a cell reads as a number."""
    return _NUMBER.match(text.strip()) is not None


def is_date(text: str) -> bool:
    """Whether a cell reads as an ISO date or time; a bare year is a number."""
    return _DATE.match(text.strip()) is not None


def _open_text(path: Path, compressed: bool) -> io.TextIOWrapper:
    opener: Any = gzip.open if compressed else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


@contextlib.contextmanager
def _readable(label: str) -> Iterator[None]:
    """Turns what goes wrong while text is read into one line."""
    import pandas

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pandas.errors.ParserWarning)
            yield
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise TableError(
            f"{label} is not UTF-8 text (byte 0x{byte:02x}); convert it first, for example: iconv -f LATIN1 -t UTF-8."
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{label} is damaged ({error}); copy it again.") from None
    except (pandas.errors.ParserError, pandas.errors.ParserWarning, csv.Error) as error:
        reason = str(error).replace("Error tokenizing data. C error:", "").strip().rstrip(".")
        raise TableError(f"{label} is not a table: {reason}; every row needs the same columns.") from None


def _text_source(path: Path, label: str, compressed: bool) -> Source:
    comment, skip = "", 0
    head: list[str] = []
    with _readable(label), _open_text(path, compressed) as file:
        for number, line in enumerate(iter(lambda: file.readline(_LONGEST_HEAD), "")):
            if len(line) == _LONGEST_HEAD:
                raise TableError(
                    f"{label} has a line of more than {_LONGEST_HEAD:,} characters; is it a table? Give a CSV file."
                )
            bare = line.strip()
            if bare.startswith("#"):
                comment = bare.lstrip("# ") if not head else comment
            elif bare:
                head.append(line.rstrip("\r\n"))
                skip = number if len(head) == 1 else skip
                if len(head) == 2:
                    break
    if not head:
        raise TableError(f"{label} holds no rows; give a table with a header and a row for each observation.")
    separator = _separator(head, path)
    with _readable(label):
        cells = [_split(line, separator) for line in head]
    usual = lambda cell: is_number(cell) or is_date(cell) or cell in MISSING or _DECIMAL_COMMA.match(cell)
    if all(map(usual, cells[0])):
        names = _split(comment, separator)
        if len(names) != len(cells[0]):
            names = comment.split()
        if len(names) != len(cells[0]):
            names = [f"column{i + 1}" for i in range(len(cells[0]))]
    else:
        names, skip = cells[0], skip + 1
        if len(head) == 1:
            raise TableError(f"{label} has a header ({some(names)}) but no rows; give a row for each observation.")
        if len(cells[1]) > len(names) == 1 or (len(cells[1]) == len(names) + 1 and cells[1][-1]):
            raise TableError(
                f"{label} has {len(names)} names in its header but {len(cells[1])} values in its first row; mend the header."
            )
    comma = separator != "," and any(_DECIMAL_COMMA.match(cell) for cell in cells[-1])
    size = path.stat().st_size * (5 if compressed else 1)
    return Source(path, label, False, tuple(names), size, separator, "," if comma else ".", skip, compressed)


def _split(line: str, separator: str) -> list[str]:
    if separator == r"\s+":
        return line.split()
    csv.field_size_limit(_LONGEST_HEAD)
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


def _separator(head: list[str], path: Path) -> str:
    """The separator that gives the first two lines the same number of columns, and most of them."""
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    counts = {s: [len(_split(line, s)) for line in head] for s in ("\t", ";", ",", r"\s+")}
    even = {s: c[0] for s, c in counts.items() if min(c) == max(c) > 1}
    # White space only where nothing else separates: names and dates have blanks in them.
    written = {s: n for s, n in even.items() if s != r"\s+"} or even
    if not written:
        written = {s: c[0] for s, c in counts.items() if s != r"\s+"}
    return max(written, key=lambda s: written[s]) if max(written.values(), default=1) > 1 else ","


def _text_frames(source: Source, wanted: Sequence[str], rows: int | None) -> Iterator[Any]:
    import pandas

    index = [source.columns.index(name) for name in wanted]
    count = len(source.columns)
    # With `usecols` pandas cuts off in silence what a row has too much; only tables too wide for anything else are read so.
    wide = count > _WIDE
    options: dict[str, Any] = {
        "sep": source.separator,
        "header": None,
        "names": range(count),
        "usecols": sorted(index) if wide else None,
        "dtype": None if wide else {i: str for i in range(count) if i not in index},  # no time is lost on the others
        "index_col": False,
        "skiprows": source.skip,
        "comment": "#",
        "decimal": source.decimal,
        "na_values": list(MISSING),
        "skipinitialspace": True,
        # Since pandas 3 that is how numbers are read anyway, and to ask for it is deprecated.
        "float_precision": "round_trip" if int(pandas.__version__.split(".")[0]) < 3 else None,
        "encoding": "utf-8-sig",
        "low_memory": False,
        "compression": "gzip" if source.compressed else None,
    }
    named = lambda frame: frame[index].set_axis(list(wanted), axis=1)
    if rows is None:
        with _readable(source.label):
            frame = pandas.read_csv(source.path, **options)
        yield named(frame)
        return
    with pandas.read_csv(source.path, chunksize=rows, **options) as reader:
        while True:
            with _readable(source.label):
                part = next(reader, None)
            if part is None:
                return
            yield named(part)


def some(names: Sequence[str], most: int = 8) -> str:
    """Column names for a message: the first few of them, each cut to a length that can be read."""
    shown = ", ".join(repr(n if len(n) <= 40 else n[:37] + "...") for n in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


# --- Parquet -----------------------------------------------------------------------------------------------------------


def _parquet_source(path: Path, label: str) -> Source:
    import pyarrow
    import pyarrow.dataset

    try:
        data = pyarrow.dataset.dataset(path, format="parquet")
        rows = data.count_rows()
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:120].rstrip(".")
        raise TableError(f"{label} is a damaged Parquet file ({reason}); copy it again.") from None
    if rows == 0:
        raise TableError(f"{label} holds no rows; give a row for each observation.")
    return Source(path, label, True, tuple(data.schema.names), 8 * rows * min(len(data.schema.names), 4))


def _parquet_frames(source: Source, wanted: Sequence[str], rows: int | None) -> Iterator[Any]:
    import pyarrow
    import pyarrow.dataset

    columns = list(dict.fromkeys(wanted))
    try:
        data = pyarrow.dataset.dataset(source.path, format="parquet")
        if rows is None:
            yield data.to_table(columns=columns).to_pandas()[list(wanted)]
            return
        for batch in data.to_batches(columns=columns, batch_size=rows, batch_readahead=2, fragment_readahead=1):
            if batch.num_rows:
                yield batch.to_pandas()[list(wanted)]
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:120].rstrip(".")
        raise TableError(f"{source.label} is a damaged Parquet file ({reason}); copy it again.") from None

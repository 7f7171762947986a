"""What people hand to `harmix` by mistake: each is a function that makes it in a directory and returns the arguments of the
command, with words that must be in the one line that answers: the file, column or option, and what to do."""

import json
import pickle
import zipfile

import numpy as np
import pandas as pd

GOOD = "t,v\n" + "".join(f"{i},{np.sin(i):.3f}\n" for i in range(12))


def table(text, *options, name="a.csv"):
    """`harmix fit` of a file with this content."""

    def make(directory):
        path = directory / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ["fit", str(path), *options, "--out", str(directory / "m")]

    return make


def rows(*cells, header="t,v"):
    """A table with these first rows and good ones after them."""
    return "\n".join([header, *cells, *(f"{i},{np.sin(i):.3f}" for i in range(2, 14))]) + "\n"


def frame(data, *options, name="a.parquet"):
    def make(directory):
        pd.DataFrame(data).to_parquet(directory / name)
        return ["fit", str(directory / name), *options, "--out", str(directory / "m")]

    return make


def command(*arguments):
    """Arguments as they are; {d} is the directory, {good} a good table in it."""

    def make(directory):
        (directory / "good.csv").write_text(GOOD)
        (directory / "sub").mkdir()
        return [a.format(d=directory, good=directory / "good.csv") for a in arguments]

    return make


def model_file(content, *rest):
    """`harmix predict` with a file in place of a model."""

    def make(directory):
        path = directory / "model.harmix"
        path.write_bytes(content(directory) if callable(content) else content)
        (directory / "good.csv").write_text(GOOD)
        return [*(rest or ("predict",)), str(path), str(directory / "good.csv")]

    return make


class Bomb:
    """Runs, when it is unpickled, what no reader of models may run."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('it ran')",))


def archive_with_pickle(directory):
    path = directory / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        header = {"format": "harmix model", "version": 2, "details": {}, "model": None}
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("arrays/0.npy", pickle.dumps(Bomb()))
    return path.read_bytes()


def saved(directory):
    import harmix as hx
    from harmix.persistence import save

    post = hx.condition(hx.kernels.SquaredExponential(1.0, 1.0), None, 0.1, ([0.0, 1.0], [1.0, 2.0]))
    save(post, directory / "posterior.harmix")
    return (directory / "posterior.harmix").read_bytes()


def unreadable(directory):
    arguments = table(GOOD)(directory)
    (directory / "a.csv").chmod(0)
    return arguments


def unwritable(directory):
    arguments = table(GOOD)(directory)
    directory.chmod(0o555)
    return arguments


# Only who is not root is kept out by permissions.
NEED_A_USER = {"a file without permission", "a directory without permission"}
DAYS = [f"2024-01-{i + 1:02d}" for i in range(12)]
WAVE = np.sin(np.arange(12.0))
BAD = {
    # --- files
    "an empty file": (table(""), "a.csv is empty; give a table"),
    "blank lines": (table("\n\n  \n"), "a.csv holds no rows"),
    "comments only": (table("# t v\n# nothing\n"), "a.csv holds no rows"),
    "a header only": (table("t,v\n"), "has a header ('t', 'v') but no rows"),
    "no file": (command("fit", "{d}/none.csv"), "there is no file", "none.csv; check the name"),
    "a directory": (command("fit", "{d}/sub"), "sub is a directory; give the name"),
    "a file without permission": (unreadable, "a.csv may not be read by you; ask its owner"),
    "a binary file": (table(bytes(range(256))), "a.csv is a binary file"),
    "a spreadsheet": (table(b"PK\x03\x04 and so on", name="a.xlsx"), "a spreadsheet, not a table of text; export it as CSV"),
    "Latin-1": (table("t,größe\n1,2\n".encode("latin-1")), "a.csv is not UTF-8 text", "iconv -f LATIN1"),
    "UTF-16": (table(GOOD.encode("utf-16")), "a.csv is UTF-16 text; convert it first: iconv"),
    "Parquet by name only": (table(GOOD, name="a.parquet"), "a.parquet is not a Parquet file", "rename it to .csv"),
    "a damaged Parquet file": (table(b"PAR1" + bytes(40) + b"PAR1", name="a.parquet"), "a.parquet is a damaged Parquet file"),
    "a damaged gzip file": (table(b"\x1f\x8b\x08\x00" + bytes(20), name="a.csv.gz"), "a.csv.gz is damaged", "copy it again"),
    "an open quote": (table(rows('0,"0.1', "1,0.2")), "a.csv is not a table", "every row needs the same columns"),
    "a long row": (table(rows("0,1", "1,2,3")), "a.csv is not a table: Expected 2 fields in line 3, saw 3"),
    "a short header": (table("t,v\n0,1,2\n1,2,3\n"), "2 names in its header but 3 values", "mend the header"),
    # --- columns
    "a wrong column": (table(GOOD, "--x", "time"), "has no column 'time' (--x); its columns are 't', 'v'"),
    "a wrong target": (table(GOOD, "--y", "speed"), "has no column 'speed' (--y); its columns are 't', 'v'"),
    "one column": (table("t\n" + "1\n2\n" * 9), "has one column, 't'; two are needed"),
    "three columns": (table("t,a,b\n" + "1,2,3\n" * 9), "has 3 columns ('t', 'a', 'b'); say which to learn with --y"),
    "a million columns": (
        table(",".join(f"c{i}" for i in range(10**6)) + ("\n" + "1," * (10**6 - 1) + "1") * 3),
        "has 1,000,000 columns ('c0', ",
        "say which to learn with --y and --x",
    ),
    "a column twice": (table(GOOD, "--x", "t", "--y", "t"), "a column is asked for twice"),
    "two columns of a name": (table(rows(header="t,t")), "has 2 columns called 't'; give them different names"),
    # --- values
    "one row": (table("t,v\n1,2\n"), "a.csv has 1 row to learn from, and 8 at least are needed"),
    "few rows": (table("t,v\n1,2\n2,3\n3,2\n"), "has 3 rows to learn from"),
    "few rows without gaps": (table("t,v\n" + "1,\n" * 20 + "1,2\n"), "has 1 row without missing values, of 21, to learn from"),
    "a constant target": (table("t,v\n" + "".join(f"{i},7\n" for i in range(12))), "column 'v' is 7 in every row", "--y"),
    "a constant input": (table("t,v\n" + "".join(f"7,{i}\n" for i in range(12))), "column 't' is the same in every row", "--x"),
    "an input without digits left": (
        table("t,v\n" + "".join(f"{1e15 + i / 8!r},{np.sin(i)}\n" for i in range(12))),
        "column 't' varies by less than can be told apart",
        "subtract an offset",
    ),
    "all missing": (table("t,v\n" + "".join(f"{i},NaN\n" for i in range(12))), "column 'v' has no values at all (12 rows"),
    "nothing in common": (table("t,v\n" + "1,\n,2\n" * 9), "no row has a value in every column"),
    "text": (table("t,v\n" + "".join(f"{i},calm\n" for i in range(12))), "column 'v' is text, 'calm' in row 1"),
    "text in numbers": (table(rows("0,1", "1,n.d.")), "column 'v' has 'n.d.' in row 2, which is no number; correct it"),
    "a decimal comma": (table(rows('0,"1,5"', "1,2")), "column 'v' has '1,5' in row 1, which is no number"),
    "infinity": (table(rows("0,1", "1,inf")), "column 'v' is infinite in row 2; correct it"),
    "an infinite input": (table(rows("-inf,1")), "column 't' is infinite in row 1"),
    "1e308": (table(rows("0,1e308")), "column 'v' has 1e+308 in row 1, too large to compute with", "another unit"),
    "1e999": (table(rows("0,1e999")), "column 'v' is infinite in row 1"),
    "true and false": (table("t,v\n" + "1,True\n2,False\n" * 9), "column 'v' holds true and false", "HarmonizableGPClassifier"),
    "complex": (table(rows("0,1+2j")), "column 'v' holds complex numbers, '1+2j' in row 1", "imaginary parts as columns"),
    "dates and numbers": (
        table("t,v\n" + "".join(f"{d},{i}\n" for i, d in enumerate([*DAYS, "17"]))),
        "column 't' mixes dates and numbers: '2024-01-01' in row 1, but '17' in row 13",
    ),
    "no date of the calendar": (
        table("t,v\n2024-02-30,1\n2024-03-01,2\n"),
        "'2024-02-30' in row 1, which is no date of the calendar",
    ),
    "dates of other lands": (table("t,v\n" + "31.1.2024,1\n1.2.2024,2\n" * 9), "column 't' is text, '31.1.2024'", "2024-01-31"),
    "a target of dates": (
        table("t,v\n" + "".join(f"{i},{d}\n" for i, d in enumerate(DAYS))),
        "column 'v' holds dates, which cannot be",
    ),
    "lists in Parquet": (frame({"t": np.arange(12.0), "v": [[1.0, 2.0]] * 12}), "column 'v' holds", "give another column"),
    "bytes in Parquet": (frame({"t": np.arange(12.0), "v": [b"1"] * 12}), "column 'v' holds bytes values"),
    "an empty Parquet file": (frame({"t": np.zeros(0), "v": np.zeros(0)}), "a.parquet holds no rows"),
    # --- options
    "no components": (
        command("fit", "{good}", "--n-components", "0"),
        "--n-components",
        "give a whole number from 1 to 10000, or auto",
    ),
    "half a component": (command("fit", "{good}", "--n-components", "2.5"), "--n-components", "got '2.5'"),
    "a negative frequency": (
        command("fit", "{good}", "--max-frequency", "-1"),
        "--max-frequency",
        "give a positive number, or auto",
    ),
    "no number": (command("fit", "{good}", "--max-frequency", "fast"), "--max-frequency", "got 'fast'"),
    "another inference": (
        command("fit", "{good}", "--inference", "mcmc"),
        "--inference",
        "choose from auto, map, ensemble, nuts",
    ),
    "all held out": (command("fit", "{good}", "--holdout", "1"), "--holdout", "give a fraction from 0 to 0.5"),
    "NaN held out": (command("fit", "{good}", "--holdout", "nan"), "--holdout", "give a fraction from 0 to 0.5"),
    "no restarts": (command("fit", "{good}", "--restarts", "0"), "--restarts"),
    "a seed below 0": (command("fit", "{good}", "--seed", "-1"), "--seed"),
    "a unit of time": (command("fit", "{good}", "--time-unit", "fortnight"), "--time-unit", "choose from year, day"),
    "no data": (command("fit"), "Missing argument 'DATA'"),
    "a file for a directory": (
        command("fit", "{good}", "--out", "{good}"),
        "cannot make the directory",
        "choose another one with --out",
    ),
    "a directory without permission": (unwritable, "cannot make the directory", "choose another one with --out"),
    # --- models
    "no model": (command("predict", "{d}/m", "{good}"), "m is no model: it does not exist; give the directory or file"),
    "a directory without a model": (command("predict", "{d}/sub", "{good}"), "sub is no model: there is no model.harmix in it"),
    "a table for a model": (command("predict", "{good}", "{good}"), "good.csv is not a harmix model"),
    "an empty model file": (model_file(b""), "model.harmix is empty"),
    "a pickle": (model_file(pickle.dumps(Bomb())), "model.harmix is a pickle, which harmix never reads"),
    "a pickle inside": (model_file(archive_with_pickle), "model.harmix"),
    "half a model": (model_file(lambda d: saved(d)[:-900]), "model.harmix is damaged", "copy it again"),
    "a model of another kind": (model_file(saved), "model.harmix holds a Posterior, not a regressor"),
    "a report of half a model": (model_file(lambda d: saved(d)[:900], "report"), "model.harmix is damaged"),
    "a level of 90": (model_file(saved, "predict", "--level", "90"), "--level", "give a probability between 0 and 1"),
}

"""How every experiment writes what it found: one look for the pictures, one form for the figures."""

from __future__ import annotations

import json
import os
import platform
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.style import context

INK = "#222222"
GREY = "#8a8a8a"
# Okabe and Ito's palette: told apart with any colour vision, and in grey.
ORANGE, SKY, GREEN, BLUE, VERMILION = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00"

_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.labelcolor": INK,
    "axes.edgecolor": GREY,
    "axes.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.facecolor": "white",
}


def style() -> AbstractContextManager[None]:
    """The look of the pictures, whatever the user's own Matplotlib settings are; they stay as they are."""
    return context(_STYLE, after_reset=True)


def prepare(out: Path) -> Path:
    """The directory for the results, made if need be; refused before any work is done."""
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot make the directory {out} ({error.strerror}); choose another one with --out.") from None
    if not os.access(out, os.W_OK):
        raise OSError(f"cannot write to the directory {out}; choose another one with --out.")
    return out


def shown(ax: Axes) -> np.ndarray:
    """The values of the heat map in `ax`, `(upwards, to the right)`."""
    return np.asarray(ax.collections[0].get_array())


def scale_of(ax: Axes) -> float:
    """The value that has the strongest colour in the heat map in `ax`."""
    return float(ax.collections[0].get_clim()[1])


def save_picture(figure: Figure, path: Path, *, dpi: int = 150) -> None:
    """Writes a PNG; the same bytes for the same picture."""
    figure.savefig(path, dpi=dpi, metadata={"Software": None})


def save_json(path: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Writes figures as JSON, with the versions that computed them, and returns what the file holds."""
    result = {
        **result,
        "versions": {name: version(name) for name in ("jax", "numpy", "scipy")} | {"python": platform.python_version()},
    }
    text = json.dumps(result, indent=2, default=_plain, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return json.loads(text)


def _plain(value: Any) -> Any:
    """NumPy and JAX arrays as lists; a complex number as {"re", "im"}."""
    if isinstance(value, complex):
        return {"re": value.real, "im": value.imag}
    return np.asarray(value).tolist()

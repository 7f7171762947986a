"""Model files of the command line: where they are, what is kept beside the numbers, and how to show them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harmix.estimators import HarmonizableGPRegressor
from harmix.persistence import load
from harmix.report import Fitted, Names
from harmix.tables import TimeAxis

MODEL, REPORT, SUMMARY = "model.harmix", "report.html", "summary.json"


class Model(NamedTuple):
    """A model from a file.

    Attributes:
        estimator: fitted.
        details: what `harmix fit` has kept: names, axes, where the data came from.
        path: of the file.
    """

    estimator: HarmonizableGPRegressor
    details: dict[str, Any]
    path: Path

    @property
    def axes(self) -> tuple[TimeAxis | None, ...]:
        """How dates of each input are told to people."""
        kept = self.details.get("axes") or [None] * self.estimator.n_features_in_
        return tuple(None if axis is None else TimeAxis(*axis) for axis in kept)


def open_model(place: Path) -> Model:
    """The model in a file, or in the directory that `harmix fit` has written it to."""
    path = place / MODEL if place.is_dir() else place
    if not path.exists():
        hint = f"there is no {MODEL} in it" if place.is_dir() else "it does not exist"
        raise FileNotFoundError(f"{place} is no model: {hint}; give the directory or file that harmix fit has written.")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} may not be read by you; ask its owner, or run chmod u+r on it.")
    found, details = load(path, return_details=True)
    if not isinstance(found, HarmonizableGPRegressor):
        raise ValueError(
            f"{path} holds a {type(found).__name__}, not a regressor; give a model that harmix fit has written, "
            "or open this one in Python with harmix.load."
        )
    return Model(found, details, path)


def input_names(model: Model) -> tuple[str, ...]:
    """What the inputs were called when the model was fitted."""
    found = getattr(model.estimator, "feature_names_in_", None)
    return tuple(map(str, found)) if found is not None else tuple(f"x{i}" for i in range(model.estimator.n_features_in_))


def fitted(estimator: HarmonizableGPRegressor, axes: tuple[TimeAxis | None, ...]) -> Fitted:
    """A fitted estimator with its inputs in the units that people read."""
    result = estimator.result_
    used = np.flatnonzero(estimator.varying_)
    clocks = estimator._clocks or (None,) * estimator.n_features_in_
    shift, scale, domain = (np.array(a, float) for a in (estimator.x_shift_, estimator.x_scale_, estimator.domain_))
    for d, i in enumerate(used):
        axis, clock = axes[i], clocks[i]
        if axis is None or clock is None:
            continue
        # Numbers of the estimator's clock, as numbers of the axis: an affine change of units.
        zero, one = axis.numbers(clock.times(np.array([0.0, 1.0])))
        shift[d] = zero + (one - zero) * shift[d]
        domain[:, d] = zero + (one - zero) * domain[:, d]
        scale[d] *= one - zero
    restarts = tuple({name: getattr(r, name) for name in _OF_RESTART} for r in result.restarts)
    return Fitted(
        result.posterior,
        result.kernel,
        result.features,
        float(result.noise_variance),
        shift,
        scale,
        float(estimator.y_shift_),
        float(estimator.y_scale_),
        domain,
        restarts,
        int(result.chosen),
        str(result.inference),
    )


_OF_RESTART = ("name", "objective", "bound", "jitter", "iterations", "converged", "message", "seconds")


def names(estimator: HarmonizableGPRegressor, details: dict[str, Any], axes: tuple[TimeAxis | None, ...], title: str) -> Names:
    """What the report calls things."""
    used = [int(i) for i in np.flatnonzero(estimator.varying_)]
    every = [str(n) for n in getattr(estimator, "feature_names_in_", [f"x{i}" for i in range(estimator.n_features_in_)])]
    axis = axes[used[0]]
    inputs = tuple(every[i] for i in used)
    return Names(title, inputs, str(details.get("y", "y")), axis.unit if axis else "", axis.origin if axis else None)


def fingerprint(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()

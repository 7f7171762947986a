"""Estimators and results of learning as plain state and back: what a model file holds of them (`harmix.persistence`)."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

from harmix.estimators._base import HarmonizableGP
from harmix.estimators._classifier import HarmonizableGPClassifier, moments
from harmix.estimators._inputs import Clock
from harmix.estimators._regressor import HarmonizableGPRegressor
from harmix.features.base import Features
from harmix.inference.mixture import MixturePosterior
from harmix.inference.posterior import Posterior
from harmix.inference.stochastic import VariationalGaussian
from harmix.kernels import HarmonizableMixture
from harmix.learning.classify import Classifier, Restart
from harmix.likelihoods import Likelihood

ESTIMATORS: dict[str, type[HarmonizableGP]] = {
    "HarmonizableGPRegressor": HarmonizableGPRegressor,
    "HarmonizableGPClassifier": HarmonizableGPClassifier,
}
# Fitted numbers of every estimator, by type and dimensions.
_FITTED = {"varying_": (bool, 1), "x_shift_": (float, 1), "x_scale_": (float, 1), "domain_": (float, 2), "reach_": (float, 0)}
_OF_Y = {"y_shift_": (float, 0), "y_scale_": (float, 0)}


def state_of(model: Any) -> dict[str, Any]:
    """What makes an estimator or a `FitResult`, as dicts, lists, arrays and harmix's own classes. No training data."""
    if isinstance(model, HarmonizableGP):
        return _of_estimator(model)
    values = {f.name: getattr(model, f.name) for f in dataclasses.fields(model)}
    return values | {"restarts": [_finite(r._asdict()) for r in model.restarts], "diagnostics": _finite(model.diagnostics)}


def revive(name: str, state: dict[str, Any]) -> Any:
    """The estimator or `FitResult` from its state; whatever does not fit together is refused with a ValueError."""
    return _fit_result(dict(state)) if name == "FitResult" else _estimator(name, dict(state))


# Stands for minus infinity in the history of a restart that never found a finite value.
_LOWEST = -1e300


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Files hold no NaN: None in place of a number that is not one."""
    changed: dict[str, Any] = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
    if "objective" in changed:
        changed["objective"] = np.nan_to_num(changed["objective"], nan=_LOWEST, neginf=_LOWEST)
    return changed


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    return {k: math.nan if v is None else v for k, v in values.items()}


def _fit_result(state: dict[str, Any]) -> Any:
    from harmix.learning.fit import FitResult
    from harmix.learning.optimize import Restart

    restarts = tuple(Restart(**_numbers(r)) for r in state.pop("restarts"))
    result = FitResult(**state | {"restarts": restarts, "diagnostics": _numbers(state["diagnostics"])})
    posterior = result.posterior
    members = posterior.members if isinstance(posterior, MixturePosterior) else (posterior,)
    _require(members and all(isinstance(m, Posterior) for m in members), "posterior")
    _require(isinstance(result.kernel, HarmonizableMixture) and isinstance(result.features, Features), "kernel")
    D = result.kernel.input_dim
    _require(all(isinstance(m.kernel, HarmonizableMixture) and m.kernel.input_dim == D for m in members), "posterior")
    _require(isinstance(result.noise_variance, float) and result.noise_variance > 0, "noise_variance")
    _require(isinstance(result.chosen, int) and 0 <= result.chosen < len(result.restarts), "chosen")
    return result


def _of_estimator(estimator: HarmonizableGP) -> dict[str, Any]:
    if not estimator.__sklearn_is_fitted__():
        raise ValueError(f"this {type(estimator).__name__} is not fitted yet: call fit before saving it.")
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], int | np.integer | None):
        parameters["random_state"] = None  # a generator, which has moved on
    own = vars(estimator)
    names = own.get("feature_names_in_")
    is_regressor = isinstance(estimator, HarmonizableGPRegressor)
    state = {
        "parameters": parameters,
        "n_features_in_": own["n_features_in_"],
        "feature_names_in_": None if names is None else np.asarray(names, dtype=str),
        "clocks": [None if clock is None else {"origin": clock.origin, "unit": clock.unit} for clock in own["_clocks"]],
        "result": own["result_"] if is_regressor else _plain(own["result_"]),
    }
    state |= {
        name: np.asarray(own[name], dtype=kind) for name, (kind, _) in (_FITTED | (_OF_Y if is_regressor else {})).items()
    }
    if not is_regressor:
        labels = own["classes_"]
        state["classes_"] = labels.astype(str) if labels.dtype == object else labels
        state["classes_are_objects"] = labels.dtype == object
    return state


def _estimator(name: str, state: dict[str, Any]) -> HarmonizableGP:
    take = lambda key: state.pop(key)  # a KeyError names what is missing
    if name not in ESTIMATORS:
        raise ValueError(f"there is no estimator {name!r}")
    estimator = ESTIMATORS[name]()
    parameters = take("parameters")
    if set(parameters) != set(estimator.get_params(deep=False)):
        raise ValueError(f"parameters are {', '.join(parameters)}")
    estimator.set_params(**parameters)
    fitted: dict[str, Any] = {"n_features_in_": take("n_features_in_")}
    for key, (kind, ndim) in (_FITTED | (_OF_Y if name == "HarmonizableGPRegressor" else {})).items():
        value = np.asarray(take(key))
        _require(value.dtype == kind and value.ndim == ndim, key)
        fitted[key] = value if ndim else float(value)
    D, d = fitted["n_features_in_"], len(fitted["x_shift_"])
    _require(isinstance(D, int) and fitted["varying_"].shape == (D,) and np.sum(fitted["varying_"]) == d > 0, "varying_")
    _require(fitted["x_scale_"].shape == (d,) and np.all(fitted["x_scale_"] > 0), "x_scale_")
    _require(fitted["domain_"].shape == (2, d) and fitted["reach_"] > 0 and fitted.get("y_scale_", 1.0) > 0, "domain_")
    if (names := take("feature_names_in_")) is not None:
        _require(isinstance(names, np.ndarray) and names.dtype.kind == "U" and names.shape == (D,), "feature_names_in_")
        fitted["feature_names_in_"] = names.astype(object)
    fitted["_clocks"] = tuple(None if clock is None else _clock(**clock) for clock in take("clocks"))
    _require(len(fitted["_clocks"]) in (0, D), "clocks")
    if name == "HarmonizableGPRegressor":
        from harmix.learning.fit import FitResult

        fitted["result_"] = take("result")
        _require(isinstance(fitted["result_"], FitResult), "result")
    else:
        labels, are_objects = take("classes_"), take("classes_are_objects")
        _require(isinstance(labels, np.ndarray) and labels.ndim == 1 and len(labels) >= 2, "classes_")
        fitted["classes_"] = labels.astype(object) if are_objects else labels
        fitted["result_"] = _classifier(take("result"), d, len(labels))
    kernel = fitted["result_"].kernel
    _require(isinstance(kernel, HarmonizableMixture) and kernel.input_dim == d and kernel.windows.ndim == 2, "kernel")
    if state:
        raise ValueError(f"it has the unknown part {min(state)!r}")
    estimator.__dict__.update(fitted)
    return estimator


def _require(holds: Any, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} does not fit the rest")


def _clock(origin: Any, unit: Any) -> Clock:
    _require(unit in ("d", "s") and (origin is None or isinstance(origin, np.datetime64)), "clocks")
    return Clock(origin, unit)


def _plain(result: Classifier) -> dict[str, Any]:
    names = ("kernel", "features", "likelihood", "q", "bound", "chosen")
    return {name: getattr(result, name) for name in names} | {"restarts": [r._asdict() for r in result.restarts]}


def _classifier(parts: dict[str, Any], D: int, C: int) -> Classifier:
    restarts = tuple(Restart(**r) for r in parts.pop("restarts"))
    result = Classifier(**parts, restarts=restarts)
    types = {"kernel": HarmonizableMixture, "features": Features, "likelihood": Likelihood, "q": VariationalGaussian}
    for name, kind in types.items():
        _require(isinstance(getattr(result, name), kind), name)
    latents = 1 if C == 2 else C
    # Traced, not computed: do kernel, features and q go together?
    X = jax.ShapeDtypeStruct((1, D), np.float64)
    mean, _ = jax.eval_shape(moments, result.kernel, result.features, result.q, X)
    _require(mean.shape == (1, latents) and result.likelihood.n_latent == latents, "q")
    return result

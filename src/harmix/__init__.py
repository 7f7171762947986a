"""harmix: Gaussian processes for non-stationary signals, with harmonizable mixture kernels.

Names load when they are first used (PEP 562): `import harmix` and `harmix --help` do not wait for JAX.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harmix import datasets as datasets
    from harmix import estimators as estimators
    from harmix import features as features
    from harmix import kernels as kernels
    from harmix import likelihoods as likelihoods
    from harmix import plots as plots
    from harmix import spectral as spectral
    from harmix.estimators import ExtrapolationWarning as ExtrapolationWarning
    from harmix.estimators import HarmonizableGPClassifier as HarmonizableGPClassifier
    from harmix.estimators import HarmonizableGPRegressor as HarmonizableGPRegressor
    from harmix.inference.collapsed import collapsed_bound as collapsed_bound
    from harmix.inference.exact import log_marginal_likelihood as log_marginal_likelihood
    from harmix.inference.mixture import MixturePosterior as MixturePosterior
    from harmix.inference.natural import natural_gradient_step as natural_gradient_step
    from harmix.inference.natural import train_alternating as train_alternating
    from harmix.inference.posterior import Posterior as Posterior
    from harmix.inference.posterior import condition as condition
    from harmix.inference.stochastic import VariationalGaussian as VariationalGaussian
    from harmix.inference.stochastic import elbo as elbo
    from harmix.inference.stochastic import posterior as posterior
    from harmix.learning.fit import FitResult as FitResult
    from harmix.learning.fit import fit as fit
    from harmix.persistence import load as load
    from harmix.persistence import save as save
    from harmix.summary import Summary as Summary
    from harmix.summary import summarize as summarize

__version__ = "0.1.0"

_MODULES = ("datasets", "estimators", "features", "kernels", "likelihoods", "plots", "spectral")
_HOMES = {
    "FitResult": "harmix.learning.fit",
    "MixturePosterior": "harmix.inference.mixture",
    "ExtrapolationWarning": "harmix.estimators",
    "HarmonizableGPClassifier": "harmix.estimators",
    "HarmonizableGPRegressor": "harmix.estimators",
    "Posterior": "harmix.inference.posterior",
    "Summary": "harmix.summary",
    "VariationalGaussian": "harmix.inference.stochastic",
    "collapsed_bound": "harmix.inference.collapsed",
    "condition": "harmix.inference.posterior",
    "elbo": "harmix.inference.stochastic",
    "fit": "harmix.learning.fit",
    "load": "harmix.persistence",
    "log_marginal_likelihood": "harmix.inference.exact",
    "natural_gradient_step": "harmix.inference.natural",
    "posterior": "harmix.inference.stochastic",
    "save": "harmix.persistence",
    "summarize": "harmix.summary",
    "train_alternating": "harmix.inference.natural",
}

# Hidden from type checkers: to them a module with __getattr__ has every attribute, and a typo would pass.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f"harmix.{name}")
        if name in _HOMES:
            value = getattr(importlib.import_module(_HOMES[name]), name)
            globals()[name] = value  # asked for only once
            return value
        raise AttributeError(f"module 'harmix' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*_MODULES, *_HOMES, "__version__"})

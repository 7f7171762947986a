"""harmix: Gaussian processes for non-stationary signals, with harmonizable mixture kernels."""

from harmix import features as features
from harmix import kernels as kernels
from harmix import likelihoods as likelihoods
from harmix import spectral as spectral
from harmix.inference.collapsed import collapsed_bound as collapsed_bound
from harmix.inference.exact import log_marginal_likelihood as log_marginal_likelihood
from harmix.inference.natural import natural_gradient_step as natural_gradient_step
from harmix.inference.natural import train_alternating as train_alternating
from harmix.inference.posterior import Posterior as Posterior
from harmix.inference.posterior import condition as condition
from harmix.inference.stochastic import VariationalGaussian as VariationalGaussian
from harmix.inference.stochastic import elbo as elbo
from harmix.inference.stochastic import posterior as posterior
from harmix.summary import Summary as Summary

__version__ = "0.1.0"

"""Likelihoods: how an observation depends on the latent, and the expectations that inference needs."""

from harmix.likelihoods.base import Likelihood as Likelihood
from harmix.likelihoods.scalar import Bernoulli as Bernoulli
from harmix.likelihoods.scalar import Gaussian as Gaussian
from harmix.likelihoods.scalar import Poisson as Poisson
from harmix.likelihoods.scalar import StudentT as StudentT
from harmix.likelihoods.softmax import Softmax as Softmax

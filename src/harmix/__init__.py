"""harmix: Gaussian processes for non-stationary signals, with harmonizable mixture kernels."""

from harmix import kernels as kernels
from harmix import spectral as spectral

__version__ = "0.1.0"

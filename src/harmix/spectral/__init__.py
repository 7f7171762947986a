"""Spectra of kernels: in closed form here, by quadrature for any kernel in `harmix.spectral.numeric`."""

from harmix.spectral import numeric as numeric
from harmix.spectral.closed_form import density as density
from harmix.spectral.closed_form import generalized_density as generalized_density
from harmix.spectral.closed_form import wigner as wigner

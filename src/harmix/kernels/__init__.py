"""Covariance functions. Each is a class of its own and knows its spectrum where it has one in closed form."""

from harmix.kernels.base import Kernel as Kernel
from harmix.kernels.base import NoClosedFormError as NoClosedFormError
from harmix.kernels.base import Pointwise as Pointwise
from harmix.kernels.base import Product as Product
from harmix.kernels.base import Scaled as Scaled
from harmix.kernels.base import Stationary as Stationary
from harmix.kernels.base import Sum as Sum
from harmix.kernels.harmonizable import HarmonizableMixture as HarmonizableMixture
from harmix.kernels.harmonizable import HarmonizableMixtureProduct as HarmonizableMixtureProduct
from harmix.kernels.harmonizable import LocallyStationaryGaussian as LocallyStationaryGaussian
from harmix.kernels.nonstationary import FrequencyWarped as FrequencyWarped
from harmix.kernels.nonstationary import GeneralizedSpectral as GeneralizedSpectral
from harmix.kernels.nonstationary import GeneralizedSpectralMixture as GeneralizedSpectralMixture
from harmix.kernels.nonstationary import Gibbs as Gibbs
from harmix.kernels.nonstationary import InvertedFractionalBrownian as InvertedFractionalBrownian
from harmix.kernels.nonstationary import LocallyStationary as LocallyStationary
from harmix.kernels.stationary import Matern as Matern
from harmix.kernels.stationary import SparseSpectrum as SparseSpectrum
from harmix.kernels.stationary import SpectralMixture as SpectralMixture
from harmix.kernels.stationary import SpectralMixtureProduct as SpectralMixtureProduct
from harmix.kernels.stationary import SquaredExponential as SquaredExponential
from harmix.kernels.stationary import StationaryGeneralizedSpectral as StationaryGeneralizedSpectral

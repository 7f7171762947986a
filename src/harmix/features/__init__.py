"""Inducing features: the variables that sparse inference conditions on."""

from harmix.features.base import Basis as Basis
from harmix.features.base import Features as Features
from harmix.features.base import kuf as kuf
from harmix.features.base import kuu as kuu
from harmix.features.base import make_basis as make_basis
from harmix.features.fourier import FourierFrequencies as FourierFrequencies
from harmix.features.points import InducingPoints as InducingPoints
from harmix.features.windowed import WindowedFourier as WindowedFourier

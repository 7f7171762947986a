"""What is refused, and the words that must be in the message: the argument's name and what arrived.

Run as a script this tries them all and prints what a person sees. That is a process of its own because in the
tests the run-time type checker would refuse some of these first, with words of its own.
"""

import json

import numpy as np

import harmix as hx

K = hx.kernels
SE = K.SquaredExponential(1.0, 0.5)
LSG = K.LocallyStationaryGaussian(0.1, 0.3)
GOOD = {
    "centers": np.zeros((2, 1)),
    "windows": np.ones((2, 1)),
    "lengthscales": np.ones((2, 1)),
    "frequencies": np.ones((2, 3, 1)),
    "weights": np.tile(np.eye(3), (2, 1, 1)),
}
SPECTRAL = {
    "centers": np.zeros((2, 2)),
    "scalings": np.ones((2, 2)),
    "frequencies": np.ones((2, 3, 2)),
    "weights": np.tile(np.eye(3), (2, 1, 1)),
    "sigma1": 0.1,
    "sigma2": 0.1,
}
NOT_HERMITIAN = np.tile([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], (2, 1, 1))
NOT_HERMITIAN_COMPLEX = np.eye(3)[None] + 1j * np.ones((1, 3, 3))
NOT_PSD = np.tile([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]], (2, 1, 1))


def mixture(**changed):
    return lambda: K.HarmonizableMixture(**(GOOD | changed))


def product(**changed):
    return lambda: K.HarmonizableMixtureProduct(**(GOOD | changed))


def from_spectral(**changed):
    return lambda: K.HarmonizableMixture.from_spectral(**(SPECTRAL | changed))


def se(variance=1.0, lengthscale=1.0):
    return lambda: K.SquaredExponential(variance, lengthscale)


def mixture_of_spectra(weights=(1.0, 2.0), frequencies=((1.0,), (2.0,)), scales=((1.0,), (1.0,))):
    return lambda: K.SpectralMixture(weights, frequencies, scales)


# What no number can be made of, for every array of every kernel; the words say what arrived.
NO_NUMBERS = {
    "None": (None, "None"),
    "a string": ("abc", "'abc'"),
    "a list of strings": (["a", "b"], "['a', 'b']"),
    "a boolean": (True, "True"),
    "booleans": ([[True, False]], "[[True, False]]"),
    "a dictionary": ({"a": 1.0}, "{'a': 1.0}"),
    "ragged lists": ([[1.0], [1.0, 2.0]], "rectangular"),
    "an empty array": (np.zeros((0, 1)), "(0, 1)"),
    "NaN": (float("nan"), "nan"),
    "an infinity": ([[1.0, -np.inf]], "-inf"),
}
ARRAYS = {
    "SquaredExponential": (lambda **given: se(**given), ["variance", "lengthscale"]),
    "SpectralMixture": (lambda **given: mixture_of_spectra(**given), ["weights", "frequencies", "scales"]),
    "HarmonizableMixture": (mixture, list(GOOD)),
    "HarmonizableMixtureProduct": (product, list(GOOD)),
    "from_spectral": (from_spectral, list(SPECTRAL)),
    "LocallyStationaryGaussian": (
        lambda **given: lambda: K.LocallyStationaryGaussian(**({"sigma1": 0.1, "sigma2": 0.3} | given)),
        ["sigma1", "sigma2"],
    ),
    "InvertedFractionalBrownian": (lambda **given: lambda: K.InvertedFractionalBrownian(**given), ["hurst"]),
    "Scaled": (lambda **given: lambda: K.Scaled(kernel=SE, **given), ["factor"]),
}

REFUSALS = {
    f"{kernel}: {argument} is {what}": (make(**{argument: value}), [argument, words])
    for kernel, (make, arguments) in ARRAYS.items()
    for argument in arguments
    for what, (value, words) in NO_NUMBERS.items()
}

REFUSALS |= {
    # one value out of its range
    "SE: variance 0": (se(0.0), ["variance", "positive", "0.0"]),
    "SE: variance -1": (se(-1.0), ["variance", "positive", "-1.0"]),
    "SE: a negative lengthscale": (se(1.0, [1.0, -2.0]), ["lengthscale", "positive", "[1.0, -2.0]"]),
    "SE: complex variance": (se(1.0 + 1.0j), ["variance", "real", "(1+1j)"]),
    "SE: variance per dimension": (se([1.0, 2.0]), ["variance", "(2,)"]),
    "SE: lengthscale matrix": (se(1.0, np.eye(2)), ["lengthscale", "(2, 2)", "(D,)"]),
    "Matern: nu 2": (lambda: K.Matern(2, 1.0, 1.0), ["nu", "2", "0.5, 1.5 or 2.5"]),
    "Matern: nu a string": (lambda: K.Matern("0.5", 1.0, 1.0), ["nu", "'0.5'"]),
    "Matern: nu None": (lambda: K.Matern(None, 1.0, 1.0), ["nu", "None"]),
    "SS: negative weight": (lambda: K.SparseSpectrum([1.0, -0.5], [[1.0], [2.0]]), ["weights", "[1.0, -0.5]"]),
    "SS: Q mismatch": (lambda: K.SparseSpectrum([1.0], [[1.0], [2.0]]), ["frequencies", "Q = 2", "weights"]),
    "SM: Q mismatch": (mixture_of_spectra(weights=[1.0] * 3), ["frequencies", "(2, 1)", "Q = 2", "Q = 3"]),
    "SM: D mismatch": (mixture_of_spectra(scales=np.ones((2, 2))), ["scales", "(2, 2)", "D = 2"]),
    "SM: complex frequencies": (mixture_of_spectra(frequencies=[[1j], [1.0]]), ["frequencies", "real", "1j"]),
    "SM: singular scales": (mixture_of_spectra(scales=np.zeros((2, 1, 1))), ["scales", "definite", "[[[0.0]]"]),
    "SM: negative scale": (mixture_of_spectra(scales=[[1.0], [-1.0]]), ["scales", "positive", "[-1.0]"]),
    "SMP: frequencies one axis": (lambda: K.SpectralMixtureProduct([1.0], [1.0], [[1.0]]), ["frequencies", "(1,)"]),
    "SMP: D mismatch": (
        lambda: K.SpectralMixtureProduct([[1.0, 2.0]], [[1.0]], [[1.0]]),
        ["frequencies", "D = 1", "weights", "D = 2"],
    ),
    "SGS: base not stationary": (
        lambda: K.StationaryGeneralizedSpectral(LSG, [1.0], [[1.0]], [[1.0]]),
        ["base", "LocallyStationaryGaussian"],
    ),
    "SGS: base a string": (lambda: K.StationaryGeneralizedSpectral("SE", [1.0], [[1.0]], [[1.0]]), ["base", "'SE'"]),
    "SGS: base of another dimension": (
        lambda: K.StationaryGeneralizedSpectral(K.SquaredExponential(1.0, [1.0, 2.0]), [1.0], [[1.0]], [[1.0]]),
        ["base", "2", "D = 1"],
    ),
    "SGS: scaling 0": (
        lambda: K.StationaryGeneralizedSpectral(SE, [1.0], [[1.0]], [[0.0]]),
        ["scalings", "positive", "[[0.0]]"],
    ),
    "GSK: frequencies not in pairs": (
        lambda: K.GeneralizedSpectral(SE, [1.0], [[[1.0]]], [[1.0]]),
        ["frequencies", "pairs", "(1, 1, 1)"],
    ),
    "GSK: base a number": (lambda: K.GeneralizedSpectral(3.0, [1.0], np.ones((1, 2, 1)), [[1.0]]), ["base", "3.0"]),
    "Gibbs: not a function": (lambda: K.Gibbs(0.5), ["lengthscale_fn", "0.5"]),
    "Gibbs: a function of the wrong size": (
        lambda: K.Gibbs(lambda x: np.ones(3))(np.zeros((2, 2))),
        ["lengthscale_fn", "1 or 2", "3"],
    ),
    "Gibbs: a numpy function": (lambda: K.Gibbs(lambda x: np.exp(np.asarray(x)))([0.0]), ["lengthscale_fn", "jax.numpy"]),
    "Gibbs: a function of plain floats": (
        lambda: K.Gibbs(lambda x: float(x[0]))([0.0]),
        ["lengthscale_fn", "jax.numpy"],
    ),
    "GSM: not lists": (
        lambda: K.GeneralizedSpectralMixture(lambda x: 1.0, [abs], [abs]),
        ["weight_fns", "list of functions"],
    ),
    "GSM: no functions": (lambda: K.GeneralizedSpectralMixture([], [], []), ["weight_fns", "[]"]),
    "GSM: numbers": (lambda: K.GeneralizedSpectralMixture([abs], [1.0], [abs]), ["frequency_fns", "[1.0]"]),
    "GSM: Q mismatch": (
        lambda: K.GeneralizedSpectralMixture([abs], [abs, abs], [abs]),
        ["weight_fns", "frequency_fns", "lengthscale_fns", "1, 2 and 1"],
    ),
    "FrequencyWarped: None": (lambda: K.FrequencyWarped(None), ["phase_fn", "None"]),
    "IFBM: hurst 0": (lambda: K.InvertedFractionalBrownian(0.0), ["hurst", "between 0 and 1", "0.0"]),
    "IFBM: hurst 1": (lambda: K.InvertedFractionalBrownian(1.0), ["hurst", "between 0 and 1", "1.0"]),
    "IFBM: a point at 0": (lambda: K.InvertedFractionalBrownian(0.5)([1.0, 0.0]), ["0", "X"]),
    "IFBM: diag at 0": (lambda: K.InvertedFractionalBrownian(0.5).diag([[0.0, 0.0]]), ["0", "X"]),
    "IFBM: at 0 inside a sum": (
        lambda: (SE + 2.0 * K.InvertedFractionalBrownian(0.5))([1.0], [0.0]),
        ["0", "X"],
    ),
    "LS: not stationary": (lambda: K.LocallyStationary(abs, LSG), ["stationary", "LocallyStationaryGaussian"]),
    "LS: envelope a number": (lambda: K.LocallyStationary(1.0, SE), ["envelope_fn", "1.0"]),
    "LSG: D mismatch": (lambda: K.LocallyStationaryGaussian([0.1, 0.1], [0.3] * 3), ["sigma1", "sigma2", "(2,)", "(3,)"]),
    "LSG: matrix of another D": (
        lambda: K.LocallyStationaryGaussian(np.eye(2), [0.3] * 3),
        ["sigma1", "sigma2", "(2, 2)", "(3,)"],
    ),
    "LSG: not square": (lambda: K.LocallyStationaryGaussian(np.ones((2, 3)), 0.3), ["sigma1", "(2, 3)"]),
    "LSG: not symmetric": (
        lambda: K.LocallyStationaryGaussian([[0.1, 0.1], [0.0, 0.1]], 1.0),
        ["sigma1", "symmetric", "[[0.1, 0.1], [0.0, 0.1]]"],
    ),
    "HMK: negative windows": (mixture(windows=[[1.0], [-1.0]]), ["windows", "positive", "-1.0"]),
    "HMK: lengthscale 0": (mixture(lengthscales=[[0.0]]), ["lengthscales", "positive", "0.0"]),
    "HMK: weights not symmetric": (mixture(weights=NOT_HERMITIAN), ["weights", "symmetric", "0.5"]),
    "HMK: weights not Hermitian": (mixture(weights=NOT_HERMITIAN_COMPLEX), ["weights", "Hermitian", "1j"]),
    "HMK: weights not PSD": (mixture(weights=NOT_PSD), ["weights", "semidefinite", "eigenvalue -1"]),
    "HMK: weights not square": (mixture(weights=np.ones((2, 3, 2))), ["weights", "square", "(2, 3, 2)"]),
    "HMK: weights a vector": (mixture(weights=np.ones((2, 3))), ["weights", "(2, 3)", "(P|1, Q, Q)"]),
    "HMK: P mismatch": (mixture(windows=np.ones((3, 1))), ["windows", "(3, 1)", "P = 3", "P = 2"]),
    "HMK: Q mismatch": (mixture(frequencies=np.ones((2, 2, 1))), ["Q = 3", "Q = 2", "frequencies", "weights"]),
    "HMK: D mismatch": (mixture(centers=np.ones((2, 2))), ["D = 1", "D = 2", "centers", "windows"]),
    "HMK: complex centers": (mixture(centers=1j * np.ones((2, 1))), ["centers", "real", "1j"]),
    "HMK: window matrices alone": (mixture(windows=np.ones((2, 1, 1))), ["windows", "lengthscales", "(2, 1, 1)"]),
    "HMK: singular window matrices": (
        mixture(windows=np.zeros((2, 1, 1)), lengthscales=np.ones((2, 1, 1))),
        ["windows", "definite", "[[[0.0]]"],
    ),
    "HMK: X of another dimension": (lambda: mixture()()(np.ones((3, 2))), ["X1", "(3, 2)", "1 needed"]),
    "HMKP: window matrices": (product(windows=np.ones((2, 1, 1))), ["windows", "(2, 1, 1)"]),
    "HMKP: negative windows": (product(windows=[[1.0], [-1.0]]), ["windows", "positive", "-1.0"]),
    "HMKP: P mismatch": (product(windows=np.ones((3, 1))), ["windows", "P = 3", "P = 2"]),
    "HMKP: weights of another D": (product(weights=np.ones((2, 3, 3, 2))), ["weights", "D = 1", "(2, 3, 3, 2)"]),
    "from_spectral: scalings a number": (from_spectral(scalings=1.0), ["scalings", "()"]),
    "from_spectral: scalings 0": (from_spectral(scalings=np.zeros((2, 2))), ["scalings", "positive", "0.0"]),
    "from_spectral: P mismatch": (from_spectral(scalings=np.ones((3, 2))), ["scalings", "(3, 2)"]),
    "from_spectral: D mismatch": (from_spectral(scalings=np.ones((2, 1))), ["scalings", "(2, 1)"]),
    "from_spectral: Sigma of another D": (from_spectral(sigma1=[0.1] * 3), ["sigma1", "(3,)", "D = 2"]),
    "from_spectral: Sigma2 0": (from_spectral(sigma1=0.0, sigma2=0.0), ["sigma2", "zero", "0.0"]),
    "from_spectral: weights not PSD": (from_spectral(weights=NOT_PSD), ["weights", "semidefinite", "-1"]),
    "from_spectral: too long a lag": (from_spectral(sigma1=[0.1, 0.6]), ["4 sigma2 - sigma1", "eigenvalue -0.2"]),
    # combinations
    "sum with a number": (lambda: K.Sum((SE, 1.0)), ["kernels", "1.0"]),
    "sum of nothing": (lambda: K.Sum(()), ["kernels", "empty"]),
    "product with a string": (lambda: K.Product((SE, "SE")), ["kernels", "'SE'"]),
    "scaled nothing": (lambda: K.Scaled(2.0, None), ["kernels", "None"]),
    "negative factor": (lambda: -1.0 * SE, ["factor", "negative", "-1.0"]),
    "factor a string": (lambda: SE * "2", ["factor", "'2'"]),
    "dimensions that differ": (
        lambda: K.SquaredExponential(1.0, [1.0, 2.0]) + K.SparseSpectrum([1.0], [[1.0]]),
        ["input dimensions", "[1, 2]"],
    ),
    # points and frequencies
    "X a scalar": (lambda: SE(1.0), ["X1", "()"]),
    "X with three axes": (lambda: SE(np.ones((2, 2, 2))), ["X1", "(2, 2, 2)"]),
    "X empty": (lambda: SE([]), ["X1", "empty"]),
    "X None": (lambda: SE(None), ["X1", "None"]),
    "X NaN": (lambda: SE([0.0, np.nan]), ["X1", "nan"]),
    "X2 of another dimension": (lambda: SE(np.ones((2, 2)), np.ones((2, 3))), ["X2", "(2, 3)", "2 needed"]),
    "diag of strings": (lambda: SE.diag(["a"]), ["X", "['a']"]),
    "w of another dimension": (
        lambda: hx.spectral.density(K.SparseSpectrum([1.0], [[1.0]]), np.ones((2, 2))),
        ["w", "(2, 2)", "1 needed"],
    ),
    "xi of another dimension": (
        lambda: hx.spectral.generalized_density(LSG, np.ones((2, 2)), np.ones((2, 3))),
        ["xi", "(2, 3)"],
    ),
    "the density of a function": (lambda: hx.spectral.density(max, [1.0]), ["k", "max", "numeric"]),
    "the Wigner distribution of a number": (lambda: hx.spectral.wigner(1.0, [1.0], [1.0]), ["k", "1.0"]),
}


def outcome(attempt):
    try:
        attempt()
    except Exception as error:
        return type(error).__name__, str(error)
    return "nothing", ""


if __name__ == "__main__":
    print(json.dumps({name: outcome(attempt) for name, (attempt, _) in REFUSALS.items()}))

"""The experiments of the paper, one module each, with the interface `run(out, *, seed=0) -> dict`.

`run` writes pictures and one JSON file of figures (errors, parameters, timings) into the directory `out` and
returns what is in the JSON file. `harmix reproduce` lists and runs what stands in `EXPERIMENTS`; nothing is
imported before that.
"""

from __future__ import annotations

# Name on the command line, which is also the module's name: what `harmix reproduce --help` says about it.
EXPERIMENTS = {
    "figure1": "kernels and their spectra side by side, and a GSM kernel approximated by an HMK",
    "recovery": "kernels of other families recovered as HMKs, and the denseness theorems measured",
    "banana": "two classes in the plane: inducing points and variational Fourier features, and what generalises",
    "solar": "gaps in a record of solar irradiance filled, beside stationary kernels",
    "chirps": "ten gappy signals whose frequency changes, beside a spectral mixture and a periodogram",
}

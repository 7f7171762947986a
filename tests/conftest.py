"""What holds for every test: array shapes are checked at run time, and nothing is random from run to run."""

import os

# Tests run on as many processes as there are cores: threads of each for small eigenproblems would only wait
# for the others. Read when NumPy is loaded, so it comes first.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Nearly all the time goes into compiling small programs, each of them run a few times: without LLVM's optimisations that
# takes 40 % less. What XLA itself makes of a program (fusions, layouts, order of operations) stays.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import hypothesis
import jaxtyping

# Before anything imports harmix: every annotated function and dataclass of it then checks its shapes and
# types.
jaxtyping.install_import_hook("harmix", "beartype.beartype")

hypothesis.settings.register_profile("harmix", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("harmix")

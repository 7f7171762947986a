"""What holds for every test: array shapes are checked at run time, and nothing is random from run to run."""

import hypothesis
import jaxtyping

# Before anything imports harmix: every annotated function and dataclass of it then checks its shapes and types.
jaxtyping.install_import_hook("harmix", "beartype.beartype")

hypothesis.settings.register_profile("harmix", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("harmix")

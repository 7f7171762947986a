# `make demo` and `make test` are all a newcomer needs; the rest is for working on harmix.
# PYTHON=/path/to/python picks the interpreter that .venv is built on.

# Tests are mostly JAX compiling, which keeps two cores busy; worksteal leaves neighbours on one worker,
# so that they share what was compiled.
PYTEST_ARGS ?= -n 2 --dist worksteal

# Modules of another project on these paths would shadow the pinned ones.
unexport PYTHONPATH
unexport PYTHONHOME

.PHONY: help demo test lint format check bench lock clean env

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: env ## install harmix and run it on a signal it makes itself
	@.venv/bin/harmix demo

# The reference data lies beside the repository where there is any; the tests that read it find it by HARMIX_DATA.
ifndef HARMIX_DATA
ifneq ($(wildcard ../shared/data),)
test: export HARMIX_DATA := $(CURDIR)/../shared/data
endif
endif
test: env ## install harmix and run the fast tests (PYTEST_ARGS="-m slow": the slow ones)
	@.venv/bin/pytest $(PYTEST_ARGS)

lint: env ## ruff and mypy
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

format: env ## let ruff mend what it can
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

check: lint test ## what CI runs

# Peers are big, pin much, and disagree: each has an environment of its own. PyTorch is the CPU wheel of that exact version.
.venv-gpflow/bin/python:
	"$(or $(PYTHON),python3)" -m venv .venv-gpflow
	.venv-gpflow/bin/pip install --quiet gpflow==2.11.2 tensorflow-cpu==2.21.0 tf-keras "setuptools<81"
.venv-gpytorch/bin/python:
	"$(or $(PYTHON),python3)" -m venv .venv-gpytorch
	.venv-gpytorch/bin/pip install --quiet torch==2.13.0
	.venv-gpytorch/bin/pip install --quiet gpytorch==1.15.2

bench: env .venv-gpflow/bin/python .venv-gpytorch/bin/python ## speed and memory beside GPflow and GPyTorch
	.venv/bin/python benchmarks/kernels.py
	.venv/bin/python benchmarks/inference.py
	.venv/bin/python benchmarks/summary.py

lock: env ## pin dependencies anew (LOCK_ARGS=--upgrade: to the newest releases)
	.venv/bin/uv pip compile --quiet pyproject.toml --extra test --extra dev --output-file requirements.lock \
	  --universal --fork-strategy fewest --generate-hashes --no-build \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(LOCK_ARGS)

clean: ## remove the environment and every cache (not outputs/)
	rm -rf .venv .venv-gpflow .venv-gpytorch .pytest_cache .hypothesis .mypy_cache .ruff_cache build dist
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# Cheap when nothing changed; its own stamps decide, since file times survive neither a moved nor a broken .venv.
env:
	@"$(or $(PYTHON),python3)" tools/bootstrap.py

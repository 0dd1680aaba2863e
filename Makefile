# Recipes of cookiecutter-slurm-torch. `make help` lists them.
# PYTHON: the interpreter to start from; TORCH: what pip is asked for (another build: TORCH="torch --index-url …").

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV ?= .venv
STACKS_VENV ?= .venv-stacks
BIN = $(VENV)/bin
# three files at a time, also on two cores: the tests on Slurm mostly wait, and they begin first, being the longest
PYTEST = $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder
IN_CI = -m "not full and not gpu and not stacks"

.DEFAULT_GOAL = help
.PHONY: help setup demo test test-again test-stacks test-full bench soak check fix cluster-up cluster-down slurm-packages clean

help:  ## List the recipes
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.ready  ## Make the virtual environment in .venv, with all that development needs

$(VENV)/.ready: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh .ci/make-venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(TORCH)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo:  ## Bake the template into demo/, install it, and train on this machine
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" sh .ci/demo

test: setup  ## Run the tests, the ones on a real Slurm included (as root on Debian it installs Slurm's packages)
	@sh tests/cluster/install.sh || test $$? -eq 3
	$(PYTEST) $(IN_CI)

test-again: setup  ## Run the tests that failed last time once more, one after the other
	$(BIN)/python -m pytest $(IN_CI) --verbose --last-failed --last-failed-no-failures none --maxfail 3

test-stacks: $(STACKS_VENV)/.ready  ## Install JAX, TensorFlow, accelerate and Lightning in .venv-stacks; run their tests
	@sh tests/cluster/install.sh || test $$? -eq 3
	$(STACKS_VENV)/bin/python -m pytest tests/stacks

$(STACKS_VENV)/.ready: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" VENV="$(STACKS_VENV)" sh .ci/make-venv
	$(STACKS_VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(TORCH)
	$(STACKS_VENV)/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' \
		"jax[cpu]" tensorflow-cpu accelerate lightning
	@touch $@

test-full: setup  ## Run all tests, those too long for CI too
	@sh tests/cluster/install.sh || test $$? -eq 3
	$(PYTEST) -m "not stacks"

bench: setup  ## Measure ratios against the floor and the peers
	@sh tests/cluster/install.sh || test $$? -eq 3
	$(BIN)/python -m benchmarks

soak: setup  ## Requeue again and again, for each kind of ending (CYCLES=20; about 2 min each)
	@sh tests/cluster/install.sh || test $$? -eq 3
	$(BIN)/python -m benchmarks.soak $(CYCLES)

check: setup  ## Judge style, types, imports and hooks; change nothing
	$(BIN)/pre-commit run --all-files --show-diff-on-failure

fix: setup  ## Mend what can be mended: lint and format
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .

cluster-up: setup  ## Start a real Slurm of two nodes on this machine, and print the line to export
	@$(BIN)/python -m tests.cluster up

cluster-down:  ## Stop it, and leave nothing behind
	@$(BIN)/python -m tests.cluster down

slurm-packages:  ## Install Slurm from Debian's packages, with the services barred from starting
	@sh tests/cluster/install.sh

clean:  ## Remove what the recipes made
	rm -rf $(VENV) $(STACKS_VENV) demo build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache

# One virtual environment with the locked versions. Every target builds it first when it is missing or out of date.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.locked
TORCH := $(shell grep '^torch==' requirements.lock)
# uv installs the same packages in a fraction of the time. `make UV= setup` does without it. It does not read what pip is
# told about other places of packages: that it gets here.
UV ?= $(shell command -v uv)
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
PIP_INSTALL := $(if $(UV),$(UV) pip install --python $(BIN)/python,$(BIN)/python -m pip --disable-pip-version-check install)

.PHONY: help setup demo tour docs docs-serve notebooks warm-start test coverage test-slow test-gpu fuzz soak lint format lock clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(STAMP)  ## the virtual environment alone

# torch first and with its dependencies: which of them exist (the CUDA libraries) depends on the build that the index
# offers. All else is listed in the lock, so nothing needs resolving.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed, $(PYTHON) is older: name another with 'make PYTHON=python3.11'." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the locked packages into $(VENV) (a few minutes, once) ..."
	@$(PIP_INSTALL) --quiet -c requirements.lock $(TORCH)
	@$(PIP_INSTALL) --quiet --no-deps -r requirements.lock
	@$(PIP_INSTALL) --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)  ## the pipeline's main path on a small synthetic corpus (about 5 minutes)
	@$(BIN)/python -m launch demo

tour: $(STAMP)  ## the demo, then masks, a challenge, a video report and questions about lesions
	@$(BIN)/python -m launch tour

docs: $(STAMP)  ## the documentation site, in site/; broken links fail
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

docs-serve: $(STAMP)  ## the same on this machine's port 8000, anew after each change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

notebooks: $(STAMP)  ## run the notebooks and keep what they show
	@$(BIN)/python docs/site/run_notebooks.py

warm-start: $(STAMP)  ## what continued pretraining keeps and loses, with and without the warm start
	@$(BIN)/python -m experiments.warm_start

# Three workers with one thread each: on two cores they leave none idle, for tests of Slurm jobs and of signals wait more
# than they compute. Tests of one file share its fixtures, so they stay together. In the order of their names: with the
# files of most tests first, one long test would be left for the end, with idle workers beside it.
test: $(STAMP)  ## all tests but the slow ones
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

coverage: $(STAMP)  ## which lines those tests run, processes of their own included
	@OMP_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder
	@$(BIN)/python -m coverage combine --quiet
	@$(BIN)/python -m coverage report --skip-covered --sort=miss | tail -40

test-slow: $(STAMP)  ## only the slow tests
	@$(BIN)/python -m pytest -m slow

test-gpu: $(STAMP)  ## only the tests that need a GPU; elsewhere it says which those are
	@$(BIN)/python -m pytest -m gpu -v

MINUTES ?= 30
HOURS ?= 1
SEED ?= $(shell date +%s)

fuzz: $(STAMP)  ## damaged inputs for every reader, for MINUTES (30), or CASES of them
	@OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz.py $(if $(CASES),--cases $(CASES),--minutes $(MINUTES)) --seed $(SEED)

soak: $(STAMP)  ## a training that is disturbed for HOURS (1), compared with one that is not
	@OMP_NUM_THREADS=1 $(BIN)/python tests/soak/soak.py --hours $(HOURS) --seed $(SEED)

lint: $(STAMP)  ## ruff, import-linter and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy

format: $(STAMP)  ## let ruff rewrite the sources
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock:  ## resolve pyproject.toml anew into requirements.lock
	@sh requirements.sh $(PYTHON) > requirements.lock.new && mv requirements.lock.new requirements.lock

clean:  ## remove the environment and the demo's output
	rm -rf $(VENV) demo_output

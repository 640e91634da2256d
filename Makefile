# Everything runs in one virtual environment that `make` creates with Python 3.11, 3.12 or 3.13.
VENV ?= .venv
# Two processes, a file of tests to one of them: fixtures of a module are made once.
PYTEST_ARGS ?= -n 2 --dist loadfile
# Tests of methods that benchmarks alone use.
PEERS := tests/benchmarks_peers
BIN := $(VENV)/bin
STAMP := $(VENV)/.gpimaging-installed

.DEFAULT_GOAL := help
.PHONY: help environment demo test test-changed test-slow test-benchmarks test-exhaustive test-browser lint format check docs benchmarks clean

help:
	@echo 'make environment create .venv with the pinned versions; the other targets do that first'
	@echo 'make demo       install, render scenes, train a small model, write report, bundle and predictions'
	@echo 'make test       the fast tests, in two processes: 4 to 5 minutes on two free cores (see CONTRIBUTING.md)'
	@echo 'make test-changed  the fast tests that a change against main can break: three minutes at most'
	@echo 'make test-slow  the other tests: up to an hour'
	@echo 'make test-benchmarks  the tests of what benchmarks compare with: methods of other authors'
	@echo 'make test-exhaustive  what test-slow checks only of one estimator or head of each family'
	@echo 'make test-browser  the page of `gpimaging label` in chromium: apt-get install chromium, pip install playwright'
	@echo 'make lint       ruff and mypy'
	@echo 'make format     let ruff reformat and fix what it can'
	@echo 'make check      lint and test'
	@echo 'make docs       the documentation as a site in site/; fails on any warning'
	@echo 'make benchmarks list the benchmarks and what each of them measures'
	@echo 'make clean      remove what the other targets made, except $(VENV) and the demo'

environment: $(STAMP)

# An environment that already holds the pinned set needs no network: pip finds every requirement satisfied, and
# the project itself is built with the setuptools installed there.
$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
	        if $$python -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then \
	            echo "Creating $(VENV) with $$($$python --version)"; \
	            exec $$python -m venv $(VENV); \
	        fi; \
	    done; \
	    echo 'Found no Python from 3.11 to 3.13. Install one, or name it: make PYTHON=/path/to/python3.11' >&2; \
	    exit 1; \
	fi
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/gpimaging demo --overwrite

test: $(STAMP)
	$(BIN)/python -m pytest -m 'not slow' --ignore=$(PEERS) $(PYTEST_ARGS)

test-changed: $(STAMP)
	$(BIN)/python tests/changed.py

# In two parts, since what TensorFlow keeps of all heads and of all commands together takes 20 GB.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -m 'slow and not exhaustive' --hypothesis-profile slow $(PYTEST_ARGS) tests/gpmodels
	$(BIN)/python -m pytest -m 'slow and not exhaustive' --hypothesis-profile slow $(PYTEST_ARGS) tests \
	    --ignore=tests/gpmodels --ignore=$(PEERS)

test-benchmarks: $(STAMP)
	$(BIN)/python -m pytest -m 'not exhaustive' $(PYTEST_ARGS) $(PEERS)

test-exhaustive: $(STAMP)
	$(BIN)/python -m pytest -m exhaustive --hypothesis-profile slow $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m 'hypothesis and not slow and not exhaustive' --hypothesis-profile slow $(PYTEST_ARGS)

test-browser: $(STAMP)
	$(BIN)/python -m pytest -rs tests/pipelines/label/test_browser.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

check: lint test

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

benchmarks: $(STAMP)
	@$(BIN)/python -m benchmarks

clean:
	rm -rf site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find gpmodels data_prep pipelines benchmarks docs tests -name __pycache__ -type d -exec rm -rf {} +

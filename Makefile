# Commands, each of which first sets up what it needs, once:
#
#     make train    the main job: configs/maze_tiny.py into runs/maze_tiny
#     make test     lint, format, types and the quick tests: ten minutes on two cores
#     make test-all the same with the slow tests
#     make check    the same in less than a minute, with the tests of layers and tables
#     make types    types alone
#
# Variables: PYTHON (an interpreter, 3.11 to 3.14; found if not given), VENV, CONFIG,
# WORKDIR, ARGS (of the main job, as in ARGS=--config.advantage.k=8), PYTEST_ARGS.

SHELL := /bin/bash
# Large arrays are new at every step, and small pages of them are slow to get: a twentieth
# of a train step on a CPU.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1
# What pytest makes of the tests is kept: each worker would take ten seconds to make it
# again.
unexport PYTHONDONTWRITEBYTECODE
VENV ?= .venv
CONFIG ?= configs/maze_tiny.py
WORKDIR ?= runs/maze_tiny
ARGS ?=
# Three workers for two cores: one often waits for another process. A file stays with one
# worker, which has compiled for it.
PYTEST_ARGS ?= -n 3 --dist loadfile
PYTHON ?=
# Tests that need no training: of layers, fields and tables.
CHECKS := $(addprefix tests/,layers_test.py path_test.py fields_test.py \
    mutations_test.py tasks_test.py advantages/table_test.py cli/flags_test.py \
    models/families/table_test.py)

BIN := $(VENV)/bin
# The tested versions; requirements.txt has the floors.
CONSTRAINTS = constraints/python$(shell $(BIN)/python -c \
    'import sys; print("%d.%d" % sys.version_info[:2])').txt
PIP_INSTALL = $(BIN)/python -m pip --quiet --disable-pip-version-check install \
    -c $(CONSTRAINTS)

# What an interpreter must be: of the right version, and able to make a full
# environment (Debian's python3 has no ensurepip without python3-venv).
USABLE := import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))

.PHONY: help train test test-all check lint types
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q;s/^# \{0,1\}//p' Makefile

train: $(VENV)/installed
	$(BIN)/python -m passk_jax.train --config=$(CONFIG) --workdir=$(WORKDIR) $(ARGS)

test: lint types
	$(BIN)/python -m pytest $(PYTEST_ARGS)

test-all: lint types
	$(BIN)/python -m pytest -m '' $(PYTEST_ARGS)

check: lint types
	$(BIN)/python -m pytest $(CHECKS)

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-test
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python

# A stamp is written last, so an installation that failed is tried again.
$(VENV)/installed: requirements.txt $(wildcard constraints/*.txt) | $(BIN)/pip
	@echo 'Installing requirements.txt at the tested versions into $(VENV) (once; minutes)'
	@$(PIP_INSTALL) -r requirements.txt
	@touch $@

$(VENV)/installed-test: pyproject.toml $(VENV)/installed
	@echo 'Installing the extras test and reasoning-gym into $(VENV) (once)'
	@$(BIN)/python -c "import tomllib; \
	extras = tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']; \
	print(*extras['test'], *extras['reasoning-gym'], sep='\n')" > $(VENV)/test.txt
	@$(PIP_INSTALL) -r requirements.txt -r $(VENV)/test.txt
	@touch $@

# pip comes last, so it says that the environment was made to the end.
$(BIN)/pip:
	@for python in $(or $(PYTHON),python3.12 python3.11 python3 python3.13 python3.14); do \
	    if $$python -c '$(USABLE)' > /dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'No Python 3.11 to 3.14 with venv among:' \
	        '$(or $(PYTHON),python3.12 python3.11 python3 python3.13 python3.14).' \
	        'Install one (on Debian with python3-venv), or name it: PYTHON=...' >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV)

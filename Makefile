# A fresh clone needs only Python 3.11 or 3.12 and make. `make help` lists what there is.

VENV ?= .venv
# A certain Python to make the environment with; empty: the first suitable one.
PYTHON ?=
# Flags for the one installation of torch, such as --index-url for a CPU-only build on a machine without a GPU.
TORCH_FLAGS ?=
TORCH := torch==2.13.0
CONSTRAINTS ?= -c requirements.lock
# Tiny models are fastest with one thread per process; several processes share the cores.
export OMP_NUM_THREADS ?= 1

# Tests run in a process for each core, four at most: each holds torch. Empty: one after the other.
SIDE_BY_SIDE ?= -n auto --maxprocesses 4 --dist worksteal

BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
FIND_PYTHON = for p in $(PYTHON) python3.11 python3.12 python3 python; do \
	if $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then echo $$p; exit 0; fi; done; \
	echo 'error: install Python 3.11 or 3.12 with its venv module first.' >&2; exit 1

.PHONY: help install demo demo-quick demo-full test test-all fuzz lint format lock clean
.DEFAULT_GOAL := help

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create the environment and install everything into it

demo: $(INSTALLED) ## The whole tiny recipe: 45 minutes on 2 cores, then runs/tiny/report.html
	$(BIN)/sanderling recipe run tiny

demo-quick: $(INSTALLED) ## All stages in about a minute, from a shipped SFT model, without claims
	$(BIN)/sanderling recipe run tiny --quick

demo-full: $(INSTALLED) ## The demo, and after it IGPO, denoising, a curriculum and a merge of both SFT models
	$(BIN)/sanderling recipe run tiny --set full=true

test: $(INSTALLED) ## All tests but the slow ones
	$(BIN)/python -m pytest -m "not slow" $(SIDE_BY_SIDE)

test-all: $(INSTALLED) ## All tests
	HYPOTHESIS_PROFILE=all $(BIN)/python -m pytest

fuzz: $(INSTALLED) ## Property tests on random examples, again and again for ten minutes; stops at the first failure
	end=$$(( $$(date +%s) + 600 )); while [ $$(date +%s) -lt $$end ]; do \
		HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -q -x -m hypothesis $(SIDE_BY_SIDE) || exit 1; done

lint: $(INSTALLED) ## Format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(INSTALLED) ## Format, and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## Write requirements.lock from a fresh, unconstrained environment
	rm -rf $(VENV)-lock
	$(MAKE) --no-print-directory install VENV=$(VENV)-lock CONSTRAINTS=
	$(VENV)-lock/bin/python -m pip list --format=freeze --exclude-editable --exclude pip --exclude setuptools --exclude wheel \
		| sed 's/+.*//' | LC_ALL=C sort -f > requirements.lock
	rm -rf $(VENV)-lock

clean: ## Remove the environment and caches; runs are kept
	rm -rf $(VENV) $(VENV)-lock build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.pip:
	python=$$($(FIND_PYTHON)) && "$$python" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

# Torch first and alone: together with the rest, several GB of CUDA libraries come along on a machine without a GPU.
$(VENV)/.torch: $(VENV)/.pip
	$(BIN)/python -c 'import torch' 2>/dev/null || $(BIN)/python -m pip install $(TORCH_FLAGS) $(TORCH)
	touch $@

$(INSTALLED): $(VENV)/.torch pyproject.toml $(if $(CONSTRAINTS),requirements.lock)
	$(BIN)/python -m pip install --quiet $(CONSTRAINTS) -e ".[local,train,serve,world,web,milvus,merge,dev]"
	touch $@

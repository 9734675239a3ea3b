# Every command of the project. `make` alone lists them. From a fresh clone only Python >= 3.11
# with pip is needed: targets make the environment that they run in, .venv or .venv-peer.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# Tests start hundreds of processes: without bytecode each would compile the whole package anew.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup plan test test-all verify check conformance docs bench peer zoos clean

# The first Python that is new enough, can make environments, and really runs (a pyenv shim
# may exist and fail).
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	if $$p -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' \
	>/dev/null 2>&1; then echo $$p; break; fi; done)

VENV := .venv
PEER := .venv-peer
READY := $(VENV)/.stamp
DOCS_READY := $(VENV)/.stamp-docs
PEER_READY := $(PEER)/.stamp
# The public model zoos, beside maquette and beside PyTorch.
ZOO := .venv-zoo
ZOO_PEER := .venv-zoo-peer
ZOO_LIBRARIES ?= transformers==5.23.0 safetensors einops pillow pyyaml huggingface_hub
ZOO_READY := $(ZOO)/.stamp
ZOO_PEER_READY := $(ZOO_PEER)/.stamp

# What `make plan` plans.
PLAN ?= examples/gpt2.py --model 'GPT2(GPT2Config.small())' --args 'batch(8, 1024)' \
	--train --optimizer adamw --device cuda
# The peer that behaviour and times are compared with. Its CPU build is enough; to have pip take
# that one, give the index that holds it: make peer TORCH_FLAGS='--index-url URL'.
TORCH ?= torch==2.13.0
TORCH_FLAGS ?=
PYTEST_FLAGS ?= -q
# On how many cores `make test` runs.
WORKERS ?= auto
BENCH_FLAGS ?=
# Compiled steps need a Python that has JAX: make bench COMPILED_FLAGS='--jax PYTHON'.
COMPILED_FLAGS ?=

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

define make_environment
	@test -n "$(PYTHON)" || { echo "No Python >= 3.11 found that has venv and ensurepip." \
	"Install one, or name it: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@$(1)/bin/python -c '' 2>/dev/null || { echo "$(PYTHON) -m venv $(1)"; \
	$(PYTHON) -m venv --clear $(1); }
endef

$(READY): pyproject.toml
	$(call make_environment,$(VENV))
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(DOCS_READY): $(READY)
	$(VENV)/bin/python -m pip install --quiet --editable '.[docs]'
	@touch $@

$(PEER_READY): pyproject.toml
	$(call make_environment,$(PEER))
	$(PEER)/bin/python -m pip install --quiet $(TORCH_FLAGS) '$(TORCH)'
	$(PEER)/bin/python -m pip install --quiet --editable '.[dev,fast]'
	@touch $@

$(ZOO_READY): pyproject.toml
	$(call make_environment,$(ZOO))
	$(ZOO)/bin/python -m pip install --quiet --editable '.[fast]' $(ZOO_LIBRARIES)
	$(ZOO)/bin/python -m pip install --quiet --no-deps timm==1.0.31 torchvision
	@touch $@

$(ZOO_PEER_READY): pyproject.toml
	$(call make_environment,$(ZOO_PEER))
	$(ZOO_PEER)/bin/python -m pip install --quiet $(TORCH_FLAGS) '$(TORCH)' torchvision
	$(ZOO_PEER)/bin/python -m pip install --quiet timm==1.0.31 $(ZOO_LIBRARIES)
	@touch $@

setup: $(READY) ## make .venv with maquette and the developers' tools

plan: $(READY) ## plan GPT-2's training step: no data, no accelerator
	$(VENV)/bin/maquette plan $(PLAN)

test: $(READY) ## run the tests; their results stay in .pytest_results.xml for tools/spec_coverage.py
	$(VENV)/bin/python -m pytest $(PYTEST_FLAGS) -n $(WORKERS) --junit-xml=.pytest_results.xml

test-all: ## run the tests on each CPython from 3.11 on that is here, in .venv-3.11, .venv-3.12 ...
	@failed=; while read -r version python; do \
	echo "=== CPython $$version, $$python"; \
	$(MAKE) --no-print-directory test PYTHON="$$python" VENV=".venv-$$version" </dev/null \
	|| failed="$$failed $$version"; done < <(.ci/pythons); \
	test -z "$$failed" || { echo "failed on CPython$$failed" >&2; exit 1; }

verify: $(READY) ## run what is exhaustive or long: tests marked `verify`, scripts of tools/verify
	$(VENV)/bin/python -m pytest $(PYTEST_FLAGS) -m verify || [ $$? = 5 ]  # 5: none marked
	@failed=; for script in $(sort $(wildcard tools/verify/*.py)); do echo "python $$script"; \
	$(VENV)/bin/python $$script || failed="$$failed $$script"; done; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }
	@test ! -x $(PEER)/bin/python || $(PEER)/bin/python tools/random_programs.py --count 20000
	@test ! -x $(ZOO)/bin/python || $(MAKE) --no-print-directory zoos

check: $(READY) ## lint, types, layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

conformance: $(READY) ## replay PyTorch's recorded calls, on NumPy and on a strict array library
	$(VENV)/bin/python tools/conformance.py
	$(VENV)/bin/python tools/conformance.py --backend strict --show 0

docs: $(DOCS_READY) ## build the site, with the API pages, in docs/_build
	$(VENV)/bin/mkdocs build --strict --quiet
	$(VENV)/bin/pdoc --output-directory docs/_build/api maquette

bench: $(PEER_READY) ## measure the budgets against PyTorch in the same run
	$(PEER)/bin/python benchmarks/bench.py $(BENCH_FLAGS)
	$(PEER)/bin/python benchmarks/kernels.py
	$(PEER)/bin/python benchmarks/compiled.py $(COMPILED_FLAGS)

peer: $(PEER_READY) ## compare behaviour with PyTorch itself
	$(PEER)/bin/python tools/peer.py $(PYTEST_FLAGS)
	$(PEER)/bin/python tools/random_programs.py --count 500
	$(PEER)/bin/python tools/operator_sequences.py

zoos: $(ZOO_READY) $(ZOO_PEER_READY) ## compare all models of transformers and timm (an hour)
	$(ZOO)/bin/python tools/verify/library_names.py
	$(ZOO)/bin/python tools/verify/zoos.py --peer $(ZOO_PEER)/bin/python
	$(ZOO)/bin/python benchmarks/true_sizes.py --torch $(ZOO_PEER)/bin/python --repeat 8

clean: ## remove the environments and all that builds and tests leave behind
	rm -rf $(VENV) .venv-3.* $(PEER) $(ZOO) $(ZOO_PEER) build dist docs/_build .benchmarks .hypothesis .pytest_results.xml
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info src/*.egg-info
	find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + \
	2>/dev/null || true

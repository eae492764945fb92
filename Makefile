# `make train` and `make test` are all a clone needs; both make .venv first.

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# what builds wheels stands apart: it needs nothing of what rlcore needs
BUILD ?= .venv-build
DIST ?= dist
# what builds the documentation site, likewise
SITE ?= .venv-site
PLUGINS := $(wildcard plugins/*/pyproject.toml plugins/*/*/pyproject.toml)
DISTRIBUTIONS := . $(PLUGINS:/pyproject.toml=)
CHECKED := rlcore plugins tests benchmarks examples docs
# tests misspell keys on purpose, and so does one page (borken)
SPELLED := $(wildcard *.md) rlcore plugins benchmarks configs docs examples requirements
UNSPELLED := */tests/*,*.csv,*.json,*.svg,*.ipynb

# Tests run in as many processes as there are cores, four at most: each may hold a Ray cluster and
# comes to 2-3 GB. The files of a process keep their order, long ones first, and a file's tests stay
# together, as they share what is slow to make. ARGS="-n 0" runs all in one process. Modules are
# compiled once, whatever the variable says: hundreds of processes would do so again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest \
  -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: help install train test types tests test-all test-exhaustive bench lint format wheels docs clean

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

install: $(STAMP) ## .venv with everything; does nothing when nothing changed

$(STAMP): pyproject.toml $(PLUGINS) $(wildcard requirements/*)
	@bash requirements/install.sh --venv $(VENV)
	@touch $@

train: install ## demonstrations, imitation, RL, evaluation (ARGS="runner.seed=1")
	$(BIN)/rlcore train experiment=quickstart_expo $(ARGS)

test: install ## checks and the tests that are not long
	$(BIN)/ruff check $(CHECKED)
	@$(MAKE) --no-print-directory -j 2 types tests

types: install # takes one core while the first tests run
	$(BIN)/mypy

tests: install
	$(PYTEST) --durations=10 $(ARGS)

test-all: install ## the long tests too: less than an hour on two cores
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/mypy
	$(PYTEST) --durations=20 -m "not exhaustive" $(ARGS)

test-exhaustive: install ## every case of a table (starts, placements, kernels): two hours or more
	$(PYTEST) --durations=0 -m exhaustive $(ARGS)

bench: install ## measure speed on this machine, 20 minutes; writes docs/benchmarks.md
	$(BIN)/python benchmarks/bench.py $(ARGS)

lint: install ## style, spelling and types
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/codespell --skip '$(UNSPELLED)' --ignore-words-list borken $(SPELLED)
	$(BIN)/mypy

format: install ## put into style
	$(BIN)/ruff check --fix $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

$(BUILD)/bin/hatchling: requirements/build.txt
	@bash requirements/venv.sh $(BUILD)
	@$(BUILD)/bin/python -m pip install -qq --disable-pip-version-check -r requirements/build.txt
	@touch $@

wheels: $(BUILD)/bin/hatchling ## a wheelhouse in dist/
	@rm -f $(DIST)/rlcore*.whl
	$(BUILD)/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps \
	  --no-build-isolation --wheel-dir $(DIST) $(DISTRIBUTIONS)
	@ls $(DIST)

$(SITE)/bin/zensical: requirements/docs.txt
	@bash requirements/venv.sh $(SITE)
	@$(SITE)/bin/python -m pip install -qq --disable-pip-version-check -r requirements/docs.txt
	@touch $@

docs: install $(SITE)/bin/zensical ## build/site/index.html: the documentation, readable without a network
	$(BIN)/python docs/make_site.py
	$(SITE)/bin/zensical build --strict

clean: ## remove what was built
	rm -rf dist build .venv-build .venv-site .pytest_cache .mypy_cache .ruff_cache

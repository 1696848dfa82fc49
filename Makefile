# `make run` and `make test` need python3 (3.11 or newer) with venv, and nothing else: each makes its own environment in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
OUT ?= results
# a worker needs up to 3 GB: at most four
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 4 ] && n=4; echo $$n)

.PHONY: run test test-slow lint bench bench-gpu docs clean

$(INSTALLED): pyproject.toml
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"dpjax needs Python 3.11 or newer, this is {v.major}.{v.minor}: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all]'
	touch $@

run: $(INSTALLED)  ## every figure and the reproduction table, on built-in data, into $(OUT); DATA=folder adds the real files
	$(BIN)/python -m experiments --out $(OUT) $(if $(DATA),--data $(DATA))

test: $(INSTALLED)  ## the tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test-slow: $(INSTALLED)  ## the tests that take minutes
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m slow

lint: $(INSTALLED)  ## ruff, types and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED)  ## one table of side-by-side timings
	$(BIN)/python -m benchmarks

bench-gpu: $(INSTALLED)  ## checks and times the hot paths on an accelerator, if JAX sees one
	$(BIN)/python -m benchmarks.gpu

docs: $(INSTALLED)  ## the pages, into docs/_build
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

clean:
	rm -rf $(VENV) docs/_build docs/jupyter_execute .pytest_cache .mypy_cache .ruff_cache

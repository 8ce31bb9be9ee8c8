# Everything here needs Python 3.11 or newer with venv, and the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test bench lint types check clean

# Talk to the NPCs of config/tavern.yaml.
demo: $(VENV)/.runs
	@$(BIN)/glyphoxa play config/tavern.yaml

# Pass the tests. HYPOTHESIS_PROFILE=ci looks harder.
test: $(VENV)/.tests
	$(BIN)/python -m pytest -q

# Every figure of docs/performance.md, on this machine.
bench: $(VENV)/.tests
	$(BIN)/python -m benchmarks

lint: $(VENV)/.develops
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.develops
	$(BIN)/mypy

check: lint types test

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runs: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.tests: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.runs

$(VENV)/.develops: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.runs $(VENV)/.tests

clean:
	rm -rf $(VENV) .hypothesis .mypy_cache .ruff_cache

# Two commands for a newcomer (demo, test); the rest is for those who change agentflow.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint clean

demo: $(VENV)/.demo  ## install what the demo needs and evaluate a real agent on a real (very small) model
	$(BIN)/agentflow run examples/math/agent.py --limit 16

test: $(VENV)/.test  ## install what the tests need and run them
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.lint  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	touch $@

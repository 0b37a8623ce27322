# One door in. `make help` lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

# compiled modules are kept: without them every process of the tests takes twice as long to start
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup browser bubble demo quick test tests check format bench validity docs site pictures clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## create .venv with everything that is pinned in requirements.lock

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make setup PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet uv
	@echo "installing what requirements.lock pins into $(VENV)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps -e .
	@touch $(STAMP)

demo: setup ## the whole story end to end on embedded data
	@$(BIN)/ethogram demo --live --view

browser: ## a browser for the browser tests, where this machine lets us install one
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1 \
	|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && echo "installing chromium for the browser tests" \
	     && { apt-get install -y --no-install-recommends chromium >/dev/null 2>&1 \
	          || { apt-get update >/dev/null 2>&1 && apt-get install -y --no-install-recommends chromium >/dev/null 2>&1; }; }; } \
	|| echo "no chromium here and none can be installed: browser tests will be skipped"

bubble: ## bubblewrap for the tests of isolation, where this machine lets us install it
	@command -v bwrap >/dev/null 2>&1 \
	|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 && echo "installing bubblewrap for the tests of isolation" \
	     && { apt-get install -y --no-install-recommends bubblewrap >/dev/null 2>&1 \
	          || { apt-get update >/dev/null 2>&1 && apt-get install -y --no-install-recommends bubblewrap >/dev/null 2>&1; }; }; } \
	|| echo "no bubblewrap here and none can be installed: tests of isolation will be skipped"

test: setup browser bubble ## everything that must hold: the checks and all tests, beside each other
	@$(MAKE) --no-print-directory -j 2 check tests

tests: setup
	@# three workers on two cores: a third of the time tests wait for processes, servers and browsers
	$(BIN)/python -m pytest -n 3 --dist loadgroup --durations 25 --durations-min 5

quick: setup ## lint, types and the tests nearest to what changed since main, in less than two minutes
	@$(BIN)/python scripts/quick.py

check: setup ## format, lint, strict types, generated files
	$(BIN)/ruff format --check src tests bench scripts
	$(BIN)/ruff check src tests bench scripts
	$(BIN)/mypy
	$(BIN)/python scripts/generate.py --check

format: setup ## format the code and mend what can be mended
	$(BIN)/ruff format src tests bench scripts
	$(BIN)/ruff check --fix src tests bench scripts

docs: setup ## renew reference pages, JSON schemas and the output of guide pages that are stale; ALL=1 runs every page
	$(BIN)/python scripts/generate.py $(if $(ALL),--all)

site: setup ## the documentation as a site that needs no network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "build/site/index.html"

pictures: setup browser ## the pictures of README and docs, made anew
	$(BIN)/python scripts/make_pictures.py

bench: setup ## claims of speed and memory, side by side with the naive way or a peer
	$(BIN)/python bench/run.py

validity: setup ## long simulations with seeds drawn anew, their figures printed; long fuzzing and faults
	ETHOGRAM_LONG=1 ETHOGRAM_SEED=$${ETHOGRAM_SEED:-$$(date +%s)} $(BIN)/python -m pytest --timeout 0 -rP -n 2 --dist loadgroup tests/validity
	ETHOGRAM_LONG=1 $(BIN)/python -m pytest --timeout 0 -n 2 --dist loadgroup tests/faults tests/capture

clean: ## remove what can be made again
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .cache build dist

# Everything needs only Python 3.11+ and make; the rest is set up on first use.

PYTHON ?= python3
# One tool that this project does not bring itself: uv. Taken from the PATH, else put in .tools.
UV_VERSION := 0.13.7
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
RUN := $(UV) run --frozen --no-sync
READY := .venv/.ready
# What running takes, without what only tests and benchmarks do.
RUNS := .venv/.runs
# Once, here: where PYTHONDONTWRITEBYTECODE is set every start would compile everything, for 2 s.
COMPILE := .venv/bin/python -m compileall -q src

.DEFAULT_GOAL := help
.PHONY: help setup serve work test quick pgbouncer-test clients browser screenshots lint types audit format conformance bench retrieval clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(READY) ## install everything into .venv

serve: $(RUNS) ## run Recollect on http://127.0.0.1:8484
	@$(RUN) recollect serve $(ARGS)

work: $(RUNS) ## run background workers alone
	@$(RUN) recollect work $(ARGS)

test: $(READY) browser lint types ## run every check and every test
	$(RUN) pytest -n 2 --dist worksteal $(ARGS)

quick: $(READY) browser ## run the tests once, without the slow ones
	$(RUN) pytest -n 2 -m 'not slow' -x -q $(ARGS)

pgbouncer-test: $(READY) ## run what matters behind PgBouncer, which you have to install
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || { echo "Install pgbouncer first (apt install pgbouncer, brew install pgbouncer)."; exit 1; }
	TEST_BEHIND_PGBOUNCER=1 $(RUN) pytest -n 2 --dist worksteal tests/api tests/memories tests/search tests/keywords tests/embeddings tests/conversations tests/learning tests/portability tests/db tests/worker tests/pgbouncer/with_pgbouncer.py $(ARGS)

browser: $(READY) ## find the Chromium that the tests of the page need, or install Debian's
	@$(RUN) python -m tests.support.chromium

screenshots: $(READY) browser ## show every page, light and dark, wide and narrow, in docs/screenshots
	$(RUN) python -m tests.support.screenshots $(ARGS)

clients: $(READY) ## run clients that need npm and a source distribution; you bring npm
	@command -v npm >/dev/null || { echo "Install Node with npm first."; exit 1; }
	cd tests/clients/ai_sdk && npm ci --ignore-scripts --no-audit --no-fund
	$(UV) venv --quiet --allow-existing .clients/venv
	$(UV) pip install --quiet --python .clients/venv 'openai[aiohttp]==3.49.0' pytest pytest-asyncio pytest-xdist rich pip
	.clients/venv/bin/python -m pip download --quiet --no-deps --no-binary openai --dest .clients openai==3.49.0
	$(RUN) pytest -rP tests/clients/with_*.py $(ARGS)

lint: $(READY) ## style, bans and the direction of imports
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) lint-imports

types: $(READY) ## strict types over source, tests and benchmarks
	$(RUN) basedpyright

audit: $(READY) ## look up known vulnerabilities of the packages on the internet
	$(UV) audit --frozen

format: $(READY) ## write the code in the project's style
	$(RUN) ruff check --fix-only .
	$(RUN) ruff format .

conformance: $(READY) browser ## run the numbered tests and list each statement with its result
	$(RUN) python -m tests.contract.report -n 2 --dist worksteal $(ARGS)

retrieval: $(READY) ## how well memories are recalled; DATA=folder with the public sets
	$(RUN) python -m bench.retrieval --data $(DATA) $(ARGS)

bench: $(READY) ## load, latency and floor, over HTTP, in one run
	$(RUN) python -m bench.load $(ARGS)

clean: ## remove what setup made
	rm -rf .venv .tools .clients tests/clients/ai_sdk/node_modules

$(READY): pyproject.toml uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --frozen --compile-bytecode
	@$(COMPILE)
	@touch $@ $(RUNS)

# Takes nothing away from a .venv that has more.
$(RUNS): pyproject.toml uv.lock | $(filter .tools/%,$(UV))
	$(UV) sync --frozen --inexact --no-group dev --compile-bytecode
	@$(COMPILE)
	@touch $@

.tools/bin/uv:
	$(PYTHON) -c 'import sys; sys.exit("Recollect needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

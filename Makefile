# Every command a developer needs.  `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.package
STAMP := $(VENV)/.installed
PEERS := .venv-bench
# More processes than cores: most tests wait for a server or for another process.
PYTEST := $(BIN)/pytest -n 4

# Tests start thousands of interpreters.  With bytecode they do in half of the time, in a folder of its own.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/bytecode

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: setup demo test check format proof fuzz mutants bench docs web web-check web-pictures lock clean help

setup: $(STAMP) ## Build .venv from constraints.txt (only when something changed)

# The package and what it depends on: all that `make demo` needs.
$(PACKAGE): pyproject.toml constraints.txt
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV) || $(MAKE) --no-print-directory venv-from-debian
	@$(BIN)/pip install --quiet --constraint constraints.txt --editable .
	@touch $@

# The tools for tests, checks and documentation.  pip learned --group (PEP 735) in 25.1; Debian's is older.
$(STAMP): $(PACKAGE)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/pip install --quiet --constraint constraints.txt --group dev
	@touch $@

# Debian ships Python without the means to build a virtual environment.
.PHONY: venv-from-debian
venv-from-debian:
	apt-get update --quiet && apt-get install --yes --quiet python3-venv
	$(PYTHON) -m venv --clear $(VENV)

demo: $(PACKAGE) ## Watch an example shop at work, live on a terminal
	@$(BIN)/onward demo

# Real servers and killed processes on a busy machine: a test that fails is run again, alone, and the summary shows both.
test: setup ## Everything that must hold before a commit: the checks, then every test
	@$(TWO_AT_A_TIME) $(CHECKS) bytecode
	$(PYTEST) --run-again

check: setup ## Style, types, layers, limits, promises, documentation
	@$(TWO_AT_A_TIME) $(CHECKS)

# Each check uses one core; the longest first.
CHECKS := check-types check-site check-style check-pages
TWO_AT_A_TIME := $(MAKE) --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync)
.PHONY: $(CHECKS) bytecode

check-types:
	$(BIN)/mypy
	$(BIN)/python -m tools.public_types

check-site:
	$(BIN)/zensical build --strict

check-style:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m tools.limits check

check-pages:
	$(BIN)/python -m tools.promises check
	$(BIN)/python -m tools.lifecycle check
	$(BIN)/python -m tools.processes_picture check
	$(BIN)/python -m tools.whole_picture check
	$(BIN)/python -m tools.llms check
	$(BIN)/python -m tools.schedules_picture check
	$(BIN)/python -m tools.flows_picture check
	$(BIN)/python -m tools.limits_pictures check
	$(BIN)/python -m tools.trace check
	$(BIN)/python -m tools.cli_reference check
	$(BIN)/python -m tools.options_reference check
	$(BIN)/python -m tools.metrics_reference check
	$(BIN)/python -m tools.celery_reference check
	$(BIN)/python -m tools.backend_contract check
	$(BIN)/python -m tools.web_build check
	$(BIN)/python -m tools.web_types check

# Imports every test once.  The processes of the run, which begin all at once, would each compile all of them.
bytecode:
	@$(BIN)/pytest --collect-only --quiet --quiet --no-summary > $(VENV)/.collected || { cat $(VENV)/.collected; false; }

format: setup ## Format the code and fix what the linter can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/python -m tools.promises write
	$(BIN)/python -m tools.lifecycle write
	$(BIN)/python -m tools.processes_picture write
	$(BIN)/python -m tools.whole_picture write
	$(BIN)/python -m tools.llms write
	$(BIN)/python -m tools.cli_reference write
	$(BIN)/python -m tools.options_reference write
	$(BIN)/python -m tools.metrics_reference write
	$(BIN)/python -m tools.celery_reference write
	$(BIN)/python -m tools.backend_contract write
	$(BIN)/python -m tools.web_types write

proof: setup ## The tests' claims at full scale, in up to four hours; goes on where it was stopped; writes docs/proof.md (PROOF="--afresh": from the first part)
	$(BIN)/python -m tools.proof $(PROOF)

fuzz: setup ## Hunt for input that does what is not documented (FUZZ="url --seconds 600": one target, for long)
	@$(BIN)/pip install --quiet atheris
	$(BIN)/python -m tools.fuzz $(FUZZ)

mutants: setup ## Break the code on purpose; the tests must notice
	$(BIN)/python -m tools.mutants

bench: setup $(PEERS)/.installed ## Throughput and latency beside the raw engine and the peers; writes docs/benchmarks.md (BENCH="--only postgres": one part)
	$(BIN)/python -m bench --peers $(PEERS)/bin/python --write $(BENCH)

# The peers have an environment of their own: their dependencies are none of ours.  Two of them want an older redis-py,
# and one of them a later Python.
$(PEERS)/.installed: Makefile
	@$(PYTHON) -m venv --clear $(PEERS)
	@$(PEERS)/bin/pip install --quiet huey litequeue flexiq quebec "psycopg[binary,pool]" uvloop
	@for peer in procrastinate "pgqueuer[asyncpg]" oban chancy "saq[postgres]" awa-pg \
		rq "dramatiq[redis]" "taskiq[orjson] taskiq-redis hiredis" "celery[redis]" streaq; do \
		$(PEERS)/bin/pip install --quiet $$peer || echo "bench: $$peer cannot be installed here"; done
	@for peer in arq "saq[redis]"; do \
		$(PEERS)/bin/pip install --quiet --target $(PEERS)/apart/$${peer%[*} $$peer hiredis \
		|| echo "bench: $$peer cannot be installed here"; done
	@later="$(call LATER,3.14 3.13 3.12)"; \
	if [ -z "$$later" ]; then echo "bench: oban needs a Python 3.12 or later, and there is none here"; \
	else "$$later" -m venv --clear $(PEERS)/later && $(PEERS)/later/bin/pip install --quiet oban "psycopg[binary,pool]" \
		|| echo "bench: oban cannot be installed here"; fi
	@touch $@

# Later interpreters than the one of development: those of pyenv, and those on the PATH.  What pyenv puts there only asks for a choice.
LATER = $(firstword $(foreach name,$(1),$(shell for each in "$$HOME"/.pyenv/versions/$(name).*/bin/python$(name) python$(name); do \
	"$$each" -c "" 2>/dev/null && command -v "$$each" && break; done)))

# Django 6 needs a later Python than the rest does: nothing is built where there is none.
.PHONY: django
django: ## Build environments for the tests with Django 6.0 and 6.1, where a Python 3.12 or later is found
	@later="$(call LATER,3.14 3.13 3.12)"; \
	if [ -z "$$later" ]; then echo "django: no Python 3.12 or later here: Django 6 is not tested"; exit 0; fi; \
	for version in 6.0 6.1; do "$$later" -m venv --clear .venv-django-$$version \
		&& .venv-django-$$version/bin/pip install --quiet --editable . "Django==$$version.*" "psycopg[binary]" PyMySQL || exit 1; done

# The tests with another interpreter, in an environment of its own: `make test-3.13 TESTS="tests/job tests/base"` runs some of them.
TESTS ?=
.PHONY: test-3.12 test-3.13 test-3.14
test-3.12 test-3.13 test-3.14: test-%: ## Run the tests with that Python, where it is found (TESTS="tests/job": some of them)
	@later="$(call LATER,$*)"; \
	if [ -z "$$later" ]; then echo "test-$*: no Python $* here: nothing was run"; exit 1; fi; \
	test -e .venv-$*/.installed || { "$$later" -m venv --clear .venv-$* \
		&& .venv-$*/bin/python -m pip install --quiet --upgrade "pip>=25.1" \
		&& .venv-$*/bin/pip install --quiet --constraint constraints.txt --editable . --group dev \
		&& touch .venv-$*/.installed; } || exit 1; \
	.venv-$*/bin/pytest -n 4 --run-again $(TESTS)

# What it has kept are the files of .cache.  Its own `--clean` takes the folders away, too, also from tests that run.
docs: setup ## Build the site into build/site (PROJECT_URL=https://...: where its links into the repository lead)
	@rm -rf build/site && find .cache -maxdepth 1 -type f -delete
	$(BIN)/zensical build --strict
	$(BIN)/python -m tools.site_links

# Node comes with the tools for tests, its packages from npm by their lock file.  What is built is committed: nobody else needs them.
web: setup ## Build the dashboard's pages from web/
	$(BIN)/python -m tools.web_build build

web-check: setup ## Build the pages again and compare every byte with what is committed
	$(BIN)/python -m tools.web_build verify

web-pictures: setup ## Take the pictures of the dashboard in docs/assets with a real browser
	$(BIN)/python -m tools.web_pictures

lock: setup ## Choose newer versions of everything into constraints.txt
	@$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --all-extras --group dev --upgrade --quiet \
		--universal --no-header --no-emit-index-url --no-annotate --output-file constraints.txt

clean: ## Remove everything that can be made again
	rm -rf $(VENV) $(PEERS) .venv-django-* .venv-3.* build dist web/node_modules .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help: ## List the commands
	@grep -hE '^[a-z][a-z0-9. -]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

# Every target does its own set-up: a fresh machine needs Python 3.11 or later, make, and access to
# a package registry. `make PYTHON=/path/to/python3.12 test` picks an interpreter.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PACKAGES := $(VENV)/.packages
BUILT := $(VENV)/.built-$(shell bash deploy/built_of.sh)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
WORKERS ?= 2
ROUNDS ?= 50
SEEDS ?= 200
DISK_SEEDS ?= 10000
EXAMPLES_FACTOR ?= 20
DRAWN = tests/property $$(grep -rl --include=test_*.py "^from support.examples import" tests/unit)
BY_FILE := --dist loadfile --no-loadscope-reorder  # in the order of tests/support/runs/slowest_files.py

# Links that an editable install makes; `git clean` takes them, so their absence asks for set-up.
ifeq ($(wildcard .dev/aerobee/remoting/py.typed),)
.PHONY: $(BUILT)
endif

.PHONY: help setup demo test quick lint types bench bench-clients bench-peer bench-cold bench-behind bench-overload bench-growth bench-handover bench-spark docs interop seeds soak release-check wheels lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(READY) ## make .venv with the locked versions of everything

$(READY): $(PACKAGES) $(BUILT)
	@touch $@

$(PACKAGES): requirements.lock requirements-build.lock
	@bash deploy/make_venv.sh $(VENV) $(PYTHON)
	@echo "installing the locked packages into $(VENV)"
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --require-hashes --no-build-isolation -r requirements.lock
	@touch $@

# What was compiled is compiled anew when its text, or how it is built, has changed, or it is gone.
$(BUILT): | $(PACKAGES)
	@$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c "from aerobee.broker.compiled.choice import description; \
		print('sends and pulls are served by', description(wanted=True))"
	@rm -f $(VENV)/.built-*
	@touch $(VENV)/.built-$$(bash deploy/built_of.sh)

demo: $(READY) ## 100,000 messages live, then counted by Spark
	@$(BIN)/aerobee demo $(ARGS)

test: WORKERS = 6  # tests wait for processes, disks and timers longer than they compute
test quick demo: export PYTHONDONTWRITEBYTECODE =  # each worker and each child would compile all anew
bench bench-clients bench-peer bench-overload bench-growth bench-handover bench-cold: export PYTHONDONTWRITEBYTECODE =  # as installed
test: $(READY) ## every test that needs no other project's servers or clients
	@PYTHONPATH=tests $(BIN)/python -m support.lake.spark_java
	$(BIN)/python -m pytest -n $(WORKERS) $(BY_FILE) --ignore tests/interop -m "not interop and not soak" $(ARGS)

quick: $(READY) ## what a change needs, in under a minute; prints what it ran
	@PYTHONPATH=tests $(BIN)/python -m support.runs.quick

lint: $(READY) ## formatting, rules, import direction
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache

types: $(READY) ## mypy, strict
	$(BIN)/mypy

bench: $(READY) ## our own speed
	PYTHONPATH=tests $(BIN)/python -m benchmarks $(ARGS)

bench-clients: $(READY) ## our client beside Kafka's, NATS's, Redis's and RocketMQ's, each with its server
	PYTHONPATH=tests $(BIN)/python -m benchmarks.clients $(ARGS)

bench-peer: $(READY) ## our speed beside RocketMQ's, Kafka's, Redis's and NATS's
	PYTHONPATH=tests $(BIN)/python -m benchmarks --peers $(ARGS)

bench-cold: $(READY) ## a producer beside groups that catch up from the disk, ours beside RocketMQ
	PYTHONPATH=tests $(BIN)/python -m benchmarks.cold_backlog $(ARGS)

bench-behind: $(READY) ## what a group that reads 1 GiB behind notices of logCacheBytes, and the producer
	PYTHONPATH=tests $(BIN)/python -m benchmarks.late_readers $(ARGS)

bench-overload: $(READY) ## what is served of twice the load that a broker can carry, and how late
	PYTHONPATH=tests $(BIN)/python -m benchmarks.overload $(ARGS)

bench-growth: $(READY) ## what cost grows with: topics, held pulls, members, groups, log, batches, bodies
	PYTHONPATH=tests $(BIN)/python -m benchmarks.growth $(ARGS)

bench-handover: $(READY) ## what is delivered twice when groups grow and shrink, ours beside RocketMQ
	PYTHONPATH=tests $(BIN)/python -m benchmarks.handovers.handover $(ARGS)

bench-spark: $(READY) ## the Spark pipeline: CPU of JVM and workers, with the bars
	PYTHONPATH=tests $(BIN)/python -m benchmarks.pipeline.spark_speed $(ARGS)

docs: $(READY) ## the site of documents, into build/docs/site
	@$(BIN)/python -m deploy.documents $(ARGS)

interop: $(READY) ## real RocketMQ clients and servers against ours, and a cluster of Spark's
	$(BIN)/python -m pytest -n $(WORKERS) $(BY_FILE) -m interop tests/interop tests/spark $(ARGS)

seeds: $(READY) ## simulated clusters, disks and examples of properties, more of them than in `make test`
	SIMULATION_SEEDS=40 $(BIN)/python -m pytest -n $(WORKERS) \
		tests/simulation/test_seeds.py tests/simulation/test_mutations.py tests/simulation/test_pauses.py
	EXAMPLES_FACTOR=1 $(BIN)/python -m pytest -n $(WORKERS) $(BY_FILE) $(DRAWN)
	PYTHONPATH=tests $(BIN)/python -m simulation.disk -j $(WORKERS) 0-599

soak: WORKERS = 4  # kills wait for processes and disks as long as they compute
soak: $(READY) ## the long runs: ROUNDS kills, EXAMPLES_FACTOR times the examples, SEEDS simulated clusters, DISK_SEEDS disks
	KILL_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest --timeout 7200 -n $(WORKERS) $(BY_FILE) \
		tests/crash tests/spark/test_kill_sink.py $(ARGS)
	EXAMPLES_FACTOR=$(EXAMPLES_FACTOR) $(BIN)/python -m pytest --timeout 7200 -n $(WORKERS) $(BY_FILE) \
		$(DRAWN) $(ARGS)
	SIMULATION_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n $(WORKERS) tests/simulation $(ARGS)
	PYTHONPATH=tests $(BIN)/python -m simulation.disk -j $(WORKERS) 0-$$(($(DISK_SEEDS) - 1))

release-check: $(READY) ## what a release still lacks: version, changes, wheel, licences, vulnerabilities
	@$(BIN)/python deploy/release_check.py

wheels: $(READY) ## what a release publishes, into dist/: manylinux wheels (PYTHONS="..."), source
	@$(BIN)/python deploy/build_wheels.py $(PYTHONS)

lock: ## choose newer versions and write them down
	@bash deploy/make_venv.sh build/lock $(PYTHON)
	@build/lock/bin/python -m pip --disable-pip-version-check --quiet install uv
	@build/lock/bin/uv pip compile --quiet --upgrade --universal --generate-hashes \
		--python-version 3.11 --custom-compile-command "make lock" \
		--no-emit-package aerobee --no-emit-package aerobee-server \
		--extra all --group dev pyproject.toml -o requirements.lock
	@build/lock/bin/uv pip compile --quiet --upgrade --universal --generate-hashes \
		--python-version 3.11 --custom-compile-command "make lock" \
		--constraint requirements.lock --group build -o requirements-build.lock
	@! grep -n '://' requirements.lock requirements-build.lock

clean: ## forget the set-up and everything built
	rm -rf $(VENV) .dev build dist .hypothesis .mypy_cache .ruff_cache

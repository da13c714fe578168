# `make up` and `make test` do all their own set-up: nothing but Python 3.11 is asked of the machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q

.DEFAULT_GOAL := help
.PHONY: help up test chromium lint format requirements conformance bench-kube soak fields stubs reference manifests lock clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

up: $(VENV)/.runtime ## start the embedded cluster; options through ARGS, e.g. make up ARGS="--nodes 6"
	@exec $(BIN)/mooring up --data-dir .mooring --kubeconfig .mooring/kubeconfig $(ARGS)

test: $(VENV)/.dev lint chromium ## everything but the real Kubernetes (make conformance)
	$(BIN)/pytest --ignore=tests/conformance --numprocesses auto --maxprocesses 4 --dist loadfile

chromium: ## the browser the page is tried in: installed where that can be done, else its tests are skipped
	@for name in $$MOORING_CHROMIUM chromium chromium-browser google-chrome; do \
	    command -v $$name > /dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing Chromium (once)"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get -qq update && apt-get -qq install --no-install-recommends chromium fonts-dejavu-core > /dev/null && exit 0; \
	fi; \
	echo "no Chromium: the tests in a browser will be skipped (on Debian, as root: apt-get install chromium)"

lint: $(VENV)/.dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## rewrite the sources in the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

requirements: $(VENV)/.dev ## rows of the requirement table: proved, missing, below their level
	$(BIN)/pytest --requirements

conformance: $(VENV)/.dev ## the same against the real Kubernetes, built at first use (needs Go)
	$(BIN)/python conformance/build.py
	$(BIN)/pytest tests/conformance tests/store tests/e2e/test_etcd.py

bench-kube: $(VENV)/.dev ## our components beside Kubernetes' own on one API server, ten minutes; ARGS="--quick" for one
	$(BIN)/python -m bench.kube $(ARGS)

soak: $(VENV)/.dev ## the long versions of the tests that look for rare faults
	MOORING_SOAK_SECONDS=60 MOORING_SIM_SEEDS=500 MOORING_ACCESS_REQUESTS=20000 $(BIN)/pytest tests/cluster tests/model \
	    tests/sim tests/store tests/server/authorization tests/conformance/test_access_differential.py

fields: $(VENV)/.dev ## generate the field table anew from the published Kubernetes modules (needs Go)
	$(BIN)/python -m tools.generate_fields

stubs: $(VENV)/.dev ## generate the messages of CSI and etcd anew from our own .proto files
	$(BIN)/python -m tools.generate_stubs

reference: $(VENV)/.dev ## write the reference pages anew from what the code says of itself
	$(BIN)/python -m tools.generate_reference
	$(BIN)/python -m tools.generate_troubleshooting

manifests: $(VENV)/.dev ## write the rights in deploy/ anew from what each component may do
	$(BIN)/python -m tools.generate_deploy

lock: $(VENV)/.dev ## pin the dependencies anew
	$(PIP) install uv
	$(BIN)/uv pip compile -q pyproject.toml --extra install --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate --python-version 3.11 --upgrade -o requirements.lock
	$(BIN)/uv pip compile -q pyproject.toml --all-extras --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate --python-version 3.11 -c requirements.lock --upgrade -o requirements-dev.lock

clean: ## forget the environment, the caches and the embedded cluster's data
	rm -rf $(VENV) .mooring .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Mooring needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..."; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what Mooring runs on"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "installing the development tools"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

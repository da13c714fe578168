# `make up` and `make test` set up everything they need; the only requirement is Python 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check -q

.DEFAULT_GOAL := help
.PHONY: help up demo quick test slow chromium buildah lint format requirements conformance compatibility bench-kube bench-scale soak fields stubs reference manifests site release lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 16

up: $(VENV)/.runtime ## start the embedded cluster; options through ARGS, e.g. make up ARGS="--nodes 6"
	@exec $(BIN)/mooring up --data-dir .mooring --kubeconfig .mooring/kubeconfig $(ARGS)

demo: $(VENV)/.runtime ## show a stuck pod, its explanation and a rollback, half a minute
	@exec $(BIN)/mooring demo $(ARGS)

# More workers than cores: many tests wait for other processes. tests/conftest.py has the order of files.
PARALLEL := --numprocesses 3 --dist loadfile --no-loadscope-reorder

# Folders of the pure core; of these, files without await, processes and random examples.
QUICK = $$(grep -rLE '\bawait\b|\basync def\b|subprocess|hypothesis' --include='test_*.py' tests/api tests/volumes tests/*/plugins)

quick: lint ## lint and the tests of the pure core, a minute; no I/O, processes or random examples
	$(BIN)/pytest --numprocesses 2 --dist loadfile $(QUICK)

test: $(VENV)/.dev lint chromium ## all tests but the slow ones (make slow) and those against real Kubernetes (make conformance)
	$(BIN)/pytest --ignore=tests/conformance -m "not slow" $(PARALLEL)

slow: $(VENV)/.dev ## tests that start many processes, or crash a component at every write
	$(BIN)/pytest --ignore=tests/conformance -m slow $(PARALLEL)

chromium: ## install the browser for the dashboard's tests, if possible; otherwise they are skipped
	@for name in $$MOORING_CHROMIUM chromium chromium-browser google-chrome; do \
	    command -v $$name > /dev/null && exit 0; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing Chromium (once)"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get -qq update && apt-get -qq install --no-install-recommends chromium fonts-dejavu-core > /dev/null && exit 0; \
	fi; \
	echo "no Chromium: the tests in a browser will be skipped (on Debian, as root: apt-get install chromium)"

buildah: ## install the builder of the container image, if possible; otherwise its test is skipped
	@command -v buildah > /dev/null && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "installing buildah (once)"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get -qq update && apt-get -qq install --no-install-recommends buildah > /dev/null && exit 0; \
	fi; \
	echo "no buildah: the container image will not be built (on Debian, as root: apt-get install buildah)"

lint: $(VENV)/.dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

requirements: $(VENV)/.dev ## run all tests and report the requirement table; fails on a clause without a passing test
	$(BIN)/pytest --requirements $(PARALLEL)

conformance: export MOORING_KUBE = $(KUBE)
conformance: $(VENV)/.dev buildah ## tests against real Kubernetes components, built at first use (needs Go); KUBE=1.36 for an older release
	$(BIN)/python conformance/build.py
	$(BIN)/pytest --numprocesses 2 --dist loadfile $(if $(KUBE),-m version_matrix) tests/conformance $(if $(KUBE),,tests/store tests/e2e/server/test_etcd.py)

compatibility: $(VENV)/.dev ## run the version matrix with every release of Kubernetes, an hour, and write the page of results
	for release in $$(ls conformance/kubernetes); do \
	    MOORING_KUBE=$$release $(BIN)/python conformance/build.py && \
	    MOORING_KUBE=$$release MOORING_MATRIX=docs/reference/compatibility.json \
	        $(BIN)/pytest -m version_matrix --numprocesses 2 --dist loadfile tests/conformance || failed=1; \
	done; $(BIN)/python -m tools.generate_reference; exit $${failed:-0}

bench-kube: $(VENV)/.dev ## benchmark against Kubernetes' components on one API server, ten minutes; ARGS="--quick" for one
	$(BIN)/python -m bench.kube $(ARGS)

bench-scale: $(VENV)/.dev ## the whole stack on a real API server, 5,000 nodes and killed leaders; ARGS="--nodes 500 --volumes 1000 --pods 300"
	$(BIN)/python -m bench.whole_stack $(ARGS)

soak: $(VENV)/.dev ## the long versions of the tests for rare faults
	MOORING_SOAK_SECONDS=60 MOORING_SIM_SEEDS=500 MOORING_ACCESS_REQUESTS=20000 $(BIN)/pytest tests/cluster tests/model \
	    tests/coordinator/test_group_crashes.py tests/simulation tests/store tests/server/auth tests/conformance/api/test_access_differential.py

fields: $(VENV)/.dev ## regenerate the field table from the published Kubernetes modules (needs Go)
	$(BIN)/python -m tools.generate_fields

stubs: $(VENV)/.dev ## regenerate the messages of CSI and etcd from our own .proto files
	$(BIN)/python -m tools.generate_stubs

reference: $(VENV)/.dev ## regenerate the reference pages from the code
	$(BIN)/python -m tools.generate_reference
	$(BIN)/python -m tools.generate_troubleshooting

manifests: $(VENV)/.dev ## regenerate the roles and the dashboard in deploy/
	$(BIN)/python -m tools.generate_deploy
	$(BIN)/python -m tools.generate_dashboard

site: $(VENV)/.dev ## build the documentation site into site/, with warnings as errors
	$(BIN)/mkdocs build --strict

release: $(VENV)/.dev ## build the artifacts of a release into dist/: wheel, source, manifests, chart, image context, SBOM, checksums
	$(BIN)/python -m tools.release $(ARGS)

lock: $(VENV)/.dev ## update and pin the dependencies
	$(PIP) install uv
	$(BIN)/uv pip compile -q pyproject.toml --extra install --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate --no-strip-extras --python-version 3.11 --upgrade -o requirements.lock
	$(BIN)/uv pip compile -q pyproject.toml --all-extras --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate --no-strip-extras --python-version 3.11 -c requirements.lock --upgrade -o requirements-dev.lock
	$(BIN)/uv pip compile -q conformance/installers/requirements.in --generate-hashes --no-header \
	    --no-emit-index-url --no-annotate --no-strip-extras --python-version 3.11 --upgrade -o conformance/installers/requirements.lock

clean: ## delete the environment, the caches and the embedded cluster's data
	rm -rf $(VENV) .mooring dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "Mooring needs Python 3.11 or newer; name one with: make PYTHON=python3.11 ..."; exit 1; }
	@echo "setting up $(VENV) (once)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing the runtime dependencies"
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	@echo "installing the development tools"
	@$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@

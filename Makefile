# The project's commands. `make demo` and `make test` need nothing first: they install what is missing and say so.
PYTHON ?= python3
VENV := $(shell $(PYTHON) tests/bootstrap.py --path)
PY := $(VENV)/bin/python
export PYTHONPATH := $(CURDIR)/operator:$(CURDIR)/sandbox-images/toolserver:$(CURDIR)
PYTEST := $(PY) -m pytest

.DEFAULT_GOAL := help
.PHONY: help venv cluster cluster-down images demo test test-long check lint types crds bench

help: ## What there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

venv: ## The Python environment, in the user's cache
	@$(PYTHON) tests/bootstrap.py > /dev/null

cluster: venv ## A real Kubernetes cluster (kind where Docker runs, else built and started here)
	$(PY) -m tests.cluster up

cluster-down: venv ## Take it down, leaving nothing behind
	$(PY) -m tests.cluster down

images: cluster ## Build the images and load them into the cluster
	$(PY) sandbox-images/build.py --load

demo: images ## An agent fixes a failing test, on the cluster, from `kubectl apply` to the verified diff
	$(PY) -m tests.e2e.demo

# The cluster's own clean-up is tried first: it wants the addresses for itself.
test: venv check ## Every test
	$(PYTEST) -m leftovers
	$(PYTEST) -m "not long and not leftovers" $(ARGS)

test-long: venv check ## Every test, with the long profiles
	$(PYTEST) -m leftovers
	$(PYTEST) -m "not leftovers" $(ARGS)

check: venv lint types ## Lint, types, import contracts, generated files

lint: venv
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/lint-imports

types: venv
	$(VENV)/bin/mypy
	$(VENV)/bin/pyright --pythonpath $(PY)

crds: venv ## Generate CRDs, admission policies, the chart of both, and the reference pages
	$(PY) -m agentrun.api.crdgen crds
	$(PY) -m agentrun.api.crdgen --chart charts/agentrun-crds/templates
	$(PY) -m agentrun.api.reference docs/reference/api.md
	$(PY) -m agentrun.cli.reference docs/reference/cli.md

bench: venv ## Figures as ratios; ID=P4 for one
	$(PY) -m tests.bench $(ID)

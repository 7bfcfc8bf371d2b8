# Everything a stranger runs. A fresh machine needs python3 (>= 3.11), make, gcc for `make check` and the like, and Go for
# `make e2e` and `make test`. Tests on real kubelets need root.
# `make demo` and `make test` set up what they need by themselves.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
PYTHON ?= python3
BIN := .venv/bin
# Every test worker and every program that tests start would compile the whole project anew.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest
# What tests of real parts wait for is mostly not the processor: two modules of them at a time take half as long.
TWO_AT_A_TIME := -n 2 --dist loadfile

# The share of its examples that each property gets in `make check`; `make test` takes all.
CHECK_EXAMPLES_PERCENT ?= 7
CHECK_SIM_SEEDS ?= 12
# The samples that `make test` takes. `make sim` and `make fuzz` run the large numbers.
TEST_SIM_SEEDS ?= 300
TEST_FUZZ_CASES ?= 6000
SIM_SEEDS ?= 10000
FUZZ_CASES ?= 1000000
SEED ?=
CASE ?=

# Minors of Kubernetes beside the newest; the modules of each lie in tests/realkube/versions.
KUBERNETES_VERSIONS ?= v1.34 v1.36
VERSIONS_TESTS := acceptance observed_nodes stock_nodes kubelet_oracle binding_facts requeue_facts cluster_api \
	ledger_protocol crds policies webhook sent gangs gates_of_others modes_together

.PHONY: demo test check static e2e e2e-versions fuzz bench sim venv realkube libraries chromium nvidia-plugin

demo: venv  ## the real services on a simulated cluster, in seconds, with no Kubernetes
	@$(BIN)/atoll demo

check: static libraries  ## under a minute: format, lint, types, layers, every test that needs no cluster, no browser, no given data and no mutants
	@ATOLL_EXAMPLES_PERCENT=$(CHECK_EXAMPLES_PERCENT) ATOLL_SIM_SEEDS=$(CHECK_SIM_SEEDS) \
		$(PYTEST) $(TWO_AT_A_TIME) -m "not e2e and not browser and not limits" \
		--ignore=tests/corpus --ignore=tests/vectors --ignore=tests/fuzz --ignore=tests/e2e

# One pytest run over everything, so that its closing line counts everything.
test: static libraries realkube chromium  ## check + vectors + corpus + browser + large files + samples of sim and fuzz + e2e; within 60 minutes on 2 cores
	@ATOLL_SIM_SEEDS=$(TEST_SIM_SEEDS) ATOLL_FUZZ_CASES=$(TEST_FUZZ_CASES) $(PYTEST) $(TWO_AT_A_TIME)

static: venv
	@$(BIN)/ruff format --check --quiet . && echo "format: clean"
	@$(BIN)/ruff check --quiet . && echo "lint: clean"
	@$(BIN)/mypy && $(BIN)/mypy tests/conftest.py tests/realkube tests/tidy
	@$(BIN)/lint-imports --no-logo --no-cache

e2e: venv libraries realkube  ## the tests on a real etcd, kube-apiserver, kube-controller-manager and kube-scheduler
	@$(PYTEST) $(TWO_AT_A_TIME) -m e2e

e2e-versions: venv libraries  ## the acceptance cases, and what Atoll takes for granted, on KUBERNETES_VERSIONS; 5 minutes each, and 7 to build
	@for minor in $(KUBERNETES_VERSIONS); do \
		export ATOLL_KUBERNETES=$$minor; \
		bash tests/realkube/build.sh; \
		echo "Kubernetes $$minor:"; \
		$(PYTEST) $(TWO_AT_A_TIME) $(VERSIONS_TESTS:%=tests/e2e/test_%.py) -k "not over_hundreds_of_pods"; \
	done

fuzz: venv  ## FUZZ_CASES mutated valid inputs for each parser, on all cores; or the one given as CASE=lspci:4711
	@ATOLL_FUZZ_CASES=$(FUZZ_CASES) ATOLL_FUZZ_CASE=$(CASE) $(PYTEST) $(if $(CASE),-s,-n auto) tests/fuzz

sim: venv  ## seeded simulations: SIM_SEEDS of them, or the one given as SEED=
	@ATOLL_SIM_SEEDS=$(SIM_SEEDS) ATOLL_SIM_SEED=$(SEED) $(PYTEST) tests/sim

bench: venv libraries realkube  ## the table of docs/benchmarks.md, measured here
	@$(BIN)/python -m bench

venv: .venv/.synced

.venv/.synced: uv.lock pyproject.toml .ci/venv
	@bash .ci/venv $(PYTHON)

chromium:  ## the browser in which the report's page is tested
	@bash .ci/chromium

libraries:  ## of tests: NVIDIA's, of machines that exist only on paper, and a clock that can be set
	@bash tests/library.sh nvml_stub nvml-stub/libnvidia-ml.so.1
	@bash tests/library.sh clock_shift clock-shift/libclockshift.so

nvidia-plugin:  ## NVIDIA's own device plugin, for ATOLL_NVIDIA_PLUGIN=.cache/nvidia-device-plugin make e2e
	@bash .ci/compiler
	@cd tests/realkube/nvidia && CGO_ENABLED=1 GOWORK=off GOTOOLCHAIN=local go build -mod=readonly -buildvcs=false \
		-trimpath -ldflags "-s -w -extldflags=-Wl,-z,lazy" -o "$(CURDIR)/.cache/nvidia-device-plugin" \
		github.com/NVIDIA/k8s-device-plugin/cmd/nvidia-device-plugin

realkube:
	@bash tests/realkube/build.sh

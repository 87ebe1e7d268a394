# The two commands of the README, and what they are made of. Everything goes into this folder:
# target/ (Cargo) and .venv/ (Python: the OpenVINO runtime, and clients for the tests).

PYTHON ?= python3
VENV := .venv
# Changes when the pinned packages do.
VENV_STAMP := $(VENV)/.stamp-$(shell cat tests/requirements*.txt fixtures/requirements.txt | cksum | cut -d' ' -f1)
# The emulator of Azure Blob Storage; changes when what is pinned does.
AZURITE := target/azurite
AZURITE_STAMP := $(AZURITE)/.stamp-$(shell cksum < tests/azurite/package-lock.json | cut -d' ' -f1)
# OpenCV, for a custom node of the tests; of the system, or Debian's packages.
OPENCV := target/opencv
OPENCV_STAMP := $(OPENCV)/.stamp-$(shell cksum < tests/opencv/install.py | cut -d' ' -f1)
# Shells, proxies, a store and a browser that tests drive: of the system, or Debian's packages.
TOOLS := target/tools
TOOLS_STAMP := $(TOOLS)/.stamp-$(shell cat tests/tools/*.py | cksum | cut -d' ' -f1)
TOOLS_NAMES := zsh fish nginx redis-server haproxy chromium valgrind h2load
# Ray, of which tests make a cluster on this machine.
FLEET := target/fleet-venv
FLEET_STAMP := $(FLEET)/.stamp-$(shell cksum < deploy/ray/requirements.txt | cut -d' ' -f1)
# What builds the wheel, and the program that it leaves there.
WHEEL := target/wheel-venv
WHEEL_PROGRAM := target/wheel/program/x86_64-unknown-linux-gnu/release/ovms
# What draws terminals.
SESSIONS := target/sessions-venv
# What starts the guard's programs in valgrind; of the version of its crate.
RUNNER := target/guard-runner
RUNNER_VERSION := $(shell sed -n 's/^gungraun = "=\(.*\)"$$/\1/p' Cargo.toml)
RUNNER_STAMP := $(RUNNER)/.stamp-$(RUNNER_VERSION)
OVMS := target/release/ovms

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: demo
demo: ## Build, get the runtime, serve the example and run an inference on it
	@./tests/demo.sh

.PHONY: build
build: ## Build the release binary
	cargo build --release --locked

.PHONY: test
test: ## Every check
# The network has one part of this to do and the processor the other.
	$(MAKE) -j3 lint test-tools $(RUNNER_STAMP)
# Tests wait more than they compute, and leave the guard its time, which counts instead of measuring.
	$(MAKE) -j3 CLIENTS_AFTER=test-rust test-rust guard test-clients

.PHONY: test-tools
test-tools: crates $(VENV_STAMP) $(AZURITE_STAMP) $(OPENCV_STAMP) $(TOOLS_STAMP) fleet-venv ## What tests need beyond a build

.PHONY: crates
crates:
# Tests ask Cargo what there is, without a network, and it wants to see the crates of all platforms; a
# build gets those of its own.
	cargo fetch --locked --quiet

.PHONY: lint
lint: ## Formatting, clippy, and cargo deny where it is installed
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
# Its module for Python, which `src/build.rs` builds.
	cargo clippy --locked --package pyovms --features extension --all-targets -- -D warnings
# Advisories, sources, and licences; the licences are among the tests as well.
	@if cargo deny --version > /dev/null 2>&1; then echo cargo deny check; cargo deny check; \
		else echo "SKIPPED: cargo deny; it is not installed"; fi

.PHONY: test-rust
test-rust: test-build ## Unit and integration tests
# Three for each core: they wait for servers half of the time, and some for minutes (docs/decisions/0044-the-time-of-the-tests.md).
	RUST_TEST_THREADS=$$(($$(nproc) * 3)) OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) cargo test --locked

.PHONY: test-clients
test-clients: test-clients-faults test-clients-slow test-clients-quick ## Clients that others wrote, and the fixtures

# Tests that wait for minutes: failures of stores and replicas, and programs that are installed first.
CHAOS := tests/clients/test_chaos.py
SLOW := $(patsubst %,tests/clients/test_%.py,fleet peers setup soak)
# The others in two parts that take about as long.
QUICK := $(filter-out $(CHAOS) $(SLOW),$(wildcard tests/clients/test_*.py))
EARLY := $(filter $(wildcard tests/clients/test_[a-o]*.py),$(QUICK))
PYTEST := OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) OVMS=$(CURDIR)/target/debug/ovms \
	$(VENV)/bin/python -m pytest -q -rs -p no:cacheprovider

# In `make test` they begin when those of Rust end.
test-clients-faults test-clients-slow test-clients-early test-clients-late: | $(CLIENTS_AFTER)

.PHONY: test-clients-quick test-clients-early test-clients-late
test-clients-quick: test-clients-early test-clients-late

test-clients-early: test-build
	$(PYTEST) $(EARLY)

test-clients-late: test-build
	$(PYTEST) $(filter-out $(EARLY),$(QUICK)) fixtures

.PHONY: test-clients-faults
test-clients-faults: test-build
	$(PYTEST) $(CHAOS)

.PHONY: test-clients-slow
test-clients-slow: test-build
	$(PYTEST) $(SLOW)

.PHONY: test-build
test-build: test-tools
# The program as the Rust tests have it: by itself it would be built again, with other features of what it uses.
	cargo test --locked --no-run

.PHONY: soak
soak: test-tools ## Everything at once for an hour, with failures, and memory flat; tests/chaos beside it (SOAK_SECONDS)
	cargo build --release --locked
	OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) OVMS=$(CURDIR)/$(OVMS) \
		$(VENV)/bin/python tests/soak/soak.py --seconds $(or $(SOAK_SECONDS),3600) \
		--chaos $$(($(or $(SOAK_SECONDS),3600) / 6)) --json target/soak.json

.PHONY: fuzz
fuzz: fuzz-build ## Fuzz each parser of foreign bytes (FUZZ_SECONDS or FUZZ_RUNS for each, FUZZ_TARGET for one)
	$(PYTHON) fuzz/run.py --program target/debug/ovms-fuzz --seconds $(or $(FUZZ_SECONDS),$(if $(FUZZ_RUNS),3600,60)) \
		--runs $(or $(FUZZ_RUNS),-1) $(FUZZ_TARGET)

.PHONY: fuzz-build
fuzz-build:
# What the library depends on is that of the tests; the library itself has counters, and is quicker than theirs.
	RUSTC_WORKSPACE_WRAPPER=$(CURDIR)/fuzz/rustc.sh cargo build --locked --package ovms-fuzz --features libfuzzer \
		--config 'profile.dev.package.ovms-engine.opt-level=1'

.PHONY: fleet
fleet: build $(VENV_STAMP) $(TOOLS_STAMP) fleet-venv ## Replicas on a Ray cluster of this machine, with limits on times
	FLEET_TIMES=1 OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) OVMS=$(CURDIR)/$(OVMS) \
		$(VENV)/bin/python -m pytest -q -s -p no:cacheprovider tests/clients/test_fleet.py

.PHONY: guard
guard: guard-build ## Fail if a request takes more instructions or allocations than before
	nice -n 19 $(PYTHON) benches/guard/compare.py

.PHONY: guard-build
guard-build: test-build $(RUNNER_STAMP)
# The dependencies are built by then. A build leaves the tests their time, and has all of it once they wait or are over.
	nice -n 19 $(PYTHON) benches/guard/compare.py --build

.PHONY: guard-update
guard-update: test-build $(RUNNER_STAMP) ## Store what requests take now; say why in the commit
	$(PYTHON) benches/guard/compare.py --update

.PHONY: bench
bench: $(VENV_STAMP) ## Measure against raw OpenVINO and a bare echo service (BENCH=echo,raw: parts; BENCH=list)
	test -d target/bench-models/perceptron_large || $(VENV)/bin/python fixtures/make_bench.py target/bench-models
	OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) cargo bench --locked --bench serving -- $(BENCH) $(BENCH_FLAGS)

.PHONY: bench-against
bench-against: ## Measure the program of the tree and another one in alternating pairs (BASELINE=PROGRAM)
	@test -x "$(BASELINE)" || { echo "name the other program: make bench-against BASELINE=PATH" >&2; exit 64; }
	BENCH_BASELINE=$(abspath $(BASELINE)) $(MAKE) bench BENCH=against

.PHONY: bench-page
bench-page: ## Measure everything, or some parts again (BENCH=echo,raw), and write docs/benchmarks.md
	$(MAKE) bench BENCH_FLAGS="--write $(CURDIR)/docs/benchmarks.md"

.PHONY: bench-curves
bench-curves: ## Measure how costs grow and write the curves of docs/performance.md
	$(MAKE) bench BENCH=curves BENCH_FLAGS="--write $(CURDIR)/docs/performance.md"

.PHONY: bench-peers
bench-peers: build $(VENV_STAMP) ## Measure it and other servers with the same loads, into docs/peers.md (PEERS=nginx,mlserver: some)
	test -d target/bench-models/perceptron_large || $(VENV)/bin/python fixtures/make_bench.py target/bench-models
	$(VENV)/bin/python benches/peers/install.py target/peers $(PEERS)
	OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) PYTHONPATH=benches $(VENV)/bin/python -B -m peers --program $(OVMS) \
		--json target/peers/figures.json $(if $(PEERS),--peers $(PEERS),--write docs/peers.md) $(PEERS_FLAGS)

.PHONY: bench-client
bench-client: build $(VENV_STAMP) ## Compare `ovms bench` with perf_analyzer, into docs/bench.md
	test -d target/bench-models/perceptron_large || $(VENV)/bin/python fixtures/make_bench.py target/bench-models
	$(VENV)/bin/python benches/peers/install.py target/peers perf_analyzer
	OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) PYTHONPATH=benches $(VENV)/bin/python -B -m peers.agreement --program $(OVMS) \
		--write docs/bench.md

.PHONY: wheel
wheel: ## Build the Python wheel with the program, into dist/
	test -x $(WHEEL)/bin/maturin || $(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet --disable-pip-version-check -r deploy/wheel/requirements.txt
	$(WHEEL)/bin/python deploy/wheel/build.py dist

.PHONY: deb
deb: wheel ## Build a Debian package of the program in the wheel, into dist/
	$(WHEEL)/bin/python deploy/debian/build.py $(WHEEL_PROGRAM) dist

.PHONY: test-wheel
test-wheel: deb ## Install the wheel with each Python at hand, and wheel and package in bare Debians (PYTHONS)
	WHEEL=$$(echo $(CURDIR)/dist/ovms-*.whl) DEB=$$(echo $(CURDIR)/dist/ovms_*.deb) $(WHEEL)/bin/python -m pytest -q -rs -p no:cacheprovider tests/wheel

.PHONY: sessions
sessions: build $(VENV_STAMP) ## Record the terminal sessions of the README again
	test -x $(SESSIONS)/bin/python || $(PYTHON) -m venv $(SESSIONS)
	$(SESSIONS)/bin/python -m pip install --quiet --disable-pip-version-check -r docs/sessions/requirements.txt
	OPENVINO_INSTALL_DIR=$(CURDIR)/$(VENV) $(SESSIONS)/bin/python docs/sessions/record.py $(OVMS)

.PHONY: fixtures
fixtures: $(VENV_STAMP) ## Build the models of fixtures/models again
	$(VENV)/bin/python fixtures/build.py fixtures/models

$(VENV_STAMP): $(wildcard tests/requirements*.txt) fixtures/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
		--target $(VENV)/alone -r tests/requirements-alone.txt
	@rm -f $(VENV)/.stamp-*
	@touch $@

$(AZURITE_STAMP): tests/azurite/package-lock.json $(VENV_STAMP)
	$(VENV)/bin/python tests/azurite/install.py $(AZURITE)
	@rm -f $(AZURITE)/.stamp-*
	@touch $@

$(TOOLS_STAMP): $(wildcard tests/tools/*.py)
	$(PYTHON) tests/tools/install.py $(TOOLS) $(TOOLS_NAMES)
	@rm -f $(TOOLS)/.stamp-*
	@touch $@

.PHONY: fleet-venv
fleet-venv:
# Ray comes later for new versions of Python than they do.
	@test -e $(FLEET_STAMP) || $(MAKE) --no-print-directory $(FLEET_STAMP) \
		|| echo "SKIPPED: tests with Ray, which cannot be installed for this Python"

$(FLEET_STAMP): deploy/ray/requirements.txt
	test -x $(FLEET)/bin/python || $(PYTHON) -m venv $(FLEET)
	$(FLEET)/bin/python -m pip install --quiet --disable-pip-version-check -r deploy/ray/requirements.txt
	@rm -f $(FLEET)/.stamp-*
	@touch $@

$(RUNNER_STAMP):
	cargo install --locked --quiet --debug gungraun-runner --version $(RUNNER_VERSION) --root $(RUNNER) --target-dir $(RUNNER)/build
	@rm -rf $(RUNNER)/build $(RUNNER)/.stamp-*
	@touch $@

$(OPENCV_STAMP): tests/opencv/install.py
	$(PYTHON) tests/opencv/install.py $(OPENCV)
	@touch $@

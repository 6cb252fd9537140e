# Highwater's commands. Everything uses one cargo profile (release), so that RocksDB's C++ is
# compiled once for run, test and bench. CARGO_TARGET_DIR is honoured.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

TARGET_DIR := $(abspath $(or $(CARGO_TARGET_DIR),target))
# The simulation is built with other flags and without RocksDB: a target directory of its own.
SIM_TARGET_DIR := $(TARGET_DIR)/simulation
CARGO ?= cargo
# One set of features for every command: a narrower selection would build the dependencies anew.
WORKSPACE := --release --locked --workspace
BINARY := $(TARGET_DIR)/release/highwater

.DEFAULT_GOAL := help
.PHONY: help setup build run cluster test check fix it crash chaos sim sim-cluster sim-broker \
	sim-groups fuzz compat compat-reference suites docker-check \
	bench bench-smoke bench-vs-kafka bench-cluster-vs-kafka differential doc deny ci clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

setup: ## Install what the build needs (through apt-get, when missing).
	@.ci/build-deps

build: setup ## Build everything.
	$(CARGO) build --release --locked

run: build ## Build, and start the broker on port 9092 with its data in ./data. ARGS= adds arguments.
	exec $(BINARY) serve --override log.dirs=./data $(ARGS)

cluster: build ## Three local brokers on ports from PORT=19092, data in ./data/cluster-N; Ctrl-C ends all.
	HIGHWATER_BIN=$(BINARY) exec compat-tests/cluster.sh $(ARGS)

test: setup ## Everything that CI runs.
	@$(MAKE) ci

check: setup ## The gate before a commit: format, lints, unit and tidy tests, documentation.
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(WORKSPACE) --all-targets -- -D warnings
	$(CARGO) test $(WORKSPACE) --lib --bins --test tidy --test docs
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(WORKSPACE) --no-deps

fix: setup ## Format, apply clippy's suggestions, rewrite expectations and generated documents.
	$(CARGO) fmt --all
	$(CARGO) clippy $(WORKSPACE) --all-targets --fix --allow-dirty --allow-staged
	UPDATE_EXPECT=1 $(CARGO) test $(WORKSPACE) --lib --bins --test tidy --test docs

it: setup ## Integration tests: the real binary, through the wire. T= filters.
	$(CARGO) test $(WORKSPACE) --test it -- $(T)

crash: setup ## kill -9 at random points: LOOPS=100, then restart times at BIG_GB=10.
	LOOPS=$(or $(LOOPS),100) BIG_GB=$(or $(BIG_GB),10) \
		$(CARGO) test $(WORKSPACE) --test crash -- --nocapture --test-threads=1

chaos: setup ## Three brokers lose processes, links and disks: MINUTES=30, SEED= replays, ARGS=--no-namespaces.
	$(CARGO) build $(WORKSPACE) --bins
	$(TARGET_DIR)/release/chaos --minutes $(or $(MINUTES),30) $(if $(SEED),--seed $(SEED)) $(ARGS)

sim: sim-cluster sim-broker sim-groups ## Seeded simulation, of the cluster, of brokers, of groups: ITERATIONS=200 seeds, or SEED= replays one.

sim-cluster:
	RUSTFLAGS="--cfg tokio_unstable" CARGO_TARGET_DIR=$(SIM_TARGET_DIR) \
		$(if $(SEED),SEED=$(SEED),ITERATIONS=$(or $(ITERATIONS),200)) \
		$(CARGO) test --release --locked -p cluster --no-default-features --features sim \
		--test sim

sim-broker:
	RUSTFLAGS="--cfg tokio_unstable" CARGO_TARGET_DIR=$(SIM_TARGET_DIR) \
		$(if $(SEED),SEED=$(SEED),ITERATIONS=$(or $(ITERATIONS),200)) \
		$(CARGO) test --release --locked -p highwater --no-default-features --features sim \
		--test sim

# The machine is pure: the library's own tests run it, built as everything else is.
sim-groups: setup
	$(if $(SEED),SEED=$(SEED),ITERATIONS=$(or $(ITERATIONS),200)) \
		$(CARGO) test $(WORKSPACE) --lib -- group::tests::simulation

fuzz: setup ## Fuzz targets on the stable toolchain, FUZZ_SECONDS=60 each. T= names one.
	CARGO_TARGET_DIR=$(TARGET_DIR) protocol/fuzz/run $(or $(FUZZ_SECONDS),60) $(T)

compat: build ## Real clients, as a table. CLIENT= names one, CASE= filters, SHORT=1, BROKER=kafka.
	BROKER=$(or $(BROKER),highwater) compat-tests/run.sh $(CLIENT)

compat-reference: ## The same cases against Apache Kafka itself.
	BROKER=kafka compat-tests/run.sh $(CLIENT)

suites: build ## Suites of others: SUITE=librdkafka or franz-go, T= filters, BROKER=kafka compares.
	BROKER=$(or $(BROKER),highwater) T=$(T) compat-tests/suites/run.sh $(SUITE)

docker-check: ## The image and docker-compose.yml, in an engine of their own (root); PREBUILT=binary compiles none.
	PREBUILT=$(PREBUILT) compat-tests/docker/check.sh

bench: setup ## Throughput, CPU, memory and start-up of the whole broker, as a table.
	$(CARGO) build $(WORKSPACE) --bins
	$(TARGET_DIR)/release/broker-bench $(ARGS)

bench-smoke: setup ## The same in a few seconds: does it run?
	$(CARGO) build $(WORKSPACE) --all-targets
	$(TARGET_DIR)/release/broker-bench --smoke

differential: setup ## The same requests to Apache Kafka and to us, compared field by field. ARGS="--only Fetch".
	compat-tests/setup.sh java
	$(CARGO) build $(WORKSPACE) --bins
	$(TARGET_DIR)/release/differential $(ARGS)

bench-vs-kafka: setup ## Race against Apache Kafka (25 minutes, quiet machine): docs/BENCHMARKS.md. ARGS=--quick.
	compat-tests/setup.sh java
	$(CARGO) build $(WORKSPACE) --bins
	$(TARGET_DIR)/release/bench-vs-kafka --results docs/benchmarks \
		--document docs/BENCHMARKS.md $(ARGS)

bench-cluster-vs-kafka: setup ## The same with three brokers each (20 minutes): replication, failover. ARGS=--quick.
	compat-tests/setup.sh java
	$(CARGO) build $(WORKSPACE) --bins
	$(TARGET_DIR)/release/bench-vs-kafka --three --results docs/benchmarks/three-brokers \
		--document docs/BENCHMARKS.md $(ARGS)

doc: setup ## API documentation of our crates.
	$(CARGO) doc $(WORKSPACE) --no-deps

deny: ## Licences, duplicates and sources of the dependencies.
	@command -v cargo-deny >/dev/null || { echo "first: cargo install --locked cargo-deny"; exit 1; }
	$(CARGO) deny --offline check bans licenses sources

ci: ## What .ci/run runs: check, tests, crash loops, simulation, short forms of what compares.
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(WORKSPACE) --all-targets -- -D warnings
	LOOPS=$(or $(LOOPS),10) $(CARGO) test $(WORKSPACE)
	@$(MAKE) sim-cluster
	@$(MAKE) sim-broker
	@$(MAKE) chaos MINUTES=$(or $(MINUTES),3) ARGS=$(if $(filter 0,$(shell id -u)),,--no-namespaces)
	SHORT=1 compat-tests/run.sh
	SHORT=1 compat-tests/suites/run.sh
	@$(MAKE) differential
	@$(MAKE) bench-smoke

clean: ## Remove what was built.
	$(CARGO) clean

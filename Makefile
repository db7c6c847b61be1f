# What people and machines call. Every target works on a fresh clone with empty caches and changes
# nothing on the machine but cargo's and Go's caches and $(TOOLS).
#
# Needed: Linux, Rust, Go, a C compiler, make, bash.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
# Where programs that the tests and checks need are built, outside the repository.
TOOLS ?= $(or $(PUNCTUAL_TOOLS),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/punctual/tools)
export PUNCTUAL_TOOLS := $(TOOLS)

# Every [[test]] of Cargo.toml but those in e2e/, which need the test bed.
SUITES := $(shell awk 'BEGIN { RS = "" } /\[\[test\]\]/ && !/"e2e\// { sub(/.*\[\[test\]\]\nname = "/, ""); sub(/".*/, ""); print }' Cargo.toml)
SUITE_FLAGS := $(addprefix --test ,$(SUITES))
STAGE := hack/stage

.PHONY: help demo demo-cluster drill-cluster test no-cluster check deny gen e2e tools guards histories bench

help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## build, then rehearse a restart of everything on a model of the cluster; writes demo.html
	@$(STAGE) build $(CARGO) build --locked --profile demo --quiet --bin punctual
	@target/demo/punctual drill --html demo.html

demo-cluster: ## a throw-away control plane, two replicas, one run, the leader killed midway
	@$(STAGE) tools e2e/tools/build
	@$(STAGE) build $(CARGO) test --locked --no-run --test demo
	@$(CARGO) test --locked --quiet --test demo -- show

drill-cluster: ## the same plane: a burst of reports outside the cluster, all replicas killed, what was found
	@$(STAGE) tools e2e/tools/build
	@$(STAGE) build $(CARGO) test --locked --no-run --test demo
	@$(CARGO) test --locked --quiet --test demo -- restart

test: ## everything: the test bed is built while what needs no cluster is tested, then the e2e suite
	@$(MAKE) -j2 tools no-cluster
	@env -u KUBECONFIG $(STAGE) e2e $(CARGO) test --locked --test e2e # never a person's own cluster

# Compilers of two languages side by side: each alone leaves processors idle for a third of the time, in
# downloads, linkers and the last crate.
no-cluster:
	@$(STAGE) build $(CARGO) test --locked --no-run
	@$(STAGE) unit $(CARGO) test --locked --lib
	@$(STAGE) suites $(CARGO) test --locked --no-fail-fast $(SUITE_FLAGS)

check: ## before every commit: format, lints, unit tests, repository rules and cases; no cluster
	@$(STAGE) format $(CARGO) fmt --check
	@$(STAGE) guards hack/guards --check
	@$(STAGE) clippy $(CARGO) clippy --locked --all-targets -- -D warnings
	@$(STAGE) unit $(CARGO) test --locked --lib
	@$(STAGE) suites $(CARGO) test --locked --no-fail-fast $(SUITE_FLAGS)

deny: ## licences, sources and duplicate versions of dependencies (builds cargo-deny once)
	@deny=$$(hack/cargo-deny) && $(STAGE) deny "$$deny" --locked check bans licenses sources

gen: ## write what is generated: crds/, the chart's copies, the chart rendered with default values
	@$(STAGE) gen hack/gen

e2e: ## only the suite on a real API server; FILTER=name runs one scenario
	@$(STAGE) tools e2e/tools/build
	@$(STAGE) e2e $(CARGO) test --locked --test e2e -- $(FILTER)

tools: ## build the programs of the test bed (kube-apiserver, etcd, kubectl, helm, kwok)
	@$(STAGE) tools e2e/tools/build

guards: ## take every guard away and see which test goes red; writes docs/reference/guards.md (half an hour)
	@$(STAGE) guards hack/guards

histories: ## 2000 random histories and all points of the stories; writes docs/reference/coverage.md
	@$(STAGE) build $(CARGO) build --locked --release --quiet --bin punctual
	@target/release/punctual drill --points
	@PUNCTUAL_REHEARSALS=200 $(CARGO) test --locked --profile demo --test scenarios -- the_record_of_a_rehearsal
	@hack/coverage target/release/punctual

bench: ## benchmarks
	@$(STAGE) bench $(CARGO) bench --locked

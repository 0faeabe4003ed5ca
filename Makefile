# The index of commands. `make test` is everything that has to pass; each other target is a part of it, or
# a way to run, measure or clean.

.NOTPARALLEL:
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

# One folder for all three workspaces: what they have in common is built once.
export CARGO_TARGET_DIR ?= $(CURDIR)/target

# What `make build` leaves to be installed.
DIST := $(CARGO_TARGET_DIR)/dist

# Whatever has a manifest of its own, next to the root. One that is not there yet is left out.
WORKSPACES := . $(patsubst %/Cargo.toml,%,$(wildcard fuzz/Cargo.toml bench/engines/Cargo.toml))

# That of conformance/consul has no code. Those of conformance/kubernetes are checked by `make cluster`: they are built with all of Kubernetes.
# That of conformance/http3 leaves its tests out where it is not told of a gateway, as `make http3` tells it.
GO_MODULES = $(shell find . -name go.mod -not -path './target/*' -not -path './conformance/kubernetes/*' -not -path './conformance/consul/*' -printf '%h\n' | sort)

# `go run` builds it once and keeps it; the version is named so that every machine finds the same.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

say = @printf '\n== %s\n' '$(1)'

# Where scripts/install-kubernetes-peers.sh puts etcd, kube-apiserver and the echo server.
export TITAN_KUBERNETES ?= $(CARGO_TARGET_DIR)/kubernetes

.PHONY: help build run test peers lint tidy unit dashboard dashboard-check fuzz-smoke fuzz go chaos-smoke conformance http3 consul cluster cluster-churn conformance-k8s soak overload fleet chaos bench validate audit docs fmt clean

help: ## prints this list
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/\1\t\2/p' Makefile | expand -t 17

# The symbols are found by the name in the program's debug link, in the folder of the program.
build: ## builds the gateway, optimised, and its symbols: target/dist/titan and titan.debug
	cargo build --release --package titan
	@mkdir -p $(DIST)
	objcopy --only-keep-debug --compress-debug-sections=zlib $(CARGO_TARGET_DIR)/release/titan $(DIST)/titan.debug
	objcopy --strip-all --add-gnu-debuglink=$(DIST)/titan.debug $(CARGO_TARGET_DIR)/release/titan $(DIST)/titan

run: ## runs the gateway with its embedded configuration
	cargo run --release

test: peers lint tidy unit http3 dashboard-check fuzz-smoke go chaos-smoke ## runs all tests and checks; stops at the first failure
	$(call say,all passed)

peers: ## installs what the tests need beyond Rust, Go and make (with apt, if anything is missing)
	$(call say,peers)
	@scripts/install-peers.sh

lint: ## checks formatting and clippy in every workspace
	$(call say,lint)
	@cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || \
	    { echo "adding rustfmt and clippy to the toolchain"; rustup component add rustfmt clippy; }
	@for folder in $(WORKSPACES); do \
	    echo "$$folder"; \
	    (cd "$$folder" && cargo fmt --all --check && \
	     cargo clippy --quiet --workspace --all-targets -- --deny warnings); \
	done

tidy: ## checks the project's own rules, and licences, sources and duplicate versions of dependencies
	$(call say,tidy)
	@cargo xtask tidy
	@cargo xtask dependencies

# The second run names the workspace, not the package: cargo would choose the features of a package's dependencies for
# it alone, and build these, the gateway and its tests again.
#
# Tests of the gateway wait for its deadlines most of their time: with a thread for each core a fifth of it is used.
unit: export RUST_TEST_THREADS ?= $(shell expr 2 \* $$(nproc))
unit: ## runs the unit, property, conformance and integration tests in Rust
	$(call say,tests)
	@cargo test --quiet --workspace
	$(call say,the gateway again: with TLS towards clients)
	@TITAN_TEST_TLS=1 cargo test --quiet --workspace --test gateway
	@if [ -e bench/engines/Cargo.toml ]; then cd bench/engines && cargo test --quiet; fi

# What is installed comes from the lock file alone, and runs nothing while it is installed.
NPM_CI := npm ci --ignore-scripts --no-audit --no-fund --loglevel error

dashboard: ## builds the dashboard's page again: dashboard/dist, which the gateway embeds
	cd dashboard && $(NPM_CI) && npm run --silent build

dashboard-check: export TITAN_PROGRAM ?= $(CARGO_TARGET_DIR)/debug/titan
dashboard-check: ## checks that the built page belongs to its sources, and tests it in chromium with the gateway under traffic
	$(call say,dashboard)
	@cargo build --quiet --workspace --bin titan
	@cd dashboard && $(NPM_CI) && node check.mjs

fuzz-smoke: ## runs each fuzz target over a bounded, repeatable corpus, on stable Rust
	$(call say,fuzz smoke)
	@if [ -e fuzz/Cargo.toml ]; then cd fuzz && cargo test --quiet; fi

fuzz: ## runs each fuzz target with libFuzzer for a minute, or for FUZZ_SECONDS=3600, and prints how much of the code it reaches
	$(call say,fuzz)
	@scripts/fuzz.sh

# -count=1: Go's cache does not see the vectors, which lie outside its modules.
go: ## checks and tests every Go module; then runs each fuzz target for a moment
	$(call say,go)
	@for folder in $(GO_MODULES); do \
	    echo "$$folder"; \
	    (cd "$$folder" && test -z "$$(gofmt -l . | tee >(cat >&2))" && go vet ./... && \
	     go run $(STATICCHECK) ./... && go test -count=1 -race -shuffle=on ./...); \
	done
	$(call say,go: allocations and coverage; misuse of buffers; fuzz smoke)
	@cd shockwave && go test -count=1 -cover ./... && go test -count=1 -tags shockdebug ./...
	@scripts/fuzz-go.sh

# By itself, behind all else: its requests have a second each.
chaos-smoke: ## breaks endpoints behind Titan alone: no GET may fail that another endpoint can respond to
	$(call say,chaos smoke)
	@cd bench/engines && cargo run --quiet --bin chaos -- --short --check

conformance: ## runs only the HTTP/1.1 vectors
	cargo test --package titan-h1 --test conformance
	cd shockwave && go test -count=1 -run 'Vector|Titan|Unread|Alike|Behind' .

http3: export TITAN_PROGRAM ?= $(CARGO_TARGET_DIR)/debug/titan
http3: export HTTP3_CURL ?= $(CARGO_TARGET_DIR)/sid/bin/curl
http3: ## has quic-go and curl judge HTTP/3: conformance/http3; with HTTP3_PEER=quic-go that of quic-go itself
	$(call say,http3)
	@cargo build --quiet --workspace --bin titan
	@scripts/install-http3-peers.sh
	@cd conformance/http3 && go test -count=1 -race -shuffle=on ./...

# One package after the other, since each starts an API server. Not part of `test`: building kube-apiserver takes too long.
cluster: export TITAN_PROGRAM = $(CARGO_TARGET_DIR)/debug/titan
cluster: ## tests Titan as the gateway of a cluster, the API server and the stand-in for a cluster that Kubernetes support is tested on: conformance/kubernetes
	$(call say,cluster)
	@cargo build --quiet --workspace --bin titan
	@scripts/install-kubernetes-peers.sh
	@cd conformance/kubernetes && test -z "$$(gofmt -l . | tee >(cat >&2))" && go vet ./... && \
	    go run $(STATICCHECK) ./... && go test -count=1 -timeout 30m -p 1 -race -shuffle=on ./...

# Not part of `test`, whose agent responds as Consul's documentation says: building Consul takes too long.
consul: export TITAN_CONSUL = $(CARGO_TARGET_DIR)/consul/consul
consul: ## tests Titan with Consul itself as the source of its configuration
	@scripts/install-consul.sh
	cargo test --workspace --test peers consul -- --ignored

# The optimised program, so that what is measured is what runs elsewhere.
cluster-churn: export TITAN_PROGRAM = $(CARGO_TARGET_DIR)/release/titan
cluster-churn: ## measures what 10,000 pods of a cluster cost Titan while 100 of their slices a second change
	$(call say,cluster-churn)
	@cargo build --quiet --release --workspace --bin titan
	@scripts/install-kubernetes-peers.sh
	@cd conformance/kubernetes && go test -count=1 -tags churn -v ./churn

# Titan itself, where no other command is given. K8S_ARGUMENTS are for the suite, as `-run-test=HTTPRouteWeight`.
conformance-k8s: export K8S_CONTROLLER ?= $(CARGO_TARGET_DIR)/debug/titan kubernetes --kubeconfig {kubeconfig} --address 127.64.0.0/16
conformance-k8s: ## runs Gateway API's conformance suite against Titan, or the command K8S_CONTROLLER; the report: target/kubernetes/report.yaml
	$(call say,conformance-k8s)
	@cargo build --quiet --workspace --bin titan
	@scripts/install-kubernetes-peers.sh
	@cd conformance/kubernetes && go test -count=1 -timeout 90m -v -run '^TestConformance$$' ./suite -args \
	    -controller "$$K8S_CONTROLLER" -controller-log $(TITAN_KUBERNETES)/controller.log \
	    -report-output $(TITAN_KUBERNETES)/report.yaml $(K8S_ARGUMENTS)

# The optimised program, so that what is measured is what runs elsewhere; its clients need not be.
soak: export TITAN_PROGRAM = $(CARGO_TARGET_DIR)/release/titan
soak: export SOAK_RELOADS ?= 1000
soak: export SOAK_TUNNELS ?= 1000
soak: export SOAK_UPGRADES ?= 20
soak: export SOAK_REQUESTS ?= 2000
soak: peers ## reloads 1,000 times under load, with 1,000 open WebSockets, and upgrades 20 times: ten minutes; `test` includes a small one
	cargo build --release --package titan
	cargo test --workspace --test peers soak -- --nocapture --test-threads 1
	cargo test --workspace --test upgrade no_request -- --nocapture

fleet: export TITAN_PROGRAM = $(CARGO_TARGET_DIR)/release/titan
fleet: export FLEET_SECONDS ?= 30
fleet: ## three gateways let 1,000 requests a second pass together, for half a minute; `test` includes a small one
	cargo build --release --package titan
	cargo test --workspace --test peers fleet -- --nocapture

overload: export TITAN_PROGRAM = $(CARGO_TARGET_DIR)/release/titan
overload: export OVERLOAD_SECONDS ?= 20
overload: ## sends a service twice what it can serve: with a limit that finds itself it has to serve 90%: half a minute; `test` includes a small one
	cargo build --release --package titan
	cargo test --workspace --test peers overload -- --nocapture

chaos: ## breaks endpoints behind Titan, HAProxy, Envoy and nginx, and compares what clients see of it: bench/chaos.md
	@scripts/install-chaos-peers.sh
	cd bench/engines && cargo run --release --bin chaos

bench: peers ## measures CPU time per request next to nginx, HAProxy and a bare forwarder: bench/README.md
	@scripts/install-http3-peers.sh
	cd bench/engines && cargo run --release
	cd bench/engines && cargo run --release --bin probes
	cd bench/engines && cargo run --release --bin scrapes
	cd bench/engines/go && go run .

# In sections that are run and judged by themselves. The options are the program's, as in `make validate VALIDATE_OPTIONS='--hours 12'`.
validate: ## measures everything that is promised, and says what fell short: target/validation/report.html; an hour or two, with VALIDATE_OPTIONS=--full half a day; bench/validate.md
	@cargo run --quiet --manifest-path bench/engines/Cargo.toml --bin validate -- $(VALIDATE_OPTIONS)

audit: ## checks dependencies for known vulnerabilities; needs databases on the network, so `test` does not include it
	$(call say,audit)
	@scripts/audit.sh

docs: ## writes docs/configuration.md from the field docs
	cargo xtask reference

fmt: ## formats every workspace
	@for folder in $(WORKSPACES); do (cd "$$folder" && cargo fmt --all); done

clean: ## removes what was built
	cargo clean

# What a person types. Everything real is in `cargo xtask` and `scripts/`; this file only names it.
# A target with a `##` comment shows up in `make help`.

SHELL := /bin/bash
CARGO ?= cargo

# Debug information doubles the size of `target/` and helps nobody in a test run.
test proof: export CARGO_PROFILE_DEV_DEBUG := 0
test proof: export CARGO_PROFILE_TEST_DEBUG := 0
# Incremental builds pay off when a person builds twice, which CI does not.
test proof: export CARGO_INCREMENTAL := $(if $(CI),0,)

.DEFAULT_GOAL := help

# What the demo is asked for is built, and nothing else: a newcomer waits for it.
DEMO_FEATURES := $(if $(DATABASE_URL)$(Contacts_DatabaseHost)$(Contacts_DatabaseName),--features postgres)

.PHONY: demo
demo: ## Build and start the reference application on 127.0.0.1:8080 (needs only Rust; CONTACTS=1000000 for the full set)
	$(CARGO) run --profile demo --package contacts --no-default-features $(DEMO_FEATURES)

.PHONY: test
test: ## Set up what the tests need and run all of them; `cargo xtask ci STEP` runs one step again
	$(CARGO) xtask ci

.PHONY: setup
setup: ## Install the pinned tools and packages the tests need, into ./.tools and node_modules
	@bash scripts/setup.sh

.PHONY: grpcurl
grpcurl: ## Install grpcurl alone into ./.tools/bin (needs Go)
	@bash scripts/setup.sh grpcurl

.PHONY: tidy
tidy: ## Check the rules of CONTRIBUTING.md: edges between crates, sizes, headers, names, tables
	$(CARGO) xtask tidy

.PHONY: proof
proof: setup ## The long proofs that `make test` leaves out: dependencies, Miri, long stress
	@bash scripts/proof.sh

.PHONY: bench
bench: ## Measure the suites and write bench-runs/
	@bash scripts/bench.sh

.PHONY: dist
dist: ## Build static programs for Linux into dist/, with checksums, what is in them, and a container file
	@bash scripts/dist.sh

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) \
		| while IFS='|' read -r target text; do printf '  make %-8s %s\n' "$$target" "$$text"; done

# Every target is one line of `make help`.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TEST_TIMEOUT ?= 15m
FUZZ_TIME ?= 5s
BENCH_TIME ?= 1s

.PHONY: help build test check lint bench fuzz clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/pool, a static program that knows its version
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/pool ./cmd/pool

test: ## run every test, the end-to-end ones too, under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $$($(GO) list ./... | grep -v '/e2e$$')
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) ./cmd/pool/e2e

check: lint test ## all that must be green before a commit: lint, then test

lint: ## formatting, vet for Linux and macOS, staticcheck, shellcheck where it is installed
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt -w is due for:" $$unformatted >&2; exit 1; fi
	$(GO) vet ./...
	GOOS=darwin $(GO) vet ./...
	$(GO) tool staticcheck ./...
	@if command -v shellcheck >/dev/null; then find . -name '*.sh' -not -path './.git/*' -print0 | xargs -0 shellcheck .ci/run; else echo "shellcheck is not installed: shell scripts are not looked at"; fi

bench: ## run every benchmark, and no test
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCH_TIME) $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u)

fuzz: ## run every fuzz target for FUZZ_TIME (5s)
	@grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file target; do \
		name=$${target#func }; echo "== $$(dirname "$$file") $$name"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZ_TIME) "$$(dirname "$$file")"; done

clean: ## remove what build left
	rm -rf bin

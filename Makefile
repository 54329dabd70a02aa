# AI Bridge: everything a developer or an operator types.
SHELL := /bin/bash
GO    ?= go
DATA  ?= .data
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
export CGO_ENABLED ?= 0

.PHONY: help run build sizes bin/aibridge-bench bin/aibridge-connect platforms release release-snapshot site vulnerabilities test unit race foreign fmt vet lint docs console console-types console-test console-shots bench bench-guard drill drill-short simulation fuzz mcp-conformance connect-data chart clean

help: ## show this help
	@grep -hE '^[a-z/-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

run: build ## build and start a bridge on loopback that lets everybody in
	bin/aibridge serve --dev --data $(DATA)

build: ## build bin/aibridge
	$(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/aibridge ./cmd/aibridge

sizes: ## print the code of the binary by package, the largest first
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(GO) build -trimpath -o "$$folder/aibridge" ./cmd/aibridge && scripts/sizes "$$folder/aibridge" | head -$${MOST:-40}

bin/aibridge-bench: build ## build the load generator beside bin/aibridge
	$(GO) build -trimpath -o bin/ ./cmd/aibridge-bench

platforms: ## build for the machine that differs most (scripts/platforms --all for every one of a release)
	@scripts/platforms

GORELEASER := $(GO) run github.com/goreleaser/goreleaser/v2@v2.15.4

release-snapshot: ## everything a release has, in dist, without publishing, signing and images
	$(GORELEASER) release --snapshot --clean --skip=publish,sign,sbom,docker

release: ## publish the tag that is checked out (the workflow does it)
	$(GORELEASER) release --clean

vulnerabilities: ## known vulnerabilities in what the code calls; VULNDB=file:///… asks a copy of the database
	$(GO) run golang.org/x/vuln/cmd/govulncheck@v1.8.0 $(if $(VULNDB),-db $(VULNDB)) ./...

test: fmt docs race foreign ## everything that must pass

fmt: ## fail if a file is not gofmt-ed
	@files=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$files" || { echo "not gofmt-ed:"; echo "$$files"; exit 1; }

vet: ## go vet
	$(GO) vet ./...

unit: ## the tests without the race detector (quick)
	$(GO) test ./...

# The tests wait more than they compute: half as many packages again as there are
# processors run at a time.
PACKAGES := $(shell echo $$(( ($$(nproc 2>/dev/null || echo 2) * 3 + 1) / 2 )))

race: ## go vet and the tests with the race detector, where there is a C compiler for it
	@if command -v $$($(GO) env CC) >/dev/null; then \
		CGO_ENABLED=1 $(GO) test -p $(PACKAGES) -race -vet=all -timeout 40m ./...; \
	else \
		echo "no C compiler: the tests run without the race detector (Debian: apt install gcc libc6-dev)"; \
		$(GO) test -p $(PACKAGES) -vet=all -timeout 40m ./...; \
	fi

foreign: ## name the foreign programs whose tests are skipped
	@scripts/foreign

lint: ## golangci-lint, at the version CI of contributors uses
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run

docs: build ## fail if generated documentation is out of date
	@bin/aibridge describe --markdown | diff -u docs/commands.md - || { echo "docs/commands.md is stale: bin/aibridge describe --markdown > docs/commands.md"; exit 1; }

site: ## write the documentation as a site for any file server, to site/
	$(GO) run ./docs/build -o site

console: ## build the page of the console from its sources (needs npm)
	$(GO) generate ./console
	$(MAKE) console-types

console-types: ## check the types of the console's sources
	cd console && { [ -d node_modules ] || npm ci --no-audit --no-fund --loglevel=error; } && node_modules/.bin/tsc -p .

console-test: build ## the console in a browser, against a real bridge (needs node, npm, chromium)
	cd console && { [ -d node_modules ] || npm ci --no-audit --no-fund --loglevel=error; } && node --test --test-concurrency=2 test/*.test.mjs

console-shots: build ## screenshots of every page, in light, dark and at 375 px, in console/shots
	cd console && node test/shots.mjs

bench: ## the benchmarks of every package, once
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-guard: ## fail if a call takes over a tenth more processor time than with the commit SINCE (default HEAD^)
	@scripts/bench-guard $${SINCE:-HEAD^}

DRILL ?= --rounds 20 --json bin/drill.json
DRILL_SHORT ?= --seed 1
drill: bin/aibridge-bench ## break a cluster of bridges on purpose and count what it lost, for about an hour (DRILL="--faults kill" for less)
	bin/aibridge bench drill $(DRILL)

drill-short: bin/aibridge-bench ## one fault of each kind against three bridges that all work, in about 80 s (DRILL_SHORT="--seed 2")
	bin/aibridge bench drill --longest 4s --patience 3m --json bin/drill-short.json $(DRILL_SHORT)

simulation: ## a hundred bridges with a million devices in one process, for some minutes (NODES=100 DEVICES=1000000)
	$(GO) test ./cluster/relay -run TestAFleet -v -timeout 60m -fleet-nodes $${NODES:-100} -fleet-devices $${DEVICES:-1000000}

fuzz: ## every fuzz target for FUZZTIME (default 20s)
	@for pkg in $$($(GO) list ./...); do for f in $$($(GO) test -list '^Fuzz' $$pkg | grep ^Fuzz); do \
		echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-20s} $$pkg || exit 1; done; done

clean: ## remove what was built and the development data
	rm -rf bin $(DATA)

bin/aibridge-connect: ## build the program for pipelines, a module of its own
	cd connect/data && $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o ../../bin/ ./cmd/aibridge-connect

connect-data: ## the tests of connect/data, a module of its own (PostgreSQL, where it is installed); TESTS="" for all messages
	cd connect/data && $(GO) vet ./... && $(GO) test $(if $(filter undefined,$(origin TESTS)),-short,$(TESTS)) -timeout 15m ./...

mcp-conformance: build ## the official conformance suite of MCP against a bridge (needs Node 22 and the registry of npm); SUITE=active|all, or ARGS="--scenario NAME"
	$(GO) run ./internal/mcpconformance -bridge bin/aibridge \
		npx -y @modelcontextprotocol/conformance@0.2.0-alpha.12 server $(or $(ARGS),--suite $(or $(SUITE),all))

HELM := $(GO) run helm.sh/helm/v3/cmd/helm@v3.19.0
chart: build ## lint the Helm chart, and hold what it makes to the types of Kubernetes (needs the Go module proxy)
	@scripts/chart "$(HELM)"

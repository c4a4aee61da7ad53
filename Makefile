# What each target is for stands beside it; `make help` prints that.
GO ?= go
BIN := bin/sluice
# Where the broker of `make run` listens and keeps its data.
LISTEN ?= 127.0.0.1:9092
DATA ?= ./sluice-data
# Fuzzing time for each decoder (make fuzz FUZZTIME=1h).
FUZZTIME ?= 10s
# What a package's tests may take on a machine that is busy with other things; go test's own ten minutes are too few there.
TIMEOUT ?= 20m
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help build run test race fuzz crash long bench bench-compare lint generate compat chaos mutants check clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

build: ## bin/sluice, static
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=auto -ldflags '-s -w' -o $(BIN) ./cmd/sluice

run: build ## build and start a broker on LISTEN with data in DATA
	$(BIN) serve --data-dir $(DATA) --listen $(LISTEN)

test: lint build ## everything a change must pass: lint, tests, race, a little fuzzing, real clients, kills, planted bugs
	$(GO) test -count=1 -timeout $(TIMEOUT) ./...
	$(MAKE) race
	$(MAKE) fuzz
	$(MAKE) compat
	$(MAKE) chaos
	$(MAKE) mutants

race: ## the short tests under the race detector
	$(GO) test -race -short -count=1 -timeout $(TIMEOUT) ./...

fuzz: ## FUZZTIME of fuzzing for each decoder
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' scripts/fuzz

crash: ## the full crash enumeration (a million images)
	GO='$(GO)' scripts/crash

long: crash ## all the full counts that do not fit the test command
	GO='$(GO)' scripts/long

bench: build ## benchmarks of the hot paths
	$(GO) test -run '^$$' -bench . -benchmem . ./kproto ./log ./internal/server ./broker ./group

bench-compare: build ## beside other servers: LOADGEN=binary, and any of REFERENCE=binary KAFKA=folder (docs/performance.md)
	bench/compare --loadgen '$(LOADGEN)' $(if $(REFERENCE),--reference '$(REFERENCE)') $(if $(KAFKA),--kafka '$(KAFKA)') $(COMPARE)

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	cd compat && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...

generate: ## the docs that are generated from the code
	$(GO) generate ./...

compat: build ## other people's clients against the built binary
	compat/run.sh

chaos: build ## kills and failures at system calls of the built binary, full disks; short
	compat/chaos/run.sh -short

mutants: ## plant the worst bugs and see that the tests find them
	$(GO) run ./internal/mutate -short

check: test long ## all there is

clean:
	rm -rf bin

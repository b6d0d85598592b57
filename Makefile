# Tenantry. `make help` lists the targets.
export CGO_ENABLED := 0
SHELL := /bin/bash

KUBERNETES_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' go.mod)
KUBERNETES_MINOR := $(word 2,$(subst ., ,$(KUBERNETES_VERSION)))
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The times in what is built are that of the commit, so that who builds it again gets the same.
COMMITTED := $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null || echo 1970-01-01T00:00:00Z)
COMMITTED_SECONDS := $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
VERSION := $(shell awk -F '"' '/^const Version/ { print $$2 }' internal/version/version.go)
IMAGE := ghcr.io/tenantry/tenantry:$(VERSION)
BUNDLE_IMAGE := ghcr.io/tenantry/tenantry-bundle:$(VERSION)
ARCHITECTURES := amd64 arm64
PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
VERSION_PKG := k8s.io/component-base/version
LDFLAGS := -s -w \
	-X github.com/tenantry/tenantry/internal/version.commit=$(COMMIT) \
	-X $(VERSION_PKG).gitVersion=$(KUBERNETES_VERSION)+tenantry \
	-X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=$(KUBERNETES_MINOR) \
	-X $(VERSION_PKG).gitCommit=$(COMMIT) -X $(VERSION_PKG).gitTreeState=clean \
	-X $(VERSION_PKG).buildDate=$(COMMITTED)
SOURCES := api cmd config internal test tools/bundle tools/chart tools/image tools/release
GENERATED := find api bundle charts config docs/reference \( -name 'zz_generated.*' -o -name '*.yaml' -o -name '*.md' \) -exec sha256sum {} + | sort
TOOLS := bundle chart image release
STOCK_LDFLAGS := -s -w -X $(VERSION_PKG).gitVersion=$(KUBERNETES_VERSION)

# What is compiled a second time for the race detector: what many use at once. The search and the
# server as a whole are left out: they link a hundred packages more, or several hundred.
CONCURRENT := $(addprefix ./internal/,controller/... etcdstore follow keystone kubecontrollers manager process/... progress spaces/... statedir tenant workloads/dns workloads/sync \
	$(addprefix server/,admission audit authentication/... authorization crd discovery egress \
	flowcontrol/... inprocess loopback metrics quota registry/tenant registry/user serviceips storage/... usage))

.PHONY: help build image run test race races lives search postgres-package mutants chaos failover upgrade-test e2e e2e-node e2e-node-conformance e2e-node-programs keystone verify lint generate manifests reference bundle chart release publish e2e-node-packages bump bench bench-host conformance

help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "%-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build bin/tenantry.
	@go build -ldflags '$(LDFLAGS)' -o bin/tenantry ./cmd/tenantry

image: $(addprefix binary-linux-,$(ARCHITECTURES)) ## Make the container image, dist/tenantry-image.tar, without a container engine. ARCHITECTURES=amd64 is for one.
	@go run -C tools/image . -o ../../dist/tenantry-image.tar -name $(IMAGE) -time $(COMMITTED_SECONDS) \
		$(foreach a,$(ARCHITECTURES),$(a)=../../bin/linux-$(a)/tenantry)

binary-%:
	GOOS=$(firstword $(subst -, ,$*)) GOARCH=$(lastword $(subst -, ,$*)) \
		go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/$*/tenantry ./cmd/tenantry

release: ## Put all that a release of this commit has into dist: image, bundle, chart, manifests, binaries, what they are made of, and checksums.
	@test "$(or $(TAG),$(VERSION))" = "$(VERSION)" || { echo "the tag $(TAG) is not the version $(VERSION) of internal/version"; exit 1; }
	@test -z "$$(git status --porcelain)" || { echo "commit first: a release is of a commit"; exit 1; }
	rm -rf dist
	$(MAKE) image $(addprefix binary-,$(PLATFORMS))
	@go run -C tools/image . -o ../../dist/tenantry-bundle-image.tar -name $(BUNDLE_IMAGE) -time $(COMMITTED_SECONDS) -bundle ../../bundle $(ARCHITECTURES)
	@go run -C tools/release . -version $(VERSION) -time $(COMMITTED_SECONDS) -o ../../dist ../.. \
		$(foreach p,$(PLATFORMS),$(p)=../../bin/$(p)/tenantry)

publish: ## Create the release TAG on GitHub with what is in dist, by its command gh. For the workflow of releases.
	gh release create "$(TAG)" --verify-tag --notes-file CHANGELOG.md dist/*

run: build ## Run everything in one process, with its state in .tenantry.
	./bin/tenantry up

# Linters vet, which need not be done twice.
test: postgres-package ## Run all tests that need nothing but Go and, for some, PostgreSQL.
	go test -vet=off -timeout 20m ./...
	SEARCH_DATABASE=postgres go test -vet=off -count 1 -timeout 20m ./test/integration/search
	for module in $(TOOLS); do go test -C tools/$$module ./... || exit 1; done

race: ## Run the tests of what is used by many at once with Go's race detector.
	CGO_ENABLED=1 go test -race -timeout 20m $(CONCURRENT)

races: ## Let 50 creators race for 10 pods of a tenant, a thousand times.
	QUOTA_ROUNDS=1000 go test -count 1 -timeout 1h ./test/integration/quota --ginkgo.focus='round after round'

lives: ## Delete and create two tenants a hundred times, while clients of all their lives ask for everything.
	LIVES=100 go test -count 1 -timeout 1h ./test/isolation --ginkgo.focus='name that there was before'

search: postgres-package ## Compare 100,000 decisions of searches with the authorizer's, with SQLite and PostgreSQL. ORACLE_SEED= repeats the random rights of a run that has failed.
	for database in sqlite postgres; do SEARCH_DATABASE=$$database ORACLE_DECISIONS=$${ORACLE_DECISIONS:-100000} \
		go test -count 1 -timeout 2h ./test/integration/search --ginkgo.focus='the oracle' || exit 1; done

# What tests with PostgreSQL need. They are skipped without it.
POSTGRES := /usr/lib/postgresql/15/bin/postgres

postgres-package: ## Install PostgreSQL for tests of searches, on Debian, as root.
	@test -x $(POSTGRES) || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update --quiet && apt-get install --quiet --yes --no-install-recommends postgresql-15; } || \
		echo "PostgreSQL 15 is not there, and can be installed by root on Debian alone: tests with it are skipped"

mutants: ## Take away lines that defend the boundary, and see that a test notices.
	go run ./test/mutants

chaos: build bench-host ## Kill the process again and again while it publishes to 1,000 spaces, and the syncer beside 1,000 changing pods, and verify every copy and every pod.
	go run ./test/bench/published -kill 12
	go run ./test/bench/workloads -kill 10m -pods 1000 -tenants 20 -idle 0

failover: build ## Kill servers, managers and members of etcd while clients write, and replace servers and keys: nothing acknowledged is lost. BEFORE= runs at first.
	go run ./test/bench/failover -before '$(BEFORE)'

upgrade-test: build ## Start on a store that another binary has written, and compare: make upgrade-test BEFORE=path/to/tenantry
	go run ./test/upgrade -before '$(BEFORE)'

e2e: ARCHITECTURES := $(shell go env GOARCH)
e2e: ## Run the end-to-end tests against the Tenantry of KUBECONFIG, or without one on a cluster of kind, by Docker, that goes at the end.
	$(if $(KUBECONFIG),,$(MAKE) image ARCHITECTURES=$(ARCHITECTURES) && go build -C test/e2e/kind -o ../../../bin/kind sigs.k8s.io/kind && \
		go build -o bin/kubectl k8s.io/kubernetes/cmd/kubectl && PATH=$(CURDIR)/bin:$$PATH test/e2e/kind.sh dist/tenantry-image.tar --) \
		go test -count 1 -tags e2e ./test/e2e

NODE_BINARIES := kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl
NODE_LDFLAGS := $(STOCK_LDFLAGS) -X $(VERSION_PKG).gitMajor=1 -X $(VERSION_PKG).gitMinor=$(KUBERNETES_MINOR)

e2e-node: e2e-node-programs ## Test the operator on a cluster of one real node, which is built, started and taken down; as root, with containerd. FOCUS= for a part.
	go build -C tools/chart -o ../../bin/node/helm helm.sh/helm/v3/cmd/helm
	for program in operator-lifecycle-manager/cmd/olm operator-lifecycle-manager/cmd/catalog operator-registry/cmd/opm; do \
		go build -C test/node/olm -tags json1,containers_image_openpgp -o ../../../bin/node/olm/ github.com/operator-framework/$$program || exit 1; done
	go build -C test/node/router -o ../../../bin/node/ github.com/cloudnativelabs/kube-router/v2/cmd/kube-router
	go build -C test/node/metrics -o ../../../bin/node/ sigs.k8s.io/metrics-server/cmd/metrics-server
	@install -D -m 644 -t bin/node/olm/crds $$(go list -C test/node/olm -m -f '{{.Dir}}' github.com/operator-framework/api)/crds/operators.coreos.com_*.yaml
	go build -o bin/node/client ./test/node/client
	@go run -C tools/image . -o ../../bin/node/client.tar -name localhost/client:1 $(ARCHITECTURES)=../../bin/node/client
	go test -c -tags e2e -o bin/node/e2e.test ./test/e2e
	cd test/node && ./node.sh ../../bin/node ../../bin/node/pause.tar ../../bin/node/client.tar ../../dist/tenantry-image.tar -- bash -c \
		'../../bin/node/node.test --ginkgo.v --ginkgo.label-filter="!conformance" --ginkgo.focus="$(FOCUS)" && { [[ -n "$(FOCUS)" ]] || ../e2e/host.sh ../../bin/node/e2e.test --ginkgo.v; }'

e2e-node-conformance: e2e-node-programs ## Run Kubernetes' own conformance tests of pods in two spaces at once, on a cluster of one real node; as root, on Debian, with containerd. TESTS= for those that a file names.
	go test -C test/conformance/suite -vet=off -c -o ../../../bin/conformance.test .
	go build -C test/conformance/suite -o ../../../bin/node/agnhost k8s.io/kubernetes/test/images/agnhost
	test/node/images.sh bin/conformance.test bin/node/agnhost bin/node/images $(ARCHITECTURES)
	cd test/node && ./node.sh ../../bin/node ../../bin/node/pause.tar ../../bin/node/images/*.tar ../../dist/tenantry-image.tar -- \
		env TESTS="$(abspath $(TESTS))" ../../bin/node/node.test --ginkgo.v --ginkgo.timeout=2h --ginkgo.label-filter=conformance

e2e-node e2e-node-conformance e2e-node-programs: ARCHITECTURES := $(shell go env GOARCH)
e2e-node-programs:
	$(MAKE) image ARCHITECTURES=$(ARCHITECTURES)
	@mkdir -p bin/node
	for name in $(NODE_BINARIES); do go build -C test/node/binaries -ldflags '$(NODE_LDFLAGS)' -o ../../../bin/node/ k8s.io/kubernetes/cmd/$$name || exit 1; done
	go build -C test/node/binaries -o ../../../bin/node/etcd go.etcd.io/etcd/server/v3
	go build -o bin/node/pause ./test/node/pause
	@go run -C tools/image . -o ../../bin/node/pause.tar -name localhost/pause:1 $(ARCHITECTURES)=../../bin/node/pause
	go test -c -tags node -o bin/node/node.test ./test/node

e2e-node-packages: ## Install what e2e-node needs, on Debian, as root.
	apt-get update && apt-get install --yes --no-install-recommends containerd runc containernetworking-plugins nftables ipset iptables iproute2 openssl

keystone: ## Test against a real Keystone, whose Debian packages are installed once.
	@dir=$$(mktemp -d) && trap 'test/keystone/down --dir $$dir --purge' EXIT && \
		test/keystone/up --dir $$dir --port $${KEYSTONE_PORT:-5055} --set identity.password_hash_rounds=4 && . $$dir/openrc && \
		go test -count 1 -tags keystone -timeout 40m ./test/keystone

verify: ## Check formatting, and that what is generated is current.
	@test -z "$$(gofmt -l $(SOURCES))" || { gofmt -l $(SOURCES); echo "run gofmt"; exit 1; }
	@before=$$($(GENERATED)); $(MAKE) -s generate manifests reference bundle chart; test "$$before" = "$$($(GENERATED))" || \
		{ echo "what is generated was not current: commit the result"; exit 1; }

lint: bin/golangci-lint ## Check formatting and the linters of .golangci.yml.
	bin/golangci-lint run ./...
	cd tools && ../bin/golangci-lint run --config ../.golangci.yml ./bump
	for module in $(TOOLS); do (cd tools/$$module && ../../bin/golangci-lint run --config ../../.golangci.yml ./...) || exit 1; done

bin/golangci-lint: tools/go.mod tools/go.sum
	go build -C tools -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

generate: ## Generate deep copies and OpenAPI definitions.
	go tool controller-gen object paths=./api/...
	go tool openapi-gen --output-dir api/v1alpha1 --output-pkg github.com/tenantry/tenantry/api/v1alpha1 \
		--output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go \
		--go-header-file /dev/null --report-filename /dev/null \
		github.com/tenantry/tenantry/api/v1alpha1
	@# Types of other packages are referred to by their names in k8s.io/kubernetes, which has their definitions.
	@sed -i -E '/^import/,/^\)/!{:a; s#"(k8s\.io[^"/]*)/([^"]*")#"\1.\2#; ta; s#"k8s\.io\.#"io.k8s.#g}' api/v1alpha1/zz_generated.openapi.go

manifests: ## Generate the CustomResourceDefinitions, and write the version into the manifests.
	go tool controller-gen crd paths=./api/... output:crd:dir=config/crd
	@sed -i -E 's/^(  newTag: ).*/\1$(VERSION)/' config/operator/kustomization.yaml config/workloads/kustomization.yaml
	@sed -i -E -f config/crd/quantities.sed config/crd/*.yaml

reference: ## Generate docs/reference.
	@go build -C tools/reference -o ../../bin/crd-ref-docs github.com/elastic/crd-ref-docs
	@bin/crd-ref-docs --log-level=ERROR --source-path=api --config=tools/reference/config.yaml \
		--templates-dir=tools/reference/templates --renderer=markdown --output-path=docs/reference/api.md
	@go test ./cmd/tenantry -run '^TestReference$$' -update

bundle: manifests ## Generate and validate the OLM bundle.
	@go run -C tools/bundle . ../..

chart: manifests ## Generate the Helm chart.
	@go run -C tools/chart . ../..

bump: ## Require another version of Kubernetes: make bump KUBERNETES_VERSION=v1.x.y
	go run -C tools ./bump .. $(KUBERNETES_VERSION)
	sed -i -E 's/(libraries of Kubernetes )1\.[0-9]+/\11.$(KUBERNETES_MINOR)/' README.md
	sed -i -E 's/(kubernetesVersion: ")[0-9.]+/\11.$(KUBERNETES_MINOR)/' tools/reference/config.yaml
	for module in . test/conformance/suite test/node/binaries tools/bundle tools/chart tools/release; do go -C $$module mod tidy -e || exit 1; done

bench: build ## Run the benchmarks and print their results, for more than an hour.
	go build -o bin/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	go run ./test/bench
	go run ./test/bench/neighbour
	go run ./test/bench/tenants
	go run ./test/bench/restart
	go run ./test/bench/published
	go run ./test/bench/keystone
	go run ./test/bench/host
	$(MAKE) bench-host
	go run ./test/bench/workloads
	go run ./test/bench/search
	go run ./test/bench/failover

KWOK_STAGES := node/fast/node-initialize node/heartbeat-with-lease/node-heartbeat-with-lease pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete

bench-host: ## Build what test/bench/workloads has its host of: a scheduler, a controller manager, and kwok with its stages.
	for name in kube-scheduler kube-controller-manager; do go build -C test/node/binaries -ldflags '$(NODE_LDFLAGS)' -o ../../../bin/host/ k8s.io/kubernetes/cmd/$$name || exit 1; done
	go build -C test/bench/workloads/kwok -o ../../../../bin/host/ sigs.k8s.io/kwok/cmd/kwok
	@install -D -m 644 -t bin/host/stages $(patsubst %,$$(go list -C test/bench/workloads/kwok -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage/%.yaml,$(KWOK_STAGES))

conformance: build ## Run Kubernetes' conformance tests in two spaces and on a stock server.
	go build -ldflags '$(STOCK_LDFLAGS)' -o bin/kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver
	go build -C test/conformance/suite -ldflags '$(STOCK_LDFLAGS)' -o ../../../bin/kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager
	go test -C test/conformance/suite -vet=off -c -o ../../../bin/conformance.test .
	go build -C test/conformance/suite -o ../../../bin/agnhost ./agnhost
	go run ./test/conformance

# Each target is one `cargo xtask` command; ARGS is passed on: make test ARGS='apiserver two_claims'
.DEFAULT_GOAL := help
.PHONY: help demo test check manifests install-crds build run docker-build docker-push helm-package controlplane
ARGS ?=
XTASK := cargo xtask

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | awk -F'\t' '{ printf "  %-20s %s\n", $$1, $$2 }'
demo: ## see it work: a control plane, the controller, claims being bound; then it is yours to try
	@[ -e target/debug/xtask ] || echo 'Compiling the tools and the controller first: a few minutes on two cores, once.'
	@$(XTASK) demo $(ARGS)
test: ## all checks and all tests (ARGS='unit' or 'apiserver NAME' for some)
	@$(XTASK) test $(ARGS)
check: ## formatting, lints, documents, dependencies, layering, lengths, generated files
	@$(XTASK) check $(ARGS)
manifests: ## write the generated files of the chart: definitions and roles
	@$(XTASK) manifests $(ARGS)
install-crds: ## apply the definitions to the cluster of the current kubeconfig
	@$(XTASK) install-crds $(ARGS)
build: ## build the controller for release
	@$(XTASK) build $(ARGS)
run: ## run the controller here, against the cluster of the current kubeconfig
	@$(XTASK) run $(if $(ARGS),-- $(ARGS))
docker-build: ## build the image (IMG=name:tag)
	@$(XTASK) docker-build $(ARGS)
docker-push: ## push the image (IMG=name:tag)
	@$(XTASK) docker-push $(ARGS)
helm-package: ## package the chart into target/
	@$(XTASK) helm-package $(ARGS)
controlplane: ## build a control plane from source, once (ARGS=up or down: one to try things on)
	@$(XTASK) controlplane $(or $(ARGS),build)
ifdef IMG
export IMG
endif

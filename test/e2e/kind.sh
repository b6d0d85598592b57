#!/usr/bin/env bash
# Runs a command beside a control plane of Tenantry on a cluster of kind, and deletes the
# cluster:
#
#   kind.sh IMAGE -- COMMAND
#
# IMAGE is the tarball of `make image`. The command has KUBECONFIG of the administrator of
# the system space. It needs Docker, kind and kubectl.
set -euo pipefail

for program in docker kind kubectl; do
	command -v "$program" >/dev/null || { echo "kind.sh: $program is not installed: install it, or set KUBECONFIG to that of a Tenantry" >&2; exit 1; }
done
docker info >/dev/null || { echo "kind.sh: Docker does not answer: start it, or set KUBECONFIG to that of a Tenantry" >&2; exit 1; }
image=$1
shift
[[ $1 != -- ]] || shift
name=tenantry-e2e-$$
dir=$(mktemp -d)
export KUBECONFIG=$dir/host.kubeconfig
trap 'kind delete cluster --name "$name"; rm -rf "$dir"' EXIT
kind create cluster --name "$name" --wait 3m
kind load image-archive "$image" --name "$name"
"$(dirname "$0")/host.sh" "$@"

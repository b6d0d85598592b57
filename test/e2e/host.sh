#!/usr/bin/env bash
# Installs the operator and the sample on the host cluster of KUBECONFIG, and runs a command
# with KUBECONFIG of the sample's administrator. The host has the image already.
#
#   host.sh COMMAND
set -euo pipefail

root=$(realpath "$(dirname "$0")/../..")
dir=$(mktemp -d)
in=(kubectl --namespace tenantry-system)
forward=
trap '[[ -z $forward ]] || kill "$forward" 2>/dev/null; rm -rf "$dir"' EXIT

kubectl apply -k "$root/config/default"
"${in[@]}" rollout status deployment/tenantry-operator --timeout=5m
kept=
[[ -n $("${in[@]}" get controlplane sample --ignore-not-found -o name) ]] || kept=$("${in[@]}" get secret sample-authorities --ignore-not-found -o name)
kubectl apply -f "$root/config/samples/controlplane.yaml"
if [[ -n $kept ]]; then # keys of a sample that was there before, which the operator has not made for this one
	"${in[@]}" wait --for=condition=Degraded --timeout=2m controlplane/sample
	digest=$("${in[@]}" get controlplane sample -o jsonpath='{.status.conditions[?(@.type=="Degraded")].message}' | sed -n 's|.*tenantry.io/adopt-keys=\([0-9a-f]*\)".*|\1|p')
	"${in[@]}" annotate --overwrite controlplane sample "tenantry.io/adopt-keys=$digest"
fi
"${in[@]}" wait --for=condition=Available --timeout=5m controlplane/sample
"${in[@]}" get secret sample-admin -o jsonpath='{.data.kubeconfig}' | base64 -d >"$dir/kubeconfig"
# The port is one that is free, which kubectl says when it listens.
mkfifo "$dir/said"
"${in[@]}" port-forward service/sample :443 >"$dir/said" &
forward=$!
exec 3<"$dir/said"
read -r _ _ address _ <&3
kubectl --kubeconfig "$dir/kubeconfig" config set-cluster \
	"$(kubectl --kubeconfig "$dir/kubeconfig" config view -o jsonpath='{.clusters[0].name}')" --server "https://localhost:${address##*:}" >/dev/null
KUBECONFIG=$dir/kubeconfig "$@"

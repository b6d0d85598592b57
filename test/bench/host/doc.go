// Command host measures the operator: how fast Tenants that are applied on a host cluster become
// Ready, beside Tenants that are applied to their control plane itself, in turns and in the same
// installation; and what an operator that has nothing to do writes to the host, and how long it
// works. The host is a kube-apiserver without nodes, and the control plane a "tenantry up" in
// the place of its pod. It prints Markdown.
//
//	make build && go run ./test/bench/host
package main

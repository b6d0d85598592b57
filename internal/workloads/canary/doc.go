// Package canary has what the canaries do: two pods on a host cluster by which it is known whether that enforces
// NetworkPolicies. It runs in their containers and needs nothing but the network.
package canary

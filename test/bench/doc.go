// Command bench compares the API server, in a space, with a stock
// kube-apiserver of the same version, each against an etcd with equal settings,
// in turn, in one run. A user of the tenant's asks, and one with the same rights
// there. It prints ratios with their spread as Markdown.
//
//	make bench
package main

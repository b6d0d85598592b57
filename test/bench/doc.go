// Command bench compares the API server, in a space, with a stock
// kube-apiserver of the same version, each against an etcd with equal settings,
// in turn, in one run. It prints ratios with their spread as Markdown.
//
//	make bench
package main

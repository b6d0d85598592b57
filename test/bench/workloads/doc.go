// Command workloads measures the syncer, with a host of stock kube-apiserver, scheduler and controller manager whose
// nodes kwok simulates, beside pods that are created directly on the same host in the same run: how long pods and their
// status take, how fast many of them are Running in the spaces of many tenants, how a quiet tenant fares beside greedy
// ones, what a pod costs in requests, memory and processor time, how a syncer starts anew, and what idle tenants add to
// it. It prints Markdown. With -kill it kills the syncer again and again instead, and compares both sides.
//
//	make build bench-host && go run ./test/bench/workloads
package main

// Command conformance runs Kubernetes' own tests of the API machinery and of
// authentication in two spaces of one Tenantry at once and on a stock
// kube-apiserver with kube-controller-manager, prints what came of each test
// where, and fails if one that passes on the stock server fails in a space.
//
// "make conformance" builds what it needs. The tests that need pods to run are
// left out (-skip): there is no kubelet, neither here nor there.
package main

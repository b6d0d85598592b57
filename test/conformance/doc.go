// Command conformance runs Kubernetes' own tests of the API machinery and of
// authentication in two spaces of one Tenantry at once and on a stock
// kube-apiserver with kube-controller-manager, prints what came of each test
// where, and fails if one that passes on the stock server fails in a space.
//
// "make conformance" builds what it needs. There is no kubelet, neither here nor
// there: what stands in for one runs webhooks as processes and says of all other pods
// that they run. Tests that need more are left out (-skip). All of it is in a network
// namespace, so that unshare and ip must be there, and kubectl for some tests.
package main

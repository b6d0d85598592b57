// Package operator tests the operator on the API server of a host cluster, with the rights
// and the definitions of config. There is no kubelet: the tests say that pods are ready, and
// run a server with what would be mounted into them.
package operator

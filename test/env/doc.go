// Package env runs the whole of Tenantry in the process of a test: etcd, API
// server and controllers, with its state in a directory that goes with the test.
//
// One environment per test binary: the Kubernetes libraries register feature
// gates and metrics process-wide.
package env

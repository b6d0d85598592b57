// Package host runs a stock kube-apiserver beside a test, as the API server of the cluster
// that an operator works on. It is the program of the test itself, called again.
package host

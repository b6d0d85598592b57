// Package standalone assembles etcd, the API server and all controllers in one
// process with its state in one directory: what "tenantry up" and the tests run.
//
// It wires; whatever can be decided below is decided there.
package standalone

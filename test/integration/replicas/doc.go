// Package replicas tests the processes "tenantry server" and "tenantry manager"
// against an external etcd with TLS: several of each side by side, restarts with
// what is stored, and encryption at rest.
package replicas

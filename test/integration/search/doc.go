// Package search searches a running Tenantry: who finds what, and the oracle, which compares what
// random users find with what the server's authorizer says of each object.
package search

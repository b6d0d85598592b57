// Package tenant holds the vocabulary of tenancy: the name of a tenant, the URL
// forms that name a space, the effective tenant of a request, and the mapping
// between storage keys and spaces.
//
// It is a leaf and pure: it does no I/O, starts no goroutine and imports nothing
// of this repository. Everything here is a function of its arguments, so that
// the tenant boundary can be read, tested and fuzzed in one place.
package tenant

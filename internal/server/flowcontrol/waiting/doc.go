// Package waiting reports when a request waits for webhooks, and needs no core. It also has
// what a tenant does once at a time wait for its turn.
//
// It is a leaf, so that callers of webhooks can import it.
package waiting

// Package waiting reports when a request waits for webhooks, and needs no core.
//
// It is a leaf, so that callers of webhooks can import it.
package waiting

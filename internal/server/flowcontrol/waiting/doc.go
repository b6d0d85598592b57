// Package waiting tells who shares out cores when a request waits for webhooks, and
// needs none.
//
// It is a leaf: those who call webhooks import it.
package waiting

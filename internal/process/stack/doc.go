// Package stack says by whom a function has been called where upstream's interfaces have no context
// that would: which goroutine it is, and which functions have called. All that depends on how
// upstream and Go call something is here, so that a new version of either is checked in one place.
package stack

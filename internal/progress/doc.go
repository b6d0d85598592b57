// Package progress tells how far an index has followed the objects that it indexes, so
// that a writer can wait until the next decision takes its change into account.
package progress

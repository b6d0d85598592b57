// Package progress tells how far an index has followed the objects that it is
// made of, so that who changes one can wait until the next decision knows it.
package progress

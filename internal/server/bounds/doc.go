// Package bounds says how long the lists and maps of an object in a tenant's space may be.
// Upstream compares many of them element by element with themselves or with others, in code
// that does not end with its request.
//
// It counts, in what a client sends and in what is decoded. What is counted when, and how
// refusals are answered, is decided elsewhere.
package bounds

// Package bounds says how long the lists, maps, names and numbers of an object in a tenant's
// space may be, and how large a pattern is when it is compiled.
// Upstream compares many of them element by element with themselves or with others, in code
// that does not end with its request.
//
// It counts, in what a client sends and in what is decoded. What is counted when, and how
// refusals are answered, is decided elsewhere.
package bounds

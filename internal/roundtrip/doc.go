// Package roundtrip has what those share who stand between clients of HTTP and servers: a function
// as a transport, answers with which something ends, what is done before one begins, bodies that are
// bounded, the events of a watch, one by one, and watches that pass on those of others. It must not know what is asked,
// or of whom.
package roundtrip

// Package loopback gives every client by which the server calls itself a space.
//
// The server's own credentials have every right in every space, so a request of
// theirs must say which one it means: authentication refuses one that does not.
// There are two kinds of clients. What upstream runs for the system space, its
// controllers and the hooks of a start, names that space on purpose (System).
// What upstream's storage is given acts in the space of the request that it
// serves (OfRequest); upstream loses the context of some of these, and a request
// without one fails here unless it is for what only the platform has.
//
// ARCHITECTURE.md has the table of all clients, and of what they see.
package loopback

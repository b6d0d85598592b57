// Package loopback adds a space to the requests of every client by which the server calls
// itself.
//
// The server's own credentials have every right in every space, so its requests must name a
// space: authentication refuses one that does not. There are two kinds of clients.
// Upstream's controllers and start hooks of the system space name that space explicitly
// (System). Clients of upstream's storage act in the space of the request that the storage
// serves (OfRequest). Upstream loses the context of some of these requests. Such a request
// fails here unless it is for a resource that only the system space has.
//
// ARCHITECTURE.md has the table of all clients, and of what they see.
package loopback

// Package inprocess lets clients in the server's own process reach its handler without a
// connection: controllers that write in every space would otherwise spend much of their
// time, and of the server's, on TLS and HTTP/2 framing. Requests pass the whole handler
// chain, including authentication.
package inprocess

// Package filters holds the HTTP filters of tenancy. The order in which they
// run is that of handlerChain in package server.
package filters

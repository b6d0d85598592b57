// Package authorization tests who may do what, on a running server with the
// credentials of its users: acceptance lines 24 to 30.
package authorization

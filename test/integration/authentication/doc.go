// Package authentication holds the tests of who is who: one server that accepts
// every kind of credentials at once, and real credentials of each kind.
package authentication

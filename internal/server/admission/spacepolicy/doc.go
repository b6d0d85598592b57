// Package spacepolicy is the admission plugin that refuses in a tenant's space
// what only the system space may have: objects that belong to nodes, and pods
// that would be served before everything else on a node.
//
// It decides by the request alone and reads nothing.
package spacepolicy

// Package spacepolicy is the admission plugin that refuses in a tenant's space objects that
// only the system space may have: those of nodes, and pods with priority over everything
// else on a node.
//
// It decides by the request alone.
package spacepolicy

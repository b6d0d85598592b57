// Package spacepolicy is the admission plugin that refuses in a tenant's space objects that
// only the system space may have: those of nodes, and pods with priority over everything
// else on a node.
// It also bounds what CustomResourceDefinitions of a space, and objects of them, make the
// server do, and what controllers, which serve all spaces, make of an object.
//
// It decides by the request alone, and by the definition of a custom resource.
package spacepolicy

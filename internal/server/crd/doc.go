// Package crd gives every space CustomResourceDefinitions of its own.
//
// Definitions are objects of the space like all others. What serves the custom
// resources they define is an instance of upstream's extension server for the
// space, unmodified, that knows the space's definitions alone. It is started
// when a space has its first definition and stopped when it has none: a tenant
// without definitions costs nothing.
package crd

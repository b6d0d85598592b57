// Package crd gives every space CustomResourceDefinitions of its own, and those that
// the system space publishes.
//
// Definitions are objects of the space like all others. What serves the custom
// resources they define is an instance of upstream's extension server for the
// space, unmodified, that knows the space's definitions alone. It is started
// when a space has its first definition and stopped when it has none: a tenant
// without definitions costs nothing.
//
// Published definitions are served to all spaces by one more instance. They are no
// objects of the spaces, which show those of the system space (storage.Defaults). A
// space's own definition of the same name takes the place of a published one.
package crd

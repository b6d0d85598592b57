// Package view gives admission plugins that join on cluster-scoped objects the
// objects of one space under their own names, cut out of the flattened view of
// package spaces.
//
// A view holds no objects and runs nothing: it reads the shared informers of all spaces. A
// Hub, one per resource for all spaces, knows which objects a space has. A view is
// read-only.
package view

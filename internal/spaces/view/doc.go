// Package view gives admission plugins that join on cluster-scoped objects the
// objects of one space under their own names, cut out of the flattened view of
// package spaces.
//
// A view holds no objects and runs nothing: it reads the shared informers of
// all spaces. What a space has is told by a Hub, one per resource for all
// spaces. A view is read-only.
package view

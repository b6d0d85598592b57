// Package properties says what of an object is searched beyond its metadata: what kubectl prints of its
// kind, its conditions, images and owners, what an administrator has configured, and which objects it is
// related to.
//
// What it reads it bounds: objects and the printer columns of definitions are written by tenants, and are
// read by what serves all of them. Of Secrets it reads nothing.
package properties

// Command upgrade checks that a store written by one version of Tenantry is complete in
// another.
//
//	upgrade -before BINARY [-after bin/tenantry]
//
// It writes objects of every kind in objects.yaml, and what comes with two tenants, by the
// one binary, ends it, starts the other on the same state, and compares: each object that
// any space had must be there with the same UID, and whatever nobody has written since,
// with the same content, but for new fields. Then each of its own objects is written, what it has
// published is changed and deleted in every space, and the tenants are deleted.
package main

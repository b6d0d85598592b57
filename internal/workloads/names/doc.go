// Package names says how what belongs to a space is called on a host cluster, and by which marks
// the host's objects are known to be of one installation, tenant, namespace and object.
//
// It is pure. Names are made of UIDs, so that a namespace or a tenant that is created again has
// none of what its predecessor of the name has there.
package names

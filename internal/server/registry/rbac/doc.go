// Package rbac adapts upstream's storage of RBAC objects to spaces. The checks of
// escalation compare with the rights of the user in the space, and a ClusterRole of the
// system space that holds in tenants' spaces needs an extra verb.
package rbac

// Package rbac adapts upstream's storage of RBAC objects to spaces: the checks of
// escalation compare with what a user has in the space, and who lets a
// ClusterRole of the system space hold in tenants' spaces must be allowed to.
package rbac

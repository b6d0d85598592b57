// Package hosttenant makes Tenants of a host cluster Tenants of a ControlPlane, and says on the
// host what becomes of them.
//
// The Tenant of the host says what is wanted; the one in the system space of the ControlPlane is
// made like it, and its status comes back. There is one watch for each ControlPlane with
// Tenants, and nothing for each Tenant. What has been made in the control plane by others is
// left alone, and no Tenant of the host goes before its space has gone. The keys and addresses of
// ControlPlanes are package controlplane's.
package hosttenant

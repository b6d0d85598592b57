// Package authorization decides the tenant boundary before any other authorizer,
// the privileged group system:masters included (arktos-access-control,
// "Authorization"). Behind it the modes of the flags decide, each of them knowing
// tenant and space; across it, what TenantAccessPolicies and ABAC lines grant.
package authorization

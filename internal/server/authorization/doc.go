// Package authorization decides the tenant boundary before any other authorizer, including
// the privileged group system:masters. Inside the boundary, the modes of the flags decide,
// each of them by tenant and space; across it, TenantAccessPolicies and ABAC lines can
// grant requests.
package authorization

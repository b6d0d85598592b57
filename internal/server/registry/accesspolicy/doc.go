// Package accesspolicy serves TenantAccessPolicies, by which a tenant lets users
// of others into its space. It owns the rules about writing them: whoever grants
// must hold what is granted, and a grant is sealed to the tenants that exist when
// they are named, so that a later tenant of the same name has no part in it.
//
// It decides about no request; that is internal/server/authorization's.
package accesspolicy

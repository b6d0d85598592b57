// Package accesspolicy serves TenantAccessPolicies, by which a tenant lets users
// of others into its space. It owns the rules about writing them: whoever grants
// must hold what is granted, and a grant is for the tenants that exist when they are
// named: a digest of their UID keeps later tenants of the same name out.
//
// It decides about no request; that is internal/server/authorization's.
package accesspolicy

// Package tenant serves Tenants, as tenantry.io/v1alpha1 and as core v1 from one
// storage. It owns the rules about them that need more than the schema: the
// built-in tenant "system" and the end of a space through the subresource
// finalize.
package tenant

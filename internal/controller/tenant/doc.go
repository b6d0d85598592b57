// Package tenant reconciles Tenants: it creates a tenant's space, repairs it,
// and empties it when the Tenant is deleted.
//
// A reconcile runs named steps in order (reconciler.go). Each observes through
// the shared cache of children, one watch per kind for all tenants, and writes
// through one shared client; nothing exists per tenant but its objects.
package tenant

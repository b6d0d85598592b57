// Package tenant reconciles Tenants: it creates a tenant's space, repairs it,
// and empties it when the Tenant is deleted.
//
// A reconcile runs named steps in phases (reconciler.go). Each step observes
// through the shared cache of children, one watch per kind for all tenants, and
// writes through one shared client. Nothing exists per tenant but its objects:
// no client, cache, informer or goroutine.
package tenant

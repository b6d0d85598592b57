// Package flowcontrol makes priority and fairness aware of tenants, and enforces
// the limits of a tenant's users on one server.
//
// Upstream's machinery runs unmodified. Control wraps it and adds three things:
//
//   - All users of a tenant are one flow. FlowSchemas see all requests of a tenant as
//     those of the user "tenant:{name}" in the group
//     "tenantry:tenants", and never the names and groups that the tenant gives
//     its users. So no request of a tenant is exempt or has the priority of
//     the system's own components. The FlowSchema "tenants" and the priority
//     level of the same name, objects of the system space, are for all tenants;
//     an administrator may add FlowSchemas for particular tenants.
//   - A list costs what its space holds.
//   - The cost of a write depends on the watches of its space.
//
// FlowSchemas in a tenant's space have no effect.
//
// The limits of Tenant.spec.rateLimit are enforced by each server separately, after
// authorization.
//
// Upstream's seats are of all tenants: a request that waits for its client or for webhooks gives them back, and
// goes on with the seats of its tenant's own queue.
//
// Watches have no seats after their first events. What those of a tenant hold of large events is bounded by each
// server.
//
// The package has no metrics by tenant, and state of active tenants only.
package flowcontrol

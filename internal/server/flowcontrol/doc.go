// Package flowcontrol makes priority and fairness know tenants, and enforces
// what a tenant's users may ask of one server.
//
// Upstream's machinery runs unmodified; Control stands in front of it and tells
// it three things that it cannot know:
//
//   - A tenant is one flow, however many users it has. Its requests are
//     classified as those of the user "tenant:{name}" in the group
//     "tenantry:tenants", never by the names and groups that the tenant gives
//     its users: nothing that a tenant sends is exempt or has the priority of
//     the system's own components. The FlowSchema "tenants" and the priority
//     level of the same name, objects of the system space, are for all of them;
//     an administrator may add FlowSchemas for particular tenants.
//   - A list costs what its space holds.
//   - A write costs what the watches of its space cost.
//
// FlowSchemas in a tenant's own space are objects like others and have no effect.
//
// Limits are those of Tenant.spec.rateLimit. They are enforced by each server
// for itself, after authorization.
//
// The package keeps no metrics by tenant, and state of active tenants only.
package flowcontrol

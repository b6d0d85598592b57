// Package audit decides what the audit log has of each tenant. The log, its files and
// webhooks, and the policy that holds by default are upstream's.
//
// A tenant's own policy (Tenant.spec.auditPolicy) is chosen by the platform. It holds
// instead of the server's for the users of the tenant in its space. What goes across
// a boundary is logged by the server's policy, by that of the user's tenant and by
// that of the space, in the most detail that any of them asks for: nobody leaves the
// log by naming a tenant that is not logged, nor does a tenant that is not logged
// hide what others do in its space, or its users elsewhere. That goes for requests
// that will be refused, too, for those of the system's users, and for users who would
// impersonate others, perhaps of another tenant.
//
// Upstream evaluates policies after authentication and before impersonation, and tells
// them of the user but not of the space. Visitors are users that carry it.
package audit

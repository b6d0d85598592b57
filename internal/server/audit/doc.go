// Package audit decides which requests of each tenant the audit log records, and how much of
// them: events have short texts, and no tokens (Shortened). The log, its files and webhooks,
// and the default policy are upstream's.
//
// The platform chooses a tenant's policy (Tenant.spec.auditPolicy). It replaces the
// server's for the users of the tenant in its space. A request across a boundary is logged
// by the server's policy, by that of the user's tenant and by that of the space, at the
// highest level of them. So users cannot hide from the log by naming a tenant that is not
// logged, and such a tenant cannot hide what others do in its space, or its users
// elsewhere. The same holds for requests that will be refused, for system users, and for
// users who impersonate others, perhaps of another tenant.
//
// Upstream evaluates policies after authentication and before impersonation, and passes
// the user but not the space. A visitor is a user that carries the space.
package audit

// Package offlimits says which networks no tenant reaches, by whatever way: webhooks that the server calls for tenants
// (internal/server/egress), and pods of spaces on a host (internal/workloads/network).
//
// There is one list, so that what one way is known to lead to is closed for the other. It is pure, and a leaf.
package offlimits

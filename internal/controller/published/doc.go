// Package published copies the objects of the system space that are published to
// the spaces of all tenants.
//
// The desired state comes from the system space, the observed state from one watch of
// the copies of each resource in all spaces; there is no watch for each tenant. A copy
// has an annotation with the hash of its content, so that a current copy is neither read
// nor written again.
//
// Copies are written as tenant.Publisher, whom alone the server lets write them. The
// package never changes a tenant's own object, unless the published one says "force".
// How and why is in docs/adr/0010-published-objects-are-copies-written-by-one-publisher.md.
package published

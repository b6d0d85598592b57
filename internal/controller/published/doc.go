// Package published copies the objects of the system space that are published to
// the spaces of all tenants (arktos-access-control, "Enforce policies
// Cross-Tenant").
//
// What is to be is read from the system space, what there is from a watch of the
// copies in all spaces, one for each resource: there is nothing for each tenant. A
// copy says by which content it was written, so that what is current is known
// without reading it and is not written again.
//
// Copies are written as tenant.Publisher, which the server lets write them and
// nobody else. The package never changes a tenant's own object, unless the
// published one says "force".
package published

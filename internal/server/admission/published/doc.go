// Package published keeps the copies of published objects in a space as the
// platform made them (arktos-access-control, "Enforce policies Cross-Tenant").
//
// Its rules are asked twice: in admission, where a refusal comes early and is the
// same for a dry run, and by the storage of every resource, below everything that
// writes an object without its own metadata being part of the request: scale,
// eviction, finalizers, the deletion of a collection or of what is in a
// namespace.
//
// The rules decide by the marks on the object alone and read nothing. Only the
// publisher writes marks, so a mark that is there can be relied on.
package published

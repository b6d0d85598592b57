// Package published keeps the copies of published objects in a space as the
// platform made them (arktos-access-control, "Enforce policies Cross-Tenant").
//
// Its rules are asked twice: in admission, where a refusal comes early and is the
// same for a dry run, and by the storage of every resource, below everything that
// writes an object without its own metadata being part of the request: scale,
// eviction, finalizers, the deletion of a collection or of what is in a
// namespace.
//
// In a space, the rules decide by the marks on the object alone and read nothing. Only
// the publisher writes marks, so a mark that is there can be relied on.
//
// In the system space, they keep what is published, and the annotation that publishes
// it, to those who have the verbs Verb and ForceVerb (originals.go): who changes it
// changes every space. What carries no annotation costs a look at the annotations.
package published

// Package published protects published objects from users without the right to publish,
// and their copies in spaces from anybody but the publisher.
//
// Its rules are applied twice: in admission, where a refusal comes early and is the same
// for a dry run, and in the storage of every resource, below everything that writes an
// object whose metadata is not part of the request: scale, eviction, finalizers, the
// deletion of a collection or of the contents of a namespace.
//
// In a space, the rules depend on the marks on the object alone. Only the publisher writes
// marks, so they can be trusted.
//
// In the system space, only users with the verbs publishVerb and forceVerb may change published
// objects, and the annotation that publishes them (originals.go): a change of such an object
// changes every space. Objects without the annotation cost nothing else.
package published

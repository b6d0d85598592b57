// Package spaces offers the objects of every space at once to code that knows
// only one cluster: admission plugins, authorizers and the upstream controllers.
//
// It owns the flattened view, in which namespace foo of tenant acme is called
// "acme|foo" (tenant.Flatten) and cluster-scoped object x of tenant acme is
// called "acme|x", while the names of the system space stay as they are. Two
// objects of different spaces never have the same namespace and name in it, so
// whatever joins objects by namespace and name works in every space and never
// across two.
//
//   - NewInformerFactory reads it: one reflector per resource for all spaces.
//   - NewClientConfig writes it: a client whose transport maps the names of each
//     request to the space they belong to, and those of the response back.
//
// Objects are flattened while they are decoded, not by an informer's transform:
// reflectors and queues compute keys before they transform, and by those keys
// equal names of two spaces would be one object.
//
// The view serves trusted code inside the server. It must never be offered to
// users, and nothing here may start work per tenant.
package spaces

// Package search answers what exists, over all resources of a space, with exactly the objects that
// the caller may list.
//
// One goroutine follows the stream of all changes. What decides rights it tells package rights at once;
// everything else waits in a queue for the database of package index. An answer is made of one state
// of the rights, no older than the request, and of one state of the database, no older than the last
// change of these rights. What is not sure of that answers 503, and never a part for the whole.
//
// Nothing here writes objects, and nothing runs for a tenant.
package search

package sync

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// room bounds how many objects of a kind there are in a namespace of the host.
type room struct {
	mu sync.Mutex
	// full are those in which there was no room for one more object.
	full sets.Set[namespaceKind]
}

// namespaceKind is a kind of objects in a namespace of the host.
type namespaceKind struct {
	kind      kind
	namespace string
}

func newRoom() *room { return &room{full: sets.New[namespaceKind]()} }

// has reports whether there is room for one more object. If not, what is refused is to be looked at again when freed says so.
func (r *room) has(at namespaceKind, objects cache.Indexer, most int) bool {
	if count(objects, at.namespace) < most {
		return true
	}
	r.mu.Lock()
	r.full.Insert(at)
	r.mu.Unlock()
	return count(objects, at.namespace) < most // one may have gone before it was noted
}

// freed notes that an object has gone, and reports whether another one was refused before.
func (r *room) freed(at namespaceKind) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.full.Has(at)
	r.full.Delete(at)
	return was
}

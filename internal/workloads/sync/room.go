package sync

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// room bounds how many objects of a kind there are in a namespace of the host, or of a tenant.
type room struct {
	mu sync.Mutex
	// full are those in which there was no room for one more object.
	full sets.Set[kindIn]
}

// kindIn is a kind of objects, and where they are counted: in a namespace of the host, or in all those of a tenant.
type kindIn struct {
	kind kind
	name string
}

func newRoom() *room { return &room{full: sets.New[kindIn]()} }

// has reports whether there is room for one more object, where there are at most so many in some namespaces. If not,
// what is refused is to be looked at again when freed says so.
func (r *room) has(at kindIn, most int, objects cache.Indexer, namespaces ...string) bool {
	if count(objects, namespaces...) < most {
		return true
	}
	r.mu.Lock()
	r.full.Insert(at)
	r.mu.Unlock()
	return count(objects, namespaces...) < most // one may have gone before it was noted
}

// freed notes that an object has gone, and reports whether another one was refused before.
func (r *room) freed(at kindIn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.full.Has(at)
	r.full.Delete(at)
	return was
}

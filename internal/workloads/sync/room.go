package sync

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
)

// room bounds how many objects of a kind there are in a namespace of the host.
type room struct {
	mu sync.Mutex
	// full are the places in which there was no room for one more object.
	full sets.Set[place]
}

// place is a namespace of the host, of which the objects of a kind are counted.
type place struct {
	kind      kind
	namespace string
}

func newRoom() *room { return &room{full: sets.New[place]()} }

// has reports whether there is room for one more object. If not, what is refused is to be looked at again when freed says so.
func (r *room) has(at place, objects cache.Indexer, most int) (bool, error) {
	fits := func() (bool, error) {
		keys, err := objects.IndexKeys(cache.NamespaceIndex, at.namespace)
		if err != nil {
			return false, fmt.Errorf("counting what is in a namespace of the host: %w", err)
		}
		return len(keys) < most, nil
	}
	if ok, err := fits(); ok || err != nil {
		return ok, err
	}
	r.mu.Lock()
	r.full.Insert(at)
	r.mu.Unlock()
	return fits() // one may have gone before it was noted
}

// freed notes that an object has gone, and reports whether another one was refused before.
func (r *room) freed(at place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.full.Has(at)
	r.full.Delete(at)
	return was
}

package rbac

import (
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// collections are objects by a key, such as their space. What readers get of those of a key is
// made when it is read first after a change, however many changes there were, by the reader and
// under no lock: who has many objects waits for them and nobody else does.
type collections[K comparable, T metav1.Object, R any] struct {
	// read makes what readers get of all objects of a key, of which there are some.
	read func(key K, objects []T) R

	mu sync.RWMutex
	of map[K]*collection[T, R]
}

func newCollections[K comparable, T metav1.Object, R any](read func(K, []T) R) collections[K, T, R] {
	return collections[K, T, R]{read: read, of: map[K]*collection[T, R]{}}
}

// collection is the objects of a key by name.
type collection[T metav1.Object, R any] struct {
	mu     sync.Mutex
	byName map[string]T
	// made is what readers get.
	made func() R
}

// get returns what is read of the objects of a key. It reports false if there are none.
func (c *collections[K, T, R]) get(key K) (R, bool) {
	c.mu.RLock()
	in, ok := c.of[key]
	c.mu.RUnlock()
	if !ok {
		var none R
		return none, false
	}
	in.mu.Lock()
	made := in.made
	in.mu.Unlock()
	return made(), true
}

// set replaces the object of a key and a name, or deletes it. It is called by one goroutine.
func (c *collections[K, T, R]) set(key K, obj T, deleted bool) {
	c.mu.RLock()
	in, known := c.of[key]
	c.mu.RUnlock()
	if !known {
		in = &collection[T, R]{byName: map[string]T{}}
	}
	left := in.set(obj, deleted, func() R { return c.read(key, in.list()) })
	if known == (left > 0) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known {
		delete(c.of, key)
	} else {
		c.of[key] = in
	}
}

// set returns how many objects there are now.
func (c *collection[T, R]) set(obj T, deleted bool, read func() R) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !deleted {
		c.byName[obj.GetName()] = obj
	} else if _, known := c.byName[obj.GetName()]; known {
		delete(c.byName, obj.GetName())
	} else {
		return len(c.byName)
	}
	c.made = sync.OnceValue(read)
	return len(c.byName)
}

func (c *collection[T, R]) list() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(make([]T, 0, len(c.byName)), maps.Values(c.byName))
}

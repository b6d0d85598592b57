package keyed

import (
	"maps"
	"sync"
)

// Values has a value for each key, for many at once, until it is deleted. The zero value is ready for use.
type Values[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

// Get returns the value of a key, the zero value if it has none.
func (v *Values[K, V]) Get(key K) V {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.of[key]
}

// All returns all values, in a map that the caller may change.
func (v *Values[K, V]) All() map[K]V {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.of)
}

// Set gives a key a value, and returns the one before.
func (v *Values[K, V]) Set(key K, value V) (before V) {
	v.Change(key, func(found V) V {
		before = found
		return value
	})
	return before
}

// Change gives a key what change makes of its value, the zero value if it has none, and returns that. There is no other
// change meanwhile.
func (v *Values[K, V]) Change(key K, change func(value V) V) V {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.of == nil {
		v.of = map[K]V{}
	}
	v.of[key] = change(v.of[key])
	return v.of[key]
}

// GetOrSet returns the value of a key, which it gives it if it has none.
func (v *Values[K, V]) GetOrSet(key K, value V) V {
	v.mu.Lock()
	defer v.mu.Unlock()
	if found, ok := v.of[key]; ok {
		return found
	}
	if v.of == nil {
		v.of = map[K]V{}
	}
	v.of[key] = value
	return value
}

// Delete takes away the value of a key, and returns it.
func (v *Values[K, V]) Delete(key K) V {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer delete(v.of, key)
	return v.of[key]
}

// DeleteIf takes away the value of a key if that is still what the caller has seen.
func (v *Values[K, V]) DeleteIf(key K, isSame func(value V) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if found, ok := v.of[key]; ok && isSame(found) {
		delete(v.of, key)
	}
}

// Clear takes away all values.
func (v *Values[K, V]) Clear() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.of)
}

// Len returns how many keys have values.
func (v *Values[K, V]) Len() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.of)
}

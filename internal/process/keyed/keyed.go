package keyed

import "sync"

// Map has a value for each key that is in use. The zero value is ready for use.
type Map[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]*used[V]
}

type used[V any] struct {
	value V
	users int
}

// Use returns the value of a key, made by newValue for the first user, and how many use it
// now, this one included. The caller calls leave once, when it uses it no longer.
func (m *Map[K, V]) Use(key K, newValue func() V) (value V, users int, leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[K]*used[V]{}
	}
	u := m.of[key]
	if u == nil {
		u = &used[V]{value: newValue()}
		m.of[key] = u
	}
	u.users++
	return u.value, u.users, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if u.users--; u.users == 0 {
			delete(m.of, key)
		}
	}
}

// Users returns how many use the value of a key.
func (m *Map[K, V]) Users(key K) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.of[key]; u != nil {
		return u.users
	}
	return 0
}

// Len returns how many keys are in use.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.of)
}

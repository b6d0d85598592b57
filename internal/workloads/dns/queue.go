package dns

import (
	"slices"
	"sync"
)

// queue has places in which parties wait. When all are taken, the party with the most loses its last one to whoever
// comes. There is nothing of a party that does not wait.
type queue[K comparable] struct {
	places int

	mu      sync.Mutex
	waiting map[K][]chan bool
	// order has each party that waits once.
	order []K
	taken int
}

func newQueue[K comparable](places int) queue[K] {
	return queue[K]{places: places, waiting: map[K][]chan bool{}}
}

// wait takes one more place for a party. What it returns says false if that is lost.
func (q *queue[K]) wait(k K) chan bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(k)
}

// leave gives a place back, and reports whether it was not lost.
func (q *queue[K]) leave(k K, place chan bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(k, place)
}

// add is wait. The lock is held.
func (q *queue[K]) add(k K) chan bool {
	if q.taken >= q.places {
		q.displace()
	}
	place := make(chan bool, 1)
	if len(q.waiting[k]) == 0 {
		q.order = append(q.order, k)
	}
	q.waiting[k] = append(q.waiting[k], place)
	q.taken++
	return place
}

// displace takes the last place of the party that has the most. The lock is held.
func (q *queue[K]) displace() {
	if len(q.order) == 0 {
		return
	}
	most := slices.MaxFunc(q.order, func(a, b K) int { return len(q.waiting[a]) - len(q.waiting[b]) })
	last := q.waiting[most][len(q.waiting[most])-1]
	q.remove(most, last)
	last <- false
}

// remove is leave. The lock is held.
func (q *queue[K]) remove(k K, place chan bool) bool {
	i := slices.Index(q.waiting[k], place)
	if i < 0 {
		return false
	}
	q.taken--
	if q.waiting[k] = slices.Delete(q.waiting[k], i, i+1); len(q.waiting[k]) == 0 {
		delete(q.waiting, k)
		q.order = slices.DeleteFunc(q.order, func(other K) bool { return other == k })
	}
	return true
}

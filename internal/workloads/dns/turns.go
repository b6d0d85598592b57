package dns

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// errBusy is that too many wait for their turn.
var errBusy = errors.New("too many questions wait for their turn")

// turns has parties take turns at what can be done so many times at once. There is nothing of a party that neither does
// nor waits for anything.
type turns[K comparable] struct {
	// most is how many may be at it at once, share how many of one party, and queue how many of all may wait.
	most, share, queue int

	mu      sync.Mutex
	busy    int
	used    map[K]int
	waiting map[K][]chan bool
	// order has each party that waits once: the first has the next turn.
	order  []K
	queued int
}

func newTurns[K comparable](most, queue int) *turns[K] {
	return &turns[K]{most: most, share: max(1, most/4), queue: queue, used: map[K]int{}, waiting: map[K][]chan bool{}}
}

// try returns what is to be called at the end of a turn, if there is one without a wait.
func (t *turns[K]) try(k K) (end func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy >= t.most || t.used[k] >= t.share || len(t.waiting[k]) > 0 {
		return nil, false
	}
	t.busy++
	t.used[k]++
	return func() { t.end(k) }, true
}

// begin waits for a turn, and returns what is to be called at its end. Its error is errBusy, because ctx has ended or too
// many wait: then one less of the party waits that has the most.
func (t *turns[K]) begin(ctx context.Context, k K) (end func(), err error) {
	if end, ok := t.try(k); ok {
		return end, nil
	}
	turn := t.wait(k)
	select {
	case granted := <-turn:
		if !granted {
			return nil, errBusy
		}
		return func() { t.end(k) }, nil
	case <-ctx.Done():
		t.leave(k, turn)
		return nil, errBusy
	}
}

// wait has a party wait for one more turn. What it returns says once whether it has got it.
func (t *turns[K]) wait(k K) chan bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queued >= t.queue {
		t.displace()
	}
	turn := make(chan bool, 1)
	if len(t.waiting[k]) == 0 {
		t.order = append(t.order, k)
	}
	t.waiting[k] = append(t.waiting[k], turn)
	t.queued++
	t.dispatch()
	return turn
}

// displace takes the last place of the party that has the most.
func (t *turns[K]) displace() {
	if len(t.order) == 0 {
		return
	}
	most := slices.MaxFunc(t.order, func(a, b K) int { return len(t.waiting[a]) - len(t.waiting[b]) })
	last := t.waiting[most][len(t.waiting[most])-1]
	t.remove(most, last)
	last <- false
}

// dispatch gives turns as long as there are some.
func (t *turns[K]) dispatch() {
	for passed := 0; t.busy < t.most && passed < len(t.order); {
		k := t.order[0]
		t.order = append(t.order[1:], k)
		if t.used[k] >= t.share {
			passed++
			continue
		}
		passed = 0
		turn := t.waiting[k][0]
		t.remove(k, turn)
		t.busy++
		t.used[k]++
		turn <- true
	}
}

// remove takes out what waits, and reports whether it was there.
func (t *turns[K]) remove(k K, turn chan bool) bool {
	i := slices.Index(t.waiting[k], turn)
	if i < 0 {
		return false
	}
	t.queued--
	if t.waiting[k] = slices.Delete(t.waiting[k], i, i+1); len(t.waiting[k]) == 0 {
		delete(t.waiting, k)
		t.order = slices.DeleteFunc(t.order, func(other K) bool { return other == k })
	}
	return true
}

// leave waits no longer. What was given meanwhile is given back.
func (t *turns[K]) leave(k K, turn chan bool) {
	t.mu.Lock()
	waited := t.remove(k, turn)
	t.mu.Unlock()
	if !waited && <-turn {
		t.end(k)
	}
}

func (t *turns[K]) end(k K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.used[k]--; t.used[k] == 0 {
		delete(t.used, k)
	}
	t.dispatch()
}

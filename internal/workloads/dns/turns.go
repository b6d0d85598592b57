package dns

import (
	"context"
	"errors"
)

// errBusy is that too many wait for their turn.
var errBusy = errors.New("too many questions wait for their turn")

// turns has parties take turns at what can be done so many times at once. There is nothing of a party that neither does
// nor waits for anything. The first of the queue's parties has the next turn.
type turns[K comparable] struct {
	queue[K]
	// most is how many may be at it at once, and share how many of one party.
	most, share int

	busy int
	used map[K]int
}

func newTurns[K comparable](most, share, places int) *turns[K] {
	return &turns[K]{queue: newQueue[K](places), most: most, share: share, used: map[K]int{}}
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

// begin waits for a turn, and returns what is to be called at its end. Its error is errBusy, because ctx has ended or
// too many wait: then one less of the party waits that has the most.
func (t *turns[K]) begin(ctx context.Context, k K) (end func(), err error) {
	if end, ok := t.try(k); ok {
		return end, nil
	}
	turn := t.await(k)
	select {
	case granted := <-turn:
		if !granted {
			return nil, errBusy
		}
		return func() { t.end(k) }, nil
	case <-ctx.Done():
		if !t.leave(k, turn) && <-turn { // it was given meanwhile
			t.end(k)
		}
		return nil, errBusy
	}
}

// await has a party wait for one more turn. What it returns says once whether it has got it.
func (t *turns[K]) await(k K) chan bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := t.add(k)
	t.dispatch()
	return turn
}

// dispatch gives turns as long as there are some. The lock is held.
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

func (t *turns[K]) end(k K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	if t.used[k]--; t.used[k] == 0 {
		delete(t.used, k)
	}
	t.dispatch()
}

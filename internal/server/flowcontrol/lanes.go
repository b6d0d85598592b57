package flowcontrol

import (
	"context"
	"slices"
	"sync"

	"github.com/tenantry/tenantry/internal/tenant"
)

// waiting is how many requests of a tenant may wait for its lane.
const waiting = 200

// lanes bounds how many requests of a tenant are executed at a time; further
// ones wait. Upstream's queues see to it that tenants get seats in turn, but not
// that one tenant leaves any: answers that nobody reads, or webhooks of the
// tenant that do not answer, would hold all of them.
//
// There is a lane for a tenant only while it has requests.
type lanes struct {
	lanes sync.Map // laneKey to *lane
}

type laneKey struct {
	tenant tenant.Name
	class  class
}

// class is what a request is like.
type class int

const (
	read class = iota
	write
	largeRead
)

type lane struct {
	mu      sync.Mutex
	running int
	queue   []chan struct{} // closed when it is a request's turn
	dropped bool            // no longer in lanes; another takes its place
}

// enter waits until a request may be executed and reports whether it may. The
// caller must call leave then. queued is told when the request begins and ends
// to wait.
func (l *lanes) enter(ctx context.Context, key laneKey, capacity int, queued func(bool)) (leave func(), ok bool) {
	own := l.lock(key)
	leave = func() { l.leave(key, own) }
	if own.running < capacity && len(own.queue) == 0 {
		own.running++
		own.mu.Unlock()
		return leave, true
	}
	if len(own.queue) >= waiting {
		own.mu.Unlock()
		return nil, false
	}
	turn := make(chan struct{})
	own.queue = append(own.queue, turn)
	own.mu.Unlock()
	queued(true)
	defer queued(false)
	select {
	case <-turn:
		return leave, true
	case <-ctx.Done():
	}
	if own.abandon(turn) {
		return nil, false
	}
	return leave, true // its turn came at the same moment
}

// lock returns the lane of key, locked.
func (l *lanes) lock(key laneKey) *lane {
	for {
		found, ok := l.lanes.Load(key)
		if !ok {
			found, _ = l.lanes.LoadOrStore(key, &lane{})
		}
		own := found.(*lane)
		own.mu.Lock()
		if !own.dropped {
			return own
		}
		own.mu.Unlock()
	}
}

// abandon takes a request out of the queue and reports whether it was there.
func (l *lane) abandon(turn chan struct{}) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.queue, turn)
	if at < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	return true
}

// leave passes the place of a request on.
func (l *lanes) leave(key laneKey, own *lane) {
	own.mu.Lock()
	defer own.mu.Unlock()
	if len(own.queue) > 0 {
		close(own.queue[0])
		own.queue = slices.Delete(own.queue, 0, 1)
		return
	}
	if own.running--; own.running == 0 {
		own.dropped = true
		l.lanes.CompareAndDelete(key, own)
	}
}

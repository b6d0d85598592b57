package flowcontrol

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// waiting is how many requests of a tenant may wait for a lane.
	waiting = 200
	// patience is after how long a write that is still executed is taken to wait
	// itself, as for a webhook, and no longer to keep a core busy. Others may begin
	// then, among them those that the webhook sends.
	patience = 200 * time.Millisecond
	// mostLate is how many requests, as a multiple of the lane's capacity, are
	// executed in all.
	mostLate = 8
)

// lanes bounds how many requests of a tenant are executed at a time; further
// ones wait. Upstream's queues see to it that tenants get seats in turn, but not
// that one tenant leaves any: answers that nobody reads, or webhooks of the
// tenant that do not answer, would hold all of them.
//
// There is a lane for a tenant only while it has requests.
type lanes struct {
	lanes sync.Map // laneKey to *lane
	later func(time.Duration, func()) (stop func() bool)
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
	mu       sync.Mutex
	capacity int
	prompt   int             // requests under way, without
	late     int             // those that wait themselves
	queue    []chan struct{} // closed when it is a request's turn
	dropped  bool            // no longer in lanes; another takes its place
}

// leave ends a request's time in a lane, now or later.
type leave func(later time.Duration)

// enter waits until a request may be executed and reports whether it may. The
// caller must call leave then. queued is told when the request begins and ends
// to wait.
func (l *lanes) enter(ctx context.Context, key laneKey, capacity int, queued func(bool)) (leave leave, ok bool) {
	own := l.lock(key)
	own.capacity = capacity
	if len(own.queue) == 0 && own.hasRoom() {
		own.prompt++
		own.mu.Unlock()
		return l.begin(key, own), true
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
	case <-ctx.Done():
		if own.abandon(turn) {
			return nil, false
		}
		// Its turn came at the same moment.
	}
	return l.begin(key, own), true
}

// begin is called when a request is counted as prompt. It returns what ends it.
func (l *lanes) begin(key laneKey, own *lane) leave {
	counted := &own.prompt // by which number, under own's lock
	ended := false
	stop := func() bool { return true }
	if key.class == write {
		stop = l.later(patience, func() {
			own.mu.Lock()
			defer own.mu.Unlock()
			if ended {
				return
			}
			own.prompt--
			own.late++
			counted = &own.late
			own.next()
		})
	}
	end := func() {
		own.mu.Lock()
		defer own.mu.Unlock()
		ended = true
		*counted--
		own.next()
		if own.prompt+own.late == 0 {
			own.dropped = true
			l.lanes.CompareAndDelete(key, own)
		}
	}
	return func(later time.Duration) {
		stop()
		if later > 0 {
			l.later(later, end)
		} else {
			end()
		}
	}
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

func (l *lane) hasRoom() bool {
	return l.prompt < l.capacity && l.prompt+l.late < mostLate*l.capacity
}

// next gives requests that wait their turn, as far as there is room.
func (l *lane) next() {
	for len(l.queue) > 0 && l.hasRoom() {
		l.prompt++
		close(l.queue[0])
		l.queue = slices.Delete(l.queue, 0, 1)
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

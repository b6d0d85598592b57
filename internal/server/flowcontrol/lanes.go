package flowcontrol

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
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
	prompt   int       // places of requests under way, without
	overdue  int       // those of requests that may wait or be at work, and
	late     int       // those of requests that wait for webhooks or their clients
	back     []*stay   // whose clients have sent their bodies, before
	queue    []*waiter // new requests, both in the order of their arrival
	dropped  bool      // no longer in lanes; another takes its place
	costs    costs
}

// waiter is a request that waits for its turn.
type waiter struct {
	turn   chan struct{} // closed when it is
	places int
}

// order is what a request wants of a lane.
type order struct {
	key laneKey
	// capacity is how many places the lane has.
	capacity int
	// costly is whether the request is known to keep a core busy for long.
	costly bool
	// body is what the client of a write may still have to send, nil if nothing.
	body *incoming
}

// places returns how many the request takes.
func (o order) places() int {
	if o.costly {
		return min(costlyWeight, o.capacity)
	}
	return 1
}

func (o order) patience() time.Duration {
	if o.costly {
		return costlyPatience
	}
	return patience
}

// leave ends a request's time in a lane, now or later. busy is for how long it kept a
// core busy.
type leave func(later, busy time.Duration)

// enter waits until a request may be executed and reports whether it may. The
// caller must call leave then. queued is told when the request begins and ends
// to wait.
func (l *lanes) enter(ctx context.Context, o order, queued func(bool)) (leave leave, ok bool) {
	own := l.lock(o.key)
	own.capacity = o.capacity
	if len(own.queue) == 0 && own.hasRoom(o.places()) {
		own.prompt += o.places()
		own.mu.Unlock()
		return l.begin(ctx, o, own), true
	}
	if len(own.queue) >= waitingRequests {
		own.mu.Unlock()
		return nil, false
	}
	w := &waiter{turn: make(chan struct{}), places: o.places()}
	own.queue = append(own.queue, w)
	own.mu.Unlock()
	queued(true)
	defer queued(false)
	select {
	case <-w.turn:
	case <-ctx.Done():
		if own.abandon(w) {
			return nil, false
		}
		// Its turn came at the same moment.
	}
	return l.begin(ctx, o, own), true
}

// begin is called when a request is counted as prompt. It returns what ends it.
func (l *lanes) begin(ctx context.Context, o order, own *lane) leave {
	s := &stay{ctx: ctx, lane: own, order: o, counted: &own.prompt, later: l.later, stop: func() bool { return true }}
	if o.key.class == write {
		s.receiving = o.body.notify(s.received)
		s.watchTime()
		waiting.Notify(ctx, func(waits bool) {
			if waits {
				s.move(&own.late)
			} else {
				s.move(&own.prompt)
			}
		})
	}
	return func(later, busy time.Duration) {
		s.halt()
		waiting.Notify(ctx, nil)
		own.note(busy)
		if later > 0 {
			l.later(later, func() { l.end(s) })
		} else {
			l.end(s)
		}
	}
}

// end takes a request out of its lane, and the lane away after its last one.
func (l *lanes) end(s *stay) {
	own := s.lane
	own.mu.Lock()
	defer own.mu.Unlock()
	s.recount(nil)
	own.next()
	if own.prompt+own.overdue+own.late == 0 {
		own.dropped = true
		l.lanes.CompareAndDelete(s.order.key, own)
	}
}

// note adds what a request has cost.
func (l *lane) note(busy time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.costs.note(busy, time.Now())
}

// costly reports whether the requests in a lane keep a core busy for long, by those
// before.
func (l *lanes) costly(key laneKey) bool {
	found, ok := l.lanes.Load(key)
	if !ok {
		return false
	}
	own := found.(*lane)
	own.mu.Lock()
	defer own.mu.Unlock()
	return own.costs.likely() >= costlyTime
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

// hasRoom reports whether a new request may begin.
func (l *lane) hasRoom(places int) bool {
	return len(l.back) == 0 && l.free(places) && l.prompt+l.overdue+l.late+places <= mostLate*l.capacity
}

// free reports whether so many places are free.
func (l *lane) free(places int) bool {
	return l.prompt+max(0, l.overdue-l.spare())+places <= l.capacity
}

// spare is how many places of overdue requests others may have, half of all.
func (l *lane) spare() int { return max(1, l.capacity/costlyWeight) }

// next gives requests that wait their turn, as far as there is room.
func (l *lane) next() {
	for len(l.back) > 0 && l.free(min(l.back[0].order.places(), l.capacity)) {
		s := l.back[0]
		s.recount(&l.prompt)
		close(s.turn)
		l.back = slices.Delete(l.back, 0, 1)
	}
	for len(l.queue) > 0 && l.hasRoom(min(l.queue[0].places, l.capacity)) {
		l.prompt += l.queue[0].places
		close(l.queue[0].turn)
		l.queue = slices.Delete(l.queue, 0, 1)
	}
}

// abandon takes a request out of the queue and reports whether it was there.
func (l *lane) abandon(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.queue, w)
	if at < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, at, at+1)
	return true
}

package flowcontrol

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/server/flowcontrol/waiting"
	"github.com/tenantry/tenantry/internal/tenant"
)

// fairQueues limits how many requests of a tenant are executed at a time; further
// requests wait. Upstream's queues give tenants seats in turn, but do not prevent
// one tenant from occupying all of them with responses that its clients do not read, or
// with webhooks that do not answer.
//
// A queue exists only while its tenant has requests.
type fairQueues struct {
	queues     keyed.Map[queueKey, *fairQueue]
	collecting atomic.Bool
	afterFunc  func(time.Duration, func()) (stop func() bool)
}

// afterFunc calls do after some time, unless it is stopped.
func afterFunc(after time.Duration, do func()) (stop func() bool) {
	return time.AfterFunc(after, do).Stop
}

type queueKey struct {
	tenant tenant.Name
	class  class
}

// class is a kind of requests by their cost.
type class int

const (
	read class = iota
	write
	largeRead
)

// fairQueue is the queue of one tenant and class, and the seats of its requests that are
// executed.
type fairQueue struct {
	mu        sync.Mutex
	capacity  int
	running   int          // seats of requests that are neither overdue nor blocked
	overdue   int          // seats of requests that may be waiting or running
	blocked   int          // seats of requests that wait for webhooks or their clients
	returning []*execution // blocked requests whose clients have sent their bodies, first
	queue     []*waiter    // new requests; both in the order of arrival
	costs     costs
}

func newFairQueue() *fairQueue { return &fairQueue{} }

// waiter is a request in the queue.
type waiter struct {
	ready chan struct{} // closed when the request may begin
	seats int
}

// demand is what a request needs of a queue.
type demand struct {
	key queueKey
	// capacity is the number of seats of the queue.
	capacity int
	// costly is whether the request is known to keep a core busy for long.
	costly bool
	// body is the body that the client of a write may still send, nil if none.
	body *incoming
	// seat is what a write has of the level's seats.
	seat *levelSeat
}

// seats returns how many seats the request takes.
func (d demand) seats() int {
	if d.costly {
		return min(costlySeats, d.capacity)
	}
	return 1
}

// overdueAfter returns the time after which the request is overdue.
func (d demand) overdueAfter() time.Duration {
	if d.costly {
		return costlyOverdueAfter
	}
	return overdueAfter
}

// leave releases a request's seats after hold or, if the request was answered while it was
// at work, when its work has ended. busy is how long the request kept a core busy.
type leave func(hold, busy time.Duration)

// enter waits until a request may be executed and reports whether it may. The
// caller must call leave then. queued is called when the request starts and stops
// waiting.
func (f *fairQueues) enter(ctx context.Context, d demand, queued func(bool)) (leave leave, ok bool) {
	q, _, release := f.queues.Use(d.key, newFairQueue)
	q.mu.Lock()
	q.capacity = d.capacity
	if len(q.queue) == 0 && q.hasRoom(d.seats()) {
		q.running += d.seats()
		q.mu.Unlock()
		return f.begin(ctx, d, q, release), true
	}
	if len(q.queue) >= maxQueued {
		q.mu.Unlock()
		release()
		return nil, false
	}
	w := &waiter{ready: make(chan struct{}), seats: d.seats()}
	q.queue = append(q.queue, w)
	q.mu.Unlock()
	queued(true)
	defer queued(false)
	select {
	case <-w.ready:
	case <-ctx.Done():
		if q.abandon(w) {
			release()
			return nil, false
		}
		// It became ready at the same moment.
	}
	return f.begin(ctx, d, q, release), true
}

// begin is called when a request is counted as running. It returns the function that ends it.
func (f *fairQueues) begin(ctx context.Context, d demand, q *fairQueue, release func()) leave {
	e := &execution{queue: q, release: release, demand: d, counted: &q.running, afterFunc: f.afterFunc, stop: func() bool { return true }}
	if d.key.class == write {
		e.receiving = d.body.notify(func() error {
			ctx, end := anew(ctx)
			defer end()
			return e.received(ctx)
		})
		e.startTimer()
		answered := func() {}
		waiting.Notify(ctx, func(waits bool) {
			if waits {
				e.move(&q.blocked)
				answered = d.seat.waiting()
			} else {
				e.move(&q.running)
				answered()
			}
		})
	}
	return func(hold, busy time.Duration) {
		e.stopTimer()
		waiting.Notify(ctx, nil)
		q.note(busy)
		switch {
		case d.key.class == write && isUnended(ctx) && !d.body.hasFailed():
			d.body.forget()
			f.endWithWork(workFrom(ctx), e)
		case hold > 0:
			f.afterFunc(hold, e.end)
		default:
			e.end()
		}
	}
}

// note adds the cost of a request.
func (q *fairQueue) note(busy time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.costs.note(busy, time.Now())
}

// costly reports whether the recent requests in a queue have kept a core busy for
// long.
func (f *fairQueues) costly(key queueKey) bool {
	q, _, release := f.queues.Use(key, newFairQueue)
	defer release()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.costs.likely() >= costlyTime
}

// hasRoom reports whether a new request may begin.
func (q *fairQueue) hasRoom(seats int) bool {
	return len(q.returning) == 0 && q.free(seats) && q.running+q.overdue+q.blocked+seats <= maxExecuting*q.capacity
}

// free reports whether so many seats are free.
func (q *fairQueue) free(seats int) bool {
	return q.running+max(0, q.overdue-q.spare())+seats <= q.capacity
}

// spare is how many seats of overdue requests other requests may take: half of all.
func (q *fairQueue) spare() int { return max(1, q.capacity/costlySeats) }

// next starts requests that wait, as far as there is room.
func (q *fairQueue) next() {
	for len(q.returning) > 0 && q.free(min(q.returning[0].demand.seats(), q.capacity)) {
		e := q.returning[0]
		e.recount(&q.running)
		close(e.ready)
		q.returning = slices.Delete(q.returning, 0, 1)
	}
	for len(q.queue) > 0 && q.hasRoom(min(q.queue[0].seats, q.capacity)) {
		q.running += q.queue[0].seats
		close(q.queue[0].ready)
		q.queue = slices.Delete(q.queue, 0, 1)
	}
}

// abandon removes a request from the queue and reports whether it was there.
func (q *fairQueue) abandon(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.Index(q.queue, w)
	if at < 0 {
		return false
	}
	q.queue = slices.Delete(q.queue, at, at+1)
	q.next() // those behind it may need fewer seats
	return true
}

package flowcontrol

import (
	"context"
	"slices"
	"time"
)

// execution is a request that has seats in a queue. The queue's lock guards its state.
type execution struct {
	queue     *fairQueue
	release   func() // of the queue
	demand    demand
	counted   *int // which of the queue's numbers counts it; nil after its end
	receiving bool // the client has not sent the whole body
	ready     chan struct{}
	afterFunc func(time.Duration, func()) (stop func() bool)
	stop      func() bool
}

// startTimer makes a request overdue after some time, or blocked while it receives its body.
func (e *execution) startTimer() {
	timeout := e.demand.overdueAfter()
	if e.receiving {
		timeout = bodyTimeout
	}
	e.stop = e.afterFunc(timeout, func() {
		e.queue.mu.Lock()
		defer e.queue.mu.Unlock()
		switch {
		case e.counted != &e.queue.running: // it is overdue or blocked already
		case e.receiving:
			e.recount(&e.queue.blocked)
		default:
			e.recount(&e.queue.overdue)
		}
		e.queue.next()
	})
}

// stopTimer ends startTimer.
func (e *execution) stopTimer() {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	e.stop()
}

// received is called when the client has sent the body. If the request is blocked,
// received waits until there are seats for it again. Without, it returns an error.
func (e *execution) received(ctx context.Context) (err error) {
	if ready := e.resume(); ready != nil {
		select {
		case <-ready:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		e.endWait()
	}
	return err
}

// resume returns a channel to wait for, nil if the request needs not wait.
func (e *execution) resume() (ready <-chan struct{}) {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	e.receiving = false
	e.stop()
	switch e.counted {
	case nil:
	case &e.queue.blocked:
		e.ready = make(chan struct{})
		e.queue.returning = append(e.queue.returning, e)
		e.queue.next()
	default:
		e.startTimer()
	}
	return e.ready
}

// endWait ends the wait for seats, whether they are there or not.
func (e *execution) endWait() {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	if at := slices.Index(e.queue.returning, e); at >= 0 {
		e.queue.returning = slices.Delete(e.queue.returning, at, at+1)
		e.queue.next()
		return
	}
	if e.counted != nil {
		e.startTimer()
	}
}

// move counts a request in another number of its queue, and starts others if it can.
func (e *execution) move(to *int) {
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	if e.counted != nil && e.counted != to {
		e.recount(to)
		e.queue.next()
	}
}

// recount is move for callers with the lock, and starts no others. Nil ends the request.
func (e *execution) recount(to *int) {
	seats := e.demand.seats()
	*e.counted -= seats
	if to != nil {
		*to += seats
	}
	e.counted = to
}

// end releases a request's seats, and the queue.
func (e *execution) end() {
	defer e.release()
	e.queue.mu.Lock()
	defer e.queue.mu.Unlock()
	e.recount(nil)
	e.queue.returning = slices.DeleteFunc(e.queue.returning, func(other *execution) bool { return other == e })
	e.queue.next()
}

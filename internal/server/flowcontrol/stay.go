package flowcontrol

import (
	"context"
	"slices"
	"time"
)

// stay is a request's time in a lane. What changes of it is under the lane's lock.
type stay struct {
	ctx       context.Context
	lane      *lane
	order     order
	counted   *int // in which of the lane's numbers; nil after its end
	receiving bool // the client has not sent the whole body
	turn      chan struct{}
	later     func(time.Duration, func()) (stop func() bool)
	stop      func() bool
}

// watchTime sees to it that a request that takes long makes room for others.
func (s *stay) watchTime() {
	patience := s.order.patience()
	if s.receiving {
		patience = bodyPatience
	}
	s.stop = s.later(patience, func() {
		s.lane.mu.Lock()
		defer s.lane.mu.Unlock()
		switch {
		case s.counted != &s.lane.prompt: // it has made room
		case s.receiving:
			s.recount(&s.lane.late)
		default:
			s.recount(&s.lane.overdue)
		}
		s.lane.next()
	})
}

// halt ends watchTime.
func (s *stay) halt() {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	s.stop()
}

// received is called when the client has sent the body. If the request has made room
// meanwhile, received waits until there is room for it again.
func (s *stay) received() {
	if turn := s.comeBack(); turn != nil {
		select {
		case <-turn:
		case <-s.ctx.Done(): // which whatever reads the body notices
		}
		s.settle()
	}
}

// comeBack returns what to wait for, nil for nothing.
func (s *stay) comeBack() (turn <-chan struct{}) {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	s.receiving = false
	s.stop()
	switch s.counted {
	case nil:
	case &s.lane.late:
		s.turn = make(chan struct{})
		s.lane.back = append(s.lane.back, s)
		s.lane.next()
	default:
		s.watchTime()
	}
	return s.turn
}

// settle ends the wait for room, in vain or not.
func (s *stay) settle() {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if at := slices.Index(s.lane.back, s); at >= 0 {
		s.lane.back = slices.Delete(s.lane.back, at, at+1)
		s.lane.next()
		return
	}
	if s.counted != nil {
		s.watchTime()
	}
}

// move counts a request in another number of its lane.
func (s *stay) move(to *int) {
	s.lane.mu.Lock()
	defer s.lane.mu.Unlock()
	if s.counted != nil && s.counted != to {
		s.recount(to)
		s.lane.next()
	}
}

// recount is move for who holds the lock, without consequences. Nil ends the request.
func (s *stay) recount(to *int) {
	places := s.order.places()
	*s.counted -= places
	if to != nil {
		*to += places
	}
	s.counted = to
}

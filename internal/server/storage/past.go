package storage

import (
	"time"

	"k8s.io/apiserver/pkg/storage/cacher"
)

const (
	// eventBytes is what the cache needs for an event beside its object: attributes, and a
	// part of a snapshot.
	eventBytes = 2 << 10
	// minPast and maxPast are the numbers of events between which upstream adjusts itself.
	minPast = 100
	maxPast = 100 * 1024
)

// past are the events that a watch cache keeps, as upstream's watchCacheHistory does.
type past struct {
	events        []pastEvent
	capacity, max int
	window        time.Duration
	// bytes is the sum of those of events, and added that of all there have been.
	bytes, added int64
	// newest is the time of the newest event, of which fillers are none.
	newest time.Time
}

type pastEvent struct {
	at    time.Time
	bytes int64 // zero for fillers alone
}

func newPast(window time.Duration) past {
	p := past{capacity: minPast, max: maxPast, window: window}
	for covered := cacher.DefaultEventFreshDuration; covered < window; covered *= 2 {
		p.max *= 2
	}
	return p
}

func (p *past) add(at time.Time, bytes int64) {
	switch {
	case !p.full():
	case at.Sub(p.events[0].at) < p.window:
		p.capacity = min(2*p.capacity, p.max)
	case at.Sub(p.events[len(p.events)-p.capacity/4].at) > p.window:
		p.capacity = max(p.capacity/2, minPast)
		p.remove(len(p.events) - p.capacity)
	}
	if p.full() {
		p.remove(1)
	}
	p.events = append(p.events, pastEvent{at, bytes})
	p.bytes += bytes
	p.added += bytes
	if bytes > 0 && at.After(p.newest) {
		p.newest = at
	}
}

func (p *past) full() bool { return len(p.events) == p.capacity }

func (p *past) remove(n int) {
	for _, event := range p.events[:n] {
		p.bytes -= event.bytes
	}
	p.events = p.events[n:]
}

func (p *past) clear() { p.events, p.bytes = nil, 0 }

// fillerTime returns the time of a filler that displaces events soon. In what is full and
// large, one from the future halves the room. What is full and has least room is doubled and
// filled with old fillers, so that the next one from the future leaves nothing else: a
// hundred from the future would make the room grow with the next events.
func (p *past) fillerTime() time.Time {
	if !p.full() || p.capacity == minPast && p.events[0].bytes > 0 {
		return time.Time{}
	}
	at := p.newest
	if oldest := p.events[0].at; oldest.After(at) {
		at = oldest
	}
	return at.Add(p.window + 1)
}

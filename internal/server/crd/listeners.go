package crd

import (
	"sync"

	"github.com/tenantry/tenantry/internal/tenant"
)

// listeners are those who wait until what a space serves changes. There is nothing for
// a space for which nobody waits.
type listeners struct {
	mu sync.Mutex
	of map[tenant.Name]map[chan struct{}]struct{}
}

// add returns a channel that gets something after each change in the space of n, once
// for several at a time, and what ends that.
func (l *listeners) add(n tenant.Name) (<-chan struct{}, func()) {
	changed := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[tenant.Name]map[chan struct{}]struct{})
	}
	if l.of[n] == nil {
		l.of[n] = make(map[chan struct{}]struct{})
	}
	l.of[n][changed] = struct{}{}
	return changed, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.of[n], changed)
		if len(l.of[n]) == 0 {
			delete(l.of, n)
		}
	}
}

// tell tells those who wait for a change in the space of n, the system space standing
// for all.
func (l *listeners) tell(n tenant.Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n != tenant.System {
		wake(l.of[n])
		return
	}
	for _, channels := range l.of {
		wake(channels)
	}
}

func wake(channels map[chan struct{}]struct{}) {
	for changed := range channels {
		select {
		case changed <- struct{}{}:
		default: // it has not been read since the last change
		}
	}
}

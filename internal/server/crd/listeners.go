package crd

import (
	"sync"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/tenant"
)

// listeners are those who wait until what a space serves changes. There is nothing for
// a space for which nobody waits.
type listeners struct {
	mu sync.Mutex
	// of are the spaces that those who read the channels wait for.
	of map[signal.Flag]tenant.Name
}

// add returns a channel that gets something after each change in the space of n, once
// for several at a time, and what ends that.
func (l *listeners) add(n tenant.Name) (<-chan struct{}, func()) {
	changed := signal.NewFlag()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[signal.Flag]tenant.Name)
	}
	l.of[changed] = n
	return changed, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.of, changed)
	}
}

// tell tells those who wait for a change in the space of n, the system space standing
// for all.
func (l *listeners) tell(n tenant.Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for changed, of := range l.of {
		if n == tenant.System || n == of {
			changed.Raise()
		}
	}
}

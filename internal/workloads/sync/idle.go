package sync

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// idleSince says since when namespaces of the host have no pods. A restart forgets it.
type idleSince struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	since map[string]time.Time
}

// left returns how long a namespace without pods stays, which is counted from the first time that
// it is asked.
func (i *idleSince) left(name string) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	since, ok := i.since[name]
	if !ok {
		since = i.clock.Now()
		i.since[name] = since
	}
	return idleNamespace - i.clock.Since(since)
}

func (i *idleSince) forget(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.since, name)
}

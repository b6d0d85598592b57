package progress

import (
	"strconv"
	"sync"
	"time"
)

// waitTimeout is how long a writer waits for an index. The change is stored in any case.
const waitTimeout = time.Second

// Progress is how far an index has followed one resource. The zero value has not
// begun.
type Progress struct {
	mu   sync.Mutex
	seen uint64
	// reached holds a channel for each writer that waits. It is closed when the index has
	// seen that writer's version.
	reached map[chan struct{}]uint64
}

// Note says that the index knows everything up to a resource version. It ignores what is
// not a version.
func (p *Progress) Note(resourceVersion string) {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if version <= p.seen {
		return
	}
	p.seen = version
	for waiting, wanted := range p.reached {
		if wanted <= version {
			close(waiting)
			delete(p.reached, waiting)
		}
	}
}

// Wait returns when the index knows an object of the given version, or has not
// begun, or is far behind. It reports whether the index knows it.
func (p *Progress) Wait(resourceVersion string) bool {
	version, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return false
	}
	reached := p.wait(version)
	if reached == nil {
		return p.has(version)
	}
	timer := time.NewTimer(waitTimeout)
	defer timer.Stop()
	select {
	case <-reached:
		return true
	case <-timer.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.reached, reached)
		return false
	}
}

// wait returns a channel that is closed when the index has seen a version, nil if it has
// already, or has not begun.
func (p *Progress) wait(version uint64) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen == 0 || p.seen >= version {
		return nil
	}
	reached := make(chan struct{})
	if p.reached == nil {
		p.reached = make(map[chan struct{}]uint64)
	}
	p.reached[reached] = version
	return reached
}

func (p *Progress) has(version uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen >= version
}

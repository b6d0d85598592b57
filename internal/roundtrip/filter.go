package roundtrip

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// Relay is a watch that passes on what a goroutine sends of its source, and closes Result at the end. It ends when it
// is stopped, also while nobody takes an event: upstream's watch.Filter waits for that for ever.
type Relay struct {
	Source watch.Interface
	Result chan watch.Event
	// Done is closed when the watch is stopped.
	Done chan struct{}
	stop sync.Once
}

// NewRelay returns a watch for which so many events may wait.
func NewRelay(source watch.Interface, buffer int) *Relay {
	return &Relay{Source: source, Result: make(chan watch.Event, buffer), Done: make(chan struct{})}
}

// Send reports false if the watch has been stopped.
func (r *Relay) Send(event watch.Event) bool {
	select {
	case r.Result <- event:
		return true
	case <-r.Done:
		return false
	}
}

// ResultChan implements watch.Interface.
func (r *Relay) ResultChan() <-chan watch.Event { return r.Result }

// Stop implements watch.Interface.
func (r *Relay) Stop() {
	r.stop.Do(func() {
		close(r.Done)
		r.Source.Stop()
	})
}

// FilterWatch returns a watch of those events of another that passes returns, as it returns them. It ends after an
// error.
func FilterWatch(source watch.Interface, passes func(watch.Event) (watch.Event, bool)) watch.Interface {
	r := NewRelay(source, 0)
	go func() {
		defer close(r.Result)
		defer r.Stop()
		for event := range source.ResultChan() {
			if event, ok := passes(event); ok && (!r.Send(event) || event.Type == watch.Error) {
				return
			}
		}
	}()
	return r
}

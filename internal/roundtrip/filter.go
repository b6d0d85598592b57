package roundtrip

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

// FilterWatch returns a watch of those events of another that passes returns, as it returns them. It ends after an
// error, and when it is stopped, also while nobody takes an event: upstream's watch.Filter waits for that for ever.
func FilterWatch(source watch.Interface, passes func(watch.Event) (watch.Event, bool)) watch.Interface {
	f := &filteredWatch{Interface: source, result: make(chan watch.Event), done: make(chan struct{})}
	go f.run(passes)
	return f
}

type filteredWatch struct {
	watch.Interface
	result chan watch.Event
	done   chan struct{}
	stop   sync.Once
}

// ResultChan implements watch.Interface.
func (f *filteredWatch) ResultChan() <-chan watch.Event { return f.result }

// Stop implements watch.Interface.
func (f *filteredWatch) Stop() {
	f.stop.Do(func() { close(f.done) })
	f.Interface.Stop()
}

func (f *filteredWatch) run(passes func(watch.Event) (watch.Event, bool)) {
	defer close(f.result)
	for event := range f.Interface.ResultChan() {
		event, ok := passes(event)
		if !ok {
			continue
		}
		select {
		case f.result <- event:
		case <-f.done:
			return
		}
		if event.Type == watch.Error {
			return
		}
	}
}

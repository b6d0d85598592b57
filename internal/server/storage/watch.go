package storage

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/roundtrip"
)

// wantsInitialEvents reports whether a watch begins with the current state.
func wantsInitialEvents(opts storage.ListOptions) bool {
	if opts.SendInitialEvents != nil {
		return *opts.SendInitialEvents
	}
	return opts.ResourceVersion == "" || opts.ResourceVersion == "0"
}

// watchFromList serves a watch that begins with the current state as a list of
// the space followed by a watch from there. Upstream's cache would copy and
// sort the objects of every space to serve the initial events of one, and its store
// without a cache gives the seat of the request back before it reads them.
func (s *Space) watchFromList(ctx context.Context, c collection, ended <-chan struct{}) (watch.Interface, error) {
	listing, sent := context.WithCancel(ctx) // what a list has decoded counts until it is sent, and a watch may last for days
	initial, resourceVersion, err := s.initialEvents(listing, c)
	if err != nil {
		sent()
		return errorWatch(err), nil
	}
	following := c.opts
	following.SendInitialEvents = nil
	following.ResourceVersionMatch = ""
	following.ResourceVersion = resourceVersion
	// The source has nothing to begin with, and would give the seat of the request back at once.
	source, err := s.Interface.Watch(upstream.WithInitializationSignal(ctx, nil), c.key, following)
	if err != nil {
		sent()
		return nil, err
	}
	w := newPrefixedWatch(source, s.restored(ctx, c), ended)
	w.initialized = func() { upstream.WatchInitialized(ctx) }
	w.written = writtenFrom(ctx)
	w.sent = sent
	go w.run(initial)
	return w, nil
}

// initialEvents returns the current state as events, and the resource version from which a watch goes on.
func (s *Space) initialEvents(ctx context.Context, c collection) (initial []watch.Event, resourceVersion string, err error) {
	list := c
	list.opts.SendInitialEvents = nil
	list.opts.Predicate.AllowWatchBookmarks = false
	list.opts.Predicate.Limit = 0
	if list.opts.ResourceVersion != "" {
		list.opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	objects := s.newListFunc()
	if _, err := s.list(ctx, list, objects); err != nil {
		return nil, "", err
	}
	accessor, err := meta.ListAccessor(objects)
	if err != nil {
		return nil, "", err
	}
	items, err := meta.ExtractList(objects)
	if err != nil {
		return nil, "", err
	}
	initial = make([]watch.Event, 0, len(items)+1)
	for _, item := range items {
		initial = append(initial, watch.Event{Type: watch.Added, Object: item})
	}
	if c.opts.SendInitialEvents != nil && c.opts.Predicate.AllowWatchBookmarks {
		bookmark, err := s.initialEventsEnd(accessor.GetResourceVersion())
		if err != nil {
			return nil, "", err
		}
		initial = append(initial, watch.Event{Type: watch.Bookmark, Object: bookmark})
	}
	return initial, accessor.GetResourceVersion(), nil
}

// maxInitialSeat is for how long a watch has a seat whose client does not read the initial events.
const maxInitialSeat = 10 * time.Second

// initialEventsEnd returns the bookmark of KEP-3157 that ends the initial events.
func (s *Space) initialEventsEnd(resourceVersion string) (runtime.Object, error) {
	version, err := s.Versioner().ParseResourceVersion(resourceVersion)
	if err != nil {
		return nil, err
	}
	bookmark := s.newFunc()
	if err := s.Versioner().UpdateObject(bookmark, version); err != nil {
		return nil, err
	}
	return bookmark, storage.AnnotateInitialEventsEndBookmark(bookmark)
}

// prefixedWatch delivers initial events before those of its source, and additional events
// after some of these.
type prefixedWatch struct {
	*roundtrip.Relay
	// follow, if set, returns the additional event after another, if any.
	follow func(watch.Event) (watch.Event, bool)
	// ended, if set, is closed when clients have to start the watch anew.
	ended <-chan struct{}
	// initialized, if set, is called when the initial events have been written, as far as written tells, which may be nil.
	initialized func()
	written     *WrittenEvents
	// sent, if set, is called when the initial events have been sent, or never will be.
	sent func()
}

// newPrefixedWatch returns a watch to run.
func newPrefixedWatch(source watch.Interface, follow func(watch.Event) (watch.Event, bool), ended <-chan struct{}) *prefixedWatch {
	// The buffer is that of upstream's smallest watcher.
	return &prefixedWatch{Relay: roundtrip.NewRelay(source, 10), follow: follow, ended: ended}
}

func (w *prefixedWatch) run(initial []watch.Event) {
	defer close(w.Result)
	begun := w.begin(initial)
	if w.sent != nil {
		w.sent()
	}
	if !begun {
		return
	}
	for {
		select {
		case <-w.ended:
			w.Source.Stop()
			w.Send(errorEvent(errDefaultsChanged))
			return
		case event, ok := <-w.Source.ResultChan():
			if !ok || !w.Send(event) {
				return
			}
			if w.follow == nil {
				continue
			}
			if next, ok := w.follow(event); ok && !w.Send(next) {
				return
			}
		}
	}
}

// begin sends the initial events, and waits until they have been encoded. It returns false if the watch has been
// stopped.
func (w *prefixedWatch) begin(initial []watch.Event) bool {
	if w.initialized == nil {
		return true
	}
	defer w.initialized()
	if len(initial) == 0 {
		return true
	}
	timeout := time.AfterFunc(maxInitialSeat, w.initialized)
	defer timeout.Stop()
	last := len(initial) - 1
	for i := range initial[:last] {
		if !w.Send(initial[i]) {
			return false
		}
		initial[i] = watch.Event{} // for the garbage collector
	}
	if w.written == nil {
		return w.Send(initial[last])
	}
	return w.sendLast(initial[last])
}

// sendLast sends the last initial event, and waits until it has been written: an event is encoded after it has left the
// buffer. It has been written when something has, after it was sent, and nothing is in the buffer, because what takes
// events writes each before it takes the next one.
func (w *prefixedWatch) sendLast(event watch.Event) bool {
	var mu sync.Mutex
	sent, over := false, false
	wrote := signal.NewFlag()
	defer w.written.tell(func() {
		mu.Lock()
		defer mu.Unlock()
		over = sent && len(w.Result) == 0
		wrote.Raise()
	})()
	for {
		mu.Lock()
		if !sent {
			select {
			case w.Result <- event:
				sent = true
			default: // there is room when something has been written
			}
		}
		isOver := over
		mu.Unlock()
		if isOver {
			return true
		}
		select {
		case <-wrote:
		case <-w.Done:
			return false
		}
	}
}

// WrittenEvents tells the storage when something has been written for a watch.
type WrittenEvents struct{ told atomic.Pointer[func()] }

type writtenKey struct{}

// WithWritten returns a context in which a watch is told by w.
func WithWritten(ctx context.Context, w *WrittenEvents) context.Context {
	return context.WithValue(ctx, writtenKey{}, w)
}

func writtenFrom(ctx context.Context) *WrittenEvents {
	w, _ := ctx.Value(writtenKey{}).(*WrittenEvents)
	return w
}

// Wrote is called when an event has been written, by whatever writes the events.
func (w *WrittenEvents) Wrote() {
	if told := w.told.Load(); told != nil {
		(*told)()
	}
}

// tell has wrote called until stop is.
func (w *WrittenEvents) tell(wrote func()) (stop func()) {
	w.told.Store(&wrote)
	return func() { w.told.Store(nil) }
}

// ofOne passes on the events of the object with a UID, and what is of none: whoever watches it by its name was not
// authorized to see the next one of that name.
func ofOne(source watch.Interface, uid types.UID) watch.Interface {
	return roundtrip.FilterWatch(source, func(event watch.Event) (watch.Event, bool) {
		object, err := meta.Accessor(event.Object) // bookmarks have no UID, and errors no metadata
		return event, err != nil || object.GetUID() == "" || object.GetUID() == uid
	})
}

// errorWatch returns a watch that delivers one error and ends, as upstream's cache does for
// errors after it has accepted the watch.
func errorWatch(err error) watch.Interface {
	result := make(chan watch.Event, 1)
	result <- errorEvent(err)
	close(result)
	return watch.NewProxyWatcher(result)
}

func errorEvent(err error) watch.Event {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	object := status.Status()
	return watch.Event{Type: watch.Error, Object: &object}
}

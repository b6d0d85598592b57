package storage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenantry/tenantry/internal/process/memory"
)

// Upstream's watch cache keeps what objects were, for clients that resume a watch: at least
// a hundred events, whatever their age and size, and all of the last 75 seconds up to
// 102,400. It bounds the number and not the bytes.
//
// It forgets events when others take their place. So a history stands between etcd and one
// watch cache, mirrors which events the cache keeps, and if it is told to drop them sends
// fillers until they are displaced: events of an object that is nobody's. So that a cache that
// keeps something can always be told, it is made to drop all before its watch ends.

var (
	historyBytes = metrics.NewGauge(&metrics.GaugeOpts{
		Name:           "tenantry_watch_cache_history_bytes",
		Help:           "Bytes that the watch caches keep of what objects were, as estimated for --watch-cache-history-bytes.",
		StabilityLevel: metrics.ALPHA,
	})
	droppedHistories = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "tenantry_watch_cache_history_drops_total",
		Help:           "Times a watch cache dropped its history because all together kept more than --watch-cache-history-bytes.",
		StabilityLevel: metrics.ALPHA,
	})
)

func init() { legacyregistry.MustRegister(historyBytes, droppedHistories) }

// Histories bounds what the histories of all watch caches keep together.
type Histories struct {
	most int64

	mu sync.Mutex
	// bytes is the sum of those of caches, and dropping of those that were told to drop them.
	bytes, dropping int64
	caches          map[*history]struct{}
}

// NewHistories returns histories that keep at most so many bytes, nil for no bound.
func NewHistories(most int64) *Histories {
	if most == 0 {
		return nil
	}
	return &Histories{most: most, caches: make(map[*history]struct{})}
}

// of makes the history of a watch cache.
func (a *Histories) of(etcd *etcdKeys, filler runtime.Object, window time.Duration) *history {
	h := &history{etcdKeys: etcd, all: a, filler: filler, past: newPast(window), over: make(chan struct{}, 1), closing: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caches[h] = struct{}{}
	return h
}

// keeps notes what a history keeps. As long as all keep too much, those that keep the most
// are told to drop it.
func (a *Histories) keeps(h *history, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.caches[h]; !ok {
		return // the cache has been stopped
	}
	a.set(h, bytes, h.told)
	for a.bytes-a.dropping > a.most {
		a.tell(a.largest())
	}
}

// tell tells a history to drop what it keeps.
func (a *Histories) tell(h *history) {
	a.set(h, h.bytes, true)
	select {
	case h.over <- struct{}{}:
	default: // it has not yet read that it was told before
	}
}

// dropped notes what a history keeps that was told to drop it.
func (a *Histories) dropped(h *history, bytes int64) {
	a.mu.Lock()
	a.set(h, h.bytes, false)
	a.mu.Unlock()
	a.keeps(h, bytes)
}

// largest returns the history that keeps the most of those that were not told to drop it.
func (a *Histories) largest() *history {
	largest := &history{}
	for each := range a.caches {
		if !each.told && each.bytes > largest.bytes {
			largest = each
		}
	}
	return largest
}

func (a *Histories) set(h *history, bytes int64, told bool) {
	historyBytes.Add(float64(bytes - h.bytes))
	a.bytes += bytes - h.bytes
	if h.told {
		a.dropping -= h.bytes
	}
	if told {
		a.dropping += bytes
	}
	h.bytes, h.told = bytes, told
}

// forget gives back what the history of a stopped cache kept, if it has one.
func (h *history) forget() {
	if h == nil {
		return
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.all.set(h, 0, false)
	delete(h.all.caches, h)
}

// history is the storage that one watch cache reads. Its methods are called by the goroutine
// of the cache's reflector, passed and drop by that of the watch, and dropped and stop by any.
type history struct {
	*etcdKeys
	all *Histories
	// filler is the object of the events that displace others.
	filler runtime.Object
	// over tells that the history is to be dropped.
	over chan struct{}
	// droppedTo is the resource version of the last event that was dropped.
	droppedTo atomic.Uint64

	// listed is whether the reflector has listed since it watched, which empties the cache.
	listed bool
	// closing tells that the cache is about to be stopped.
	closing chan struct{}
	// mu guards watch, and that none is made once it is closing.
	mu sync.Mutex
	// watch is the last watch, whose goroutine has the fields below as long as it runs.
	watch *historyWatch
	past  past
	// version is the resource version that the cache has reached.
	version string

	// bytes is what the history keeps, and told whether it was told to drop it. Both are
	// guarded by Histories.mu.
	bytes int64
	told  bool
}

// GetList implements storage.Interface.
func (h *history) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	h.listed = true
	return h.etcdKeys.GetList(ctx, key, opts, list)
}

// Watch implements storage.Interface.
func (h *history) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	source, err := h.etcdKeys.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	if h.watch != nil {
		h.watch.Stop()
		<-h.watch.ended
	}
	if h.listed {
		h.listed = false
		h.past.clear()
		h.all.keeps(h, 0)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed() {
		source.Stop()
		return nil, errClosing
	}
	h.watch = newHistoryWatch(h, source)
	return h.watch, nil
}

// errClosing is of a kind that reflectors wait after, and do not log.
var errClosing = apierrors.NewTooManyRequests("the watch cache is being stopped", 0)

// stop stops the cache of a history, which is nil if the cache has none. Upstream's Stop waits
// for the cache's reflector, and that waits for room in the queue to the watchers, for ever if
// the queue is full when nobody takes from it any more. So the watch ends first: once the
// reflector has taken its last error, it has put into the queue what it took before.
func (h *history) stop(cached *cacher.Cacher) {
	if h != nil {
		h.endWatch()
	}
	cached.Stop()
	h.forget()
}

func (h *history) endWatch() {
	h.mu.Lock()
	last := h.watch
	if !h.closed() { // storages are shared with subresources, and stopped by each
		close(h.closing)
	}
	h.mu.Unlock()
	if last != nil {
		<-last.ended
	}
}

func (h *history) closed() bool {
	select {
	case <-h.closing:
		return true
	default:
		return false
	}
}

// fillerKey is the key of fillers in the cache. It is below no resource, so no list and no
// watch has it.
const fillerKey = "filler"

// cacheKeyOf is the key function of the watch cache.
func (h *history) cacheKeyOf(obj runtime.Object) (string, error) {
	if obj == h.filler {
		return fillerKey, nil
	}
	return h.cacheKey(obj)
}

// attributesOf are the attributes of the watch cache.
func (h *history) attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	if obj == h.filler {
		return nil, nil, nil
	}
	return h.attributes(obj)
}

// passed notes an event that the cache has got.
func (h *history) passed(event watch.Event) {
	accessor, err := meta.Accessor(event.Object)
	if err != nil {
		return
	}
	h.version = accessor.GetResourceVersion()
	if event.Type == watch.Bookmark {
		return
	}
	object, at := event.Object, time.Now()
	if timed, ok := object.(storage.WatchEventWithRecordTime); ok {
		object, at = timed.Unwrap(), timed.RecordTime()
	}
	h.past.add(at, eventBytes+int64(memory.Of(object)))
	h.all.keeps(h, h.past.bytes)
}

// drop notes that all events up to now may be dropped. Who resumes a watch asks dropped when
// the cache has answered, so this is before the cache gets a filler.
func (h *history) drop() {
	if version, err := (storage.APIObjectVersioner{}).ParseResourceVersion(h.version); err == nil {
		h.droppedTo.Store(version)
	}
}

// dropped reports whether events after a resource version were dropped.
func (h *history) dropped(resourceVersion string) bool {
	version, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	return err == nil && version > 0 && version < h.droppedTo.Load()
}

// historyWatch is the watch of a watch cache, with fillers where its history is dropped.
type historyWatch struct {
	*relay
	history *history
	ended   chan struct{}
	// dropping is whether fillers are sent, at the pace of the ticker.
	dropping bool
	pace     *time.Ticker
	// before is what had been added to the history when it was told to drop that.
	before int64
	// present is whether the cache has the filler.
	present bool
}

func newHistoryWatch(h *history, source watch.Interface) *historyWatch {
	// Without a buffer, what was sent is what the cache has got.
	w := &historyWatch{relay: newRelay(source, 0), history: h, ended: make(chan struct{}), pace: time.NewTicker(fillerPause)}
	w.pace.Stop()
	go w.run()
	return w
}

func (w *historyWatch) run() {
	defer close(w.ended)
	defer close(w.result)
	defer w.endDrop()
	for {
		select {
		case <-w.done:
			return
		case <-w.history.closing:
			w.send(errorEvent(errClosing))
			return
		case <-w.history.over:
			droppedHistories.Inc()
			w.beginDrop()
		case <-w.pace.C:
			if !w.fill() {
				return
			}
		case event, ok := <-w.source.ResultChan():
			if !ok || event.Type == watch.Error {
				w.end(event, ok)
				return
			}
			if !w.send(event) {
				return
			}
			w.history.passed(event)
		}
	}
}

// end drops the history, and then lets the cache know that its watch has ended: from then on
// it takes fillers only when it has listed, and that fails as long as a tenant's conversion
// webhook does.
func (w *historyWatch) end(event watch.Event, failed bool) {
	for w.beginDrop(); w.dropping; {
		select {
		case <-w.done:
			return
		case <-w.history.closing:
			return
		case <-w.pace.C:
			if !w.fill() {
				return
			}
		}
	}
	if failed {
		w.send(event)
	}
}

func (w *historyWatch) beginDrop() {
	w.dropping, w.before = true, w.history.past.added
	w.pace.Reset(fillerPause)
}

// fill sends some fillers, which appear and disappear, until they have displaced what is to
// be dropped. It reports false if the watch has been stopped.
func (w *historyWatch) fill() bool {
	past := &w.history.past
	for n := 0; n < fillers+past.capacity/fillersPerRoom || past.full(); n++ {
		if !w.present && past.bytes <= past.added-w.before {
			w.endDrop()
			return true
		}
		kind := watch.Added
		if w.present {
			kind = watch.Deleted
		}
		w.history.drop()
		at := past.fillerTime()
		if !w.send(watch.Event{Type: kind, Object: &fillerEvent{w.history.filler, w.history.version, at}}) {
			return false
		}
		w.present = !w.present
		past.add(at, 0)
	}
	return true
}

func (w *historyWatch) endDrop() {
	w.pace.Stop()
	if w.dropping {
		w.dropping = false
		w.history.all.dropped(w.history, w.history.past.bytes)
	}
}

// fillerEvent is a filler at the resource version that the cache has reached. The cache
// takes the object out of it.
type fillerEvent struct {
	runtime.Object
	version string
	at      time.Time
}

var _ storage.WatchEventWithRecordTime = &fillerEvent{}

// GetObjectMeta implements metav1.ObjectMetaAccessor.
func (e *fillerEvent) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{ResourceVersion: e.version}
}

// RecordTime implements storage.WatchEventWithRecordTime.
func (e *fillerEvent) RecordTime() time.Time { return e.at }

// Unwrap implements storage.WatchEventWithRecordTime.
func (e *fillerEvent) Unwrap() runtime.Object { return e.Object }

// withHistory is a watch cache that drops its history. The cache itself takes fillers for
// events that it has at their version, which is that of the last event before them: it would
// let a watch go on from one before, without that event.
type withHistory struct {
	storage.Interface
	history *history
}

// Watch implements storage.Interface.
func (c *withHistory) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	source, err := c.Interface.Watch(ctx, key, opts)
	if err != nil || wantsInitialEvents(opts) || !c.history.dropped(opts.ResourceVersion) {
		return source, err
	}
	source.Stop()
	return errorWatch(apierrors.NewResourceExpired(fmt.Sprintf(
		"too old resource version: %s (%d)", opts.ResourceVersion, c.history.droppedTo.Load()))), nil
}

const (
	// fillers are sent so many at a time, and some more where there is much room: watchers of
	// all spaces are offered each, and the shortest of their queues has ten places.
	fillers        = 8
	fillersPerRoom = 2000
	fillerPause    = time.Millisecond

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

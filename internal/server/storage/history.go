package storage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
)

// Upstream's watch cache keeps what objects were, for clients that resume a watch: at least
// a hundred events, whatever their age and size, and all of the last 75 seconds up to
// 102,400. It bounds the number and not the bytes.
//
// It forgets events when others take their place. So a history stands between etcd and one
// watch cache, mirrors which events the cache keeps, and when it is asked to drop them sends
// fillers until they are displaced: events of an object that is nobody's. So that a cache that
// keeps something can always be asked: without a running watch a cache gets no fillers, so it drops
// its history before its watch ends.

// forget gives back what the history of a stopped cache kept, if it has one.
func (h *history) forget() {
	if h == nil {
		return
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.all.set(h, 0, false)
	delete(h.all.caches, h)
	h.counted.Forget()
}

// history is the storage that one watch cache reads. Its methods are called by the goroutine
// of the cache's reflector, passed and drop by that of the watch, and dropped and stop by any.
type history struct {
	*etcdKeys
	all *Histories
	// counted is what the cache has of objects that count as memory, nil without a bound.
	counted *cachememory.Cache
	// filler is the object of the events that displace others.
	filler runtime.Object
	// dropSignal tells that the history is to be dropped.
	dropSignal signal.Flag
	// droppedTo is the resource version of the last event that was dropped.
	droppedTo atomic.Uint64

	// listed is whether the reflector has listed since it watched, which empties the cache.
	listed bool
	// closing ends when the cache is about to be stopped.
	closing context.Context
	close   context.CancelFunc
	// mu guards watch and lists, and that none is begun once it is closing.
	mu sync.Mutex
	// lists are how many run: the reflector does not wait for them when it is stopped. Those that the cache answers run
	// until their requests end.
	lists int
	// watch is the last watch, whose goroutine has the fields below as long as it runs.
	watch *historyWatch
	past  past

	// failedWatches are how many in a row have ended with an error, and without an event.
	failedWatches atomic.Int32
	// failedLists are how many lists in a row have failed.
	failedLists atomic.Int32
	// reached is the resource version that the cache has reached by events. Up to asked, etcd was asked how far the
	// watch is, whose stream has this metadata.
	reached, asked atomic.Uint64
	stream         atomic.Pointer[metadata.MD]

	// bytes is what the history keeps, and dropRequested whether it is to drop it. Both are
	// guarded by Histories.mu.
	bytes         int64
	dropRequested bool
}

// GetList implements storage.Interface.
func (h *history) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	if !h.backOff(ctx, &h.failedLists) {
		return errClosing
	}
	h.listed = true
	ctx, end, err := h.beginList(ctx)
	if err != nil {
		return err
	}
	defer end()
	first := opts.Predicate.Continue == ""
	ctx, check := h.shared.leavingOut(ctx, first)
	if err = check(h.etcdKeys.GetList(h.counted.Filling(ctx, first), key, opts, list)); err != nil {
		h.counted.NotListed()
		h.failedLists.Add(1)
		return err
	}
	h.failedLists.Store(0)
	h.counted.Listed(list, first)
	return nil
}

// beginList returns a context for a list, which ends when the cache is stopped, and what ends the list. What it has
// decoded stays in memory until then: caches of a definition are made anew as often as its tenant changes that, and
// must not pile up.
func (h *history) beginList(ctx context.Context) (context.Context, func(), error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed() {
		return nil, nil, errClosing
	}
	h.lists++
	ctx, cancel := context.WithCancel(ctx)
	detach := context.AfterFunc(h.closing, cancel)
	return ctx, func() {
		detach()
		cancel()
		h.endList()
	}, nil
}

// keep has what the cache has count until a request ends that lists it, also if the cache is stopped before: the list
// has the objects until it is sent, and its client may take a minute for that.
func (h *history) keep(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.counted.IsOfOne() && ctx.Done() != nil && !h.closed() {
		h.lists++
		context.AfterFunc(ctx, h.endList)
	}
}

func (h *history) endList() {
	h.mu.Lock()
	h.lists--
	h.mu.Unlock()
	h.forgetClosed()
}

// forgetClosed forgets the cache once it is closed and no list of it runs.
func (h *history) forgetClosed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed() && h.lists == 0 {
		h.forget()
	}
}

// GetCurrentResourceVersion implements storage.Interface. The cache asks for it before a consistent read, and then
// waits until it has reached that version. It gets there by progress alone if other resources, of any tenant, have
// changed last. Upstream asks etcd for that once in 100 ms while somebody waits; here etcd is asked at once.
func (h *history) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	current, err := h.etcdKeys.GetCurrentResourceVersion(ctx)
	if err == nil && current > h.reached.Load() {
		h.requestProgress(ctx, current)
	}
	return current, err
}

// requestProgress asks etcd how far the watch is, unless it was asked since it reached the version. Without an answer,
// upstream asks.
func (h *history) requestProgress(ctx context.Context, version uint64) {
	stream := h.stream.Load()
	if stream == nil {
		return // there is no watch yet
	}
	for asked := h.asked.Load(); asked < version; asked = h.asked.Load() {
		if !h.asked.CompareAndSwap(asked, version) {
			continue
		}
		if err := h.RequestWatchProgress(metadata.NewOutgoingContext(ctx, *stream)); err != nil {
			klog.V(4).InfoS("Could not ask etcd for progress", "resource", h.resourcePrefix, "err", err)
		}
		return
	}
}

// Watch implements storage.Interface.
func (h *history) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	if !h.backOff(ctx, &h.failedWatches) {
		return nil, errClosing
	}
	source, err := h.etcdKeys.Watch(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	stream, _ := metadata.FromOutgoingContext(ctx)
	h.stream.Store(&stream)
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

// maxBackOff is how long a cache waits at most before it lists or watches again.
const maxBackOff = 10 * time.Second

// backOff waits, longer each time, before a list or a watch of custom resources begins again that has failed. It is for
// objects that a conversion webhook does not convert. Reflectors watch again at once, at the version before, and etcd
// reads what was written since under the lock of all writes; caches list again each second, and log it. It reports
// false if the cache is stopped.
func (h *history) backOff(ctx context.Context, failed *atomic.Int32) bool {
	failures := failed.Load()
	if failures == 0 || !h.custom {
		return true
	}
	select {
	case <-time.After(min(maxBackOff, time.Second<<min(failures-1, 10))):
		return true
	case <-h.closing.Done():
		return false
	case <-ctx.Done():
		return true
	}
}

// errClosing is of a kind that reflectors wait after, and do not log.
var errClosing = apierrors.NewTooManyRequests("the watch cache is being stopped", 0)

// stop stops the cache of a history, which is nil if the cache has none. Upstream's Stop waits
// for the cache's reflector, and that waits for room in the queue to the watchers, for ever if
// the queue is full when nobody takes from it any more. So the watch ends first: once the
// reflector has taken its last error, it has put into the queue what it took before.
func (h *history) stop(cached *cacher.Cacher) {
	if h == nil {
		cached.Stop()
		return
	}
	h.endWatch()
	cached.Stop()
	h.forgetClosed()
}

func (h *history) endWatch() {
	h.mu.Lock()
	last := h.watch
	h.close() // for the first time, or once more: storages are shared with subresources, and stopped by each
	h.mu.Unlock()
	if last != nil {
		<-last.ended
	}
}

func (h *history) closed() bool { return h.closing.Err() != nil }

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
	version, err := h.Versioner().ObjectResourceVersion(event.Object)
	if err != nil {
		return
	}
	h.reached.Store(version)
	if event.Type == watch.Bookmark {
		return
	}
	h.failedWatches.Store(0)
	object, at := event.Object, time.Now()
	if timed, ok := object.(storage.WatchEventWithRecordTime); ok {
		object, at = timed.Unwrap(), timed.RecordTime()
	}
	bytes := memory.Of(object)
	size := eventBytes + int64(bytes)
	if event.Type == watch.Deleted {
		bytes = 0
	}
	h.counted.Set(object, bytes)
	h.counted.Passed(version)
	h.all.wrote(version, size)
	h.past.add(at, size)
	h.all.keeps(h, h.past.bytes)
}

// drop notes that all events up to now may be dropped. A resumed watch calls dropped when the
// cache has answered, so this is before the cache gets a filler.
func (h *history) drop() {
	h.droppedTo.Store(h.reached.Load())
}

// dropped reports whether events after a resource version were dropped.
func (h *history) dropped(resourceVersion string) bool {
	version, err := storage.APIObjectVersioner{}.ParseResourceVersion(resourceVersion)
	return err == nil && version > 0 && version < h.droppedTo.Load()
}

// withHistory is a watch cache that drops its history. The cache itself takes fillers for
// events that it has at their version, which is that of the last event before them: it would
// let a watch go on from one before, without that event.
type withHistory struct {
	storage.Interface
	history *history
}

// GetList implements storage.Interface.
func (c *withHistory) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	c.history.keep(ctx)
	return c.Interface.GetList(ctx, key, opts, list)
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

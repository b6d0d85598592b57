package storage

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
)

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
	// bytes is the sum of those of caches, and dropping of those that were asked to drop them.
	bytes, dropping int64
	caches          map[*history]struct{}
	written         written
}

// wrote notes what was written at a resource version.
func (a *Histories) wrote(version uint64, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.written.add(int64(version), bytes) // a revision of etcd
}

// wroteLittle reports whether it is known that little was written since a resource version.
func (a *Histories) wroteLittle(since int64) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.written.isLittle(since)
}

// NewHistories returns histories that keep at most so many bytes, zero for no bound.
func NewHistories(most int64) *Histories {
	most = cmp.Or(most, math.MaxInt64)
	return &Histories{most: most, caches: make(map[*history]struct{})}
}

// newHistory makes the history of a watch cache.
func (a *Histories) newHistory(etcd *etcdKeys, counted *cachememory.Cache, filler runtime.Object, window time.Duration) *history {
	h := &history{etcdKeys: etcd, all: a, counted: counted, filler: filler, past: newPast(window), dropSignal: signal.NewFlag()}
	h.closing, h.close = context.WithCancel(context.Background())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caches[h] = struct{}{}
	return h
}

// keeps notes what a history keeps. As long as all keep too much, those that keep the most
// are asked to drop it.
func (a *Histories) keeps(h *history, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.caches[h]; !ok {
		return // the cache has been stopped
	}
	a.set(h, bytes, h.dropRequested)
	for a.bytes-a.dropping > a.most {
		a.requestDrop(a.largest())
	}
}

// requestDrop has a history drop what it keeps.
func (a *Histories) requestDrop(h *history) {
	a.set(h, h.bytes, true)
	h.dropSignal.Raise()
}

// dropped notes what a history keeps that was asked to drop it.
func (a *Histories) dropped(h *history, bytes int64) {
	a.mu.Lock()
	a.set(h, h.bytes, false)
	a.mu.Unlock()
	a.keeps(h, bytes)
}

// largest returns the history that keeps the most of those that were not asked to.
func (a *Histories) largest() *history {
	largest := &history{}
	for each := range a.caches {
		if !each.dropRequested && each.bytes > largest.bytes {
			largest = each
		}
	}
	return largest
}

func (a *Histories) set(h *history, bytes int64, dropRequested bool) {
	historyBytes.Add(float64(bytes - h.bytes))
	a.bytes += bytes - h.bytes
	if h.dropRequested {
		a.dropping -= h.bytes
	}
	if dropRequested {
		a.dropping += bytes
	}
	h.bytes, h.dropRequested = bytes, dropRequested
}

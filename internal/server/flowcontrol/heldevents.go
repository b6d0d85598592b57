package flowcontrol

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// largeEvents bounds the bytes of the large events that the watches of each tenant hold.
//
// Upstream encodes an event into two buffers of its watch, the object and the event around it,
// and keeps them until the watch ends, whether the client has read the event or not. So a watch
// holds its largest event. When the watches of a tenant hold more than the tenant may, those are
// ended that have held theirs for some time: first those whose clients do not read, then those
// whose clients have read and which only keep the buffers. Clients of Kubernetes then
// watch from where they were.
//
// It has state of watches with large events only, and a timer for tenants that exceed their limit.
type largeEvents struct {
	maxBytes int64

	mu      sync.Mutex
	tenants map[tenant.Name]*heldEvents
}

// heldEvents are the large events of a tenant's watches.
type heldEvents struct {
	bytes    int64
	watches  sets.Set[*watchWriter]
	sweeping bool
}

// WithWatchBytes ends watches of tenants' users that hold more than maxBytes of large events. Zero
// is no limit. It runs after authorization.
func WithWatchBytes(handler http.Handler, maxBytes int64) http.Handler {
	if maxBytes == 0 {
		maxBytes = math.MaxInt64 // what clients send by web sockets is bounded in any case
	}
	return newLargeEvents(maxBytes).filter(handler)
}

func newLargeEvents(maxBytes int64) *largeEvents {
	return &largeEvents{maxBytes: maxBytes, tenants: map[tenant.Name]*heldEvents{}}
}

func (l *largeEvents) filter(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n := chargedTenant(req.Context())
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || info.Verb != "watch" || !n.IsSpace() {
			handler.ServeHTTP(w, req)
			return
		}
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		watch := &watchWriter{ResponseWriter: w, events: l, tenant: n, cancel: cancel, disconnect: func() { disconnect(ctx) }}
		defer watch.finish()
		req = req.WithContext(storage.WithWritten(ctx, &watch.written))
		// Upstream compresses initial events piece by piece, so that their size would not be known.
		req.Header.Del("Accept-Encoding")
		handler.ServeHTTP(responsewriter.WrapForHTTP1Or2(watch), req)
	})
}

// hold charges a watch for an event that is larger than those before.
func (l *largeEvents) hold(w *watchWriter, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.released {
		return
	}
	held := l.tenants[w.tenant]
	if held == nil {
		held = &heldEvents{watches: sets.Set[*watchWriter]{}}
		l.tenants[w.tenant] = held
	}
	held.watches.Insert(w)
	held.bytes += size - w.held
	w.held, w.since = size, time.Now()
	l.sweepLater(w.tenant, held)
}

// release forgets a watch that has ended or is about to.
func (l *largeEvents) release(w *watchWriter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseLocked(w)
}

func (l *largeEvents) releaseLocked(w *watchWriter) {
	if w.released = true; w.held == 0 {
		return
	}
	held := l.tenants[w.tenant]
	held.watches.Delete(w)
	held.bytes -= w.held
	w.held = 0
	if len(held.watches) == 0 {
		delete(l.tenants, w.tenant)
	}
}

// sweepLater schedules a sweep of a tenant that exceeds its limit.
func (l *largeEvents) sweepLater(n tenant.Name, held *heldEvents) {
	if held.bytes > l.maxBytes && !held.sweeping {
		held.sweeping = true
		time.AfterFunc(watchSweepInterval, func() {
			for _, w := range l.surplus(n, held) {
				w.end()
			}
		})
	}
}

// surplus releases what a tenant's watches hold beyond its limit, as far as they have held it for
// long enough, and returns the watches to end.
func (l *largeEvents) surplus(n tenant.Name, held *heldEvents) []*watchWriter {
	l.mu.Lock()
	defer l.mu.Unlock()
	var surplus []*watchWriter
	held.sweeping = false
	now := time.Now()
	for _, w := range slices.SortedFunc(maps.Keys(held.watches), func(a, b *watchWriter) int {
		return cmp.Or(cmp.Compare(a.rank(now), b.rank(now)), a.since.Compare(b.since))
	}) {
		if held.bytes <= l.maxBytes {
			break
		}
		grace := eventGrace
		if held.bytes > manyEvents*l.maxBytes {
			grace = manyEventsGrace
		}
		if now.Sub(w.since) < grace {
			break // those that are read do not end before those that are not
		}
		l.releaseLocked(w)
		surplus = append(surplus, w)
	}
	l.sweepLater(n, held)
	return surplus
}

package flowcontrol

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// work is what runs for a write. Whatever has the write's context refers to it.
type work struct {
	// unended is true when the write was answered while it was at work.
	unended atomic.Bool
	// _ is a pointer, because Go has small objects without any in blocks of several, which it collects together: seats
	// would wait for whatever is in the block.
	_ *byte
}

type workKey struct{}

func withWork(ctx context.Context) context.Context {
	return context.WithValue(ctx, workKey{}, &work{})
}

// workFrom returns what runs for a write, nil for other requests.
func workFrom(ctx context.Context) *work {
	w, _ := ctx.Value(workKey{}).(*work)
	return w
}

func isUnended(ctx context.Context) bool {
	w := workFrom(ctx)
	return w != nil && w.unended.Load()
}

// WithUnended keeps writes of tenants' users from ending when their clients are gone.
// Upstream answers then, which frees the seats, while what runs for the request goes on: a
// client that sends costly requests and closes its connections would have any number of
// them at work, and so would one that asks for a short timeout. Now its own end ends it, or
// upstream's limit for the handlers of requests; the client is answered when it asks to be. It
// runs before the request is bound to the life of the tenant, with which it still ends. A write
// that is answered before its end keeps its seats. Bodies of requests that last may come for as long as they like.
func WithUnended(handler http.Handler, longRunning request.LongRunningRequestCheck) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, ok := request.RequestInfoFrom(ctx)
		lasts := ok && longRunning != nil && longRunning(req, info)
		if lasts {
			sentFrom(ctx).lasts()
		}
		if !ok || classify(info, 0) != write || !chargedTenant(ctx).IsSpace() || lasts {
			handler.ServeHTTP(w, req)
			return
		}
		unended, cancel := context.WithTimeout(context.WithoutCancel(ctx), mostUnended)
		defer cancel()
		if work := workFrom(ctx); work != nil {
			// Upstream's status is 504 when it answers before the end. The same status of a write that
			// has ended does no harm.
			w = roundtrip.OnHeader(w, func(status int) {
				if status == http.StatusGatewayTimeout {
					work.unended.Store(true)
				}
			})
		}
		handler.ServeHTTP(w, req.WithContext(unended))
	})
}

// endWithWork releases a request's seats when what runs for it has ended. Upstream does not tell, but it needs the
// request's context: when nothing refers to that any longer, the garbage collector, which runs every two minutes at the
// least, finds out. A reference may outlive the work: something that is kept may have been made with the context of its
// first request. So the seats are released after forgetAfter in any case.
func (f *fairQueues) endWithWork(w *work, e *execution) {
	unended.Inc()
	end := sync.OnceFunc(func() {
		unended.Dec()
		e.end()
	})
	stop := f.afterFunc(forgetAfter, func() {
		klog.InfoS("A write was answered before its end, and something refers to it still; its seats are released now", "tenant", e.demand.key.tenant)
		end()
	})
	runtime.AddCleanup(w, func(end func()) {
		stop()
		end()
	}, end)
	if f.collecting.CompareAndSwap(false, true) {
		f.afterFunc(collectAfter, func() {
			f.collecting.Store(false)
			runtime.GC()
		})
	}
}

package waiting

import (
	"context"
	"net/http"
	"sync"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

// Webhooks counts the webhooks that a request waits for, which may be several at a time.
// The zero value is ready for use.
type Webhooks struct {
	mu      sync.Mutex
	calls   int
	changed func(waits bool)
}

type key struct{}

// With returns a context whose webhooks w counts.
func With(ctx context.Context, w *Webhooks) context.Context {
	return context.WithValue(ctx, key{}, w)
}

// Notify sets the function that is called, in order, when the request starts and stops
// waiting, and calls it if the request waits already. Nil unsets it. changed must not call w.
func Notify(ctx context.Context, changed func(waits bool)) {
	w, ok := ctx.Value(key{}).(*Webhooks)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed = changed
	if changed != nil && w.calls > 0 {
		changed(true)
	}
}

func (w *Webhooks) add(calls int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.calls > 0
	w.calls += calls
	if after := w.calls > 0; after != before && w.changed != nil {
		w.changed(after)
	}
}

// Transport counts requests through delegate as calls of webhooks.
func Transport(delegate http.RoundTripper) http.RoundTripper {
	return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		if w, ok := req.Context().Value(key{}).(*Webhooks); ok {
			w.add(1)
			defer w.add(-1)
		}
		return delegate.RoundTrip(req)
	})
}

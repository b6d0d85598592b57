package filters

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
)

// errNamespaceGone is why requests end before they are done.
var errNamespaceGone = errors.New("the namespace is gone")

// NamespaceWatch ends long requests with the namespace that they are about. A watch would otherwise go on in the next
// namespace of the name, for which nobody has authorized it.
type NamespaceWatch struct {
	// Known returns the UID of a namespace of the flattened view, empty if the cache does not know it.
	Known func(tenant.Flat) types.UID
	// UIDOf is Known, and asks the server where the cache does not know: it is empty if there is no namespace.
	UIDOf func(tenant.Flat) types.UID

	mu sync.Mutex
	// ends are those of the requests, by namespace.
	ends map[tenant.Flat]map[*bound]struct{}
}

// bound is a request in a namespace that had a UID, or was not known.
type bound struct {
	uid types.UID
	end context.CancelCauseFunc
}

// Bind returns the context of a request in a namespace, and what to call when the request is done.
func (l *NamespaceWatch) Bind(ctx context.Context, name tenant.Flat) (context.Context, func()) {
	ctx, end := context.WithCancelCause(ctx)
	b := &bound{end: end}
	l.mu.Lock()
	if l.ends == nil {
		l.ends = map[tenant.Flat]map[*bound]struct{}{}
	}
	keyed.Set(l.ends, name, b, struct{}{})
	b.uid = l.Known(name) // what changes from now on ends it
	l.mu.Unlock()
	return ctx, func() {
		end(nil)
		l.mu.Lock()
		defer l.mu.Unlock()
		keyed.Delete(l.ends, name, b)
	}
}

// Handler follows the namespaces of the flattened view.
func (l *NamespaceWatch) Handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { l.namespaceChanged(obj, false) },
		UpdateFunc: func(_, obj any) { l.namespaceChanged(obj, false) },
		DeleteFunc: func(obj any) { l.namespaceChanged(obj, true) },
	}
}

// namespaceChanged ends the requests in earlier namespaces of a name, and in one that is gone.
func (l *NamespaceWatch) namespaceChanged(obj any, gone bool) {
	ns, ok := objects.LastKnown[*corev1.Namespace](obj)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	name := tenant.Flat(ns.Name)
	for b := range l.ends[name] {
		if gone || b.uid != ns.UID {
			b.end(errNamespaceGone)
			keyed.Delete(l.ends, name, b)
		}
	}
}

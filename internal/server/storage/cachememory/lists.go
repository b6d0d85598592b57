package cachememory

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// listShare is which part of what a space, and all together, may have in caches lists may take at once, if there are
// several.
const (
	listShare = 2
	// leastListShare is which part of what all may have the lists of a space may take whatever others do: a page of 500
	// Secrets of charts takes 30 MB.
	leastListShare = 32
)

// List is what one request takes that lists: what is decoded for it, such as of a list at an exact resource version,
// and the copy that upstream makes of custom resources while it encodes them. Its seats are those of the bytes that are
// sent, of which some take fifty times as much memory.
type List struct {
	budget *Budget
	of     tenant.Name
	bytes  int64
	// ended is whether its request has ended. It may be decoded for a while after that.
	ended bool
}

// BoundList returns the context of a list of a scope, which ends if the lists of its tenant take too much memory at
// once, and what it takes, nil if that has no bound.
func (m *Budget) BoundList(ctx context.Context, scope tenant.Scope) (context.Context, *List) {
	n, one := scope.Tenant()
	if m == nil || !one || tenant.RequestFrom(ctx) == nil || tenant.ByPlatform(ctx) {
		return ctx, nil
	}
	list := &List{budget: m, of: n}
	context.AfterFunc(ctx, list.end)
	if again, ok := ctx.Value(rereadsKey{}).(*rereads); ok {
		if again.last != nil {
			again.last.end()
		}
		again.last = list
	}
	return etcdstore.WithDecoded(ctx, func(_ []byte, obj runtime.Object, err error) (runtime.Object, error) {
		if err == nil {
			err = list.add(int64(memory.Of(obj)))
		}
		return obj, err
	}), list
}

// rereads are the lists of a request of which each takes the place of the one before.
type rereads struct{ last *List }

type rereadsKey struct{}

// WithRereads returns a context of a request in which each list takes the place of the one before.
func WithRereads(ctx context.Context) context.Context {
	return context.WithValue(ctx, rereadsKey{}, &rereads{})
}

// AddCopy returns an error if a copy of the objects of a list takes too much memory. What a cache has of them is in it,
// nil if they are of none.
func (l *List) AddCopy(list runtime.Object, in *Cache) error {
	if l == nil {
		return nil
	}
	return l.add(in.sizeOf(list))
}

// add notes so many bytes more. They last as long as the request.
func (l *List) add(bytes int64) error {
	m := l.budget
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.ended {
		return context.Canceled
	}
	if err := l.checkLocked(m.lists[l.of] + bytes); err != nil {
		return err
	}
	l.bytes += bytes
	m.lists[l.of] += bytes
	m.allLists += bytes
	return nil
}

// checkLocked returns an error if the lists of the space may not take so much. One list may, if it is the only one.
func (l *List) checkLocked(takes int64) error {
	m := l.budget
	switch {
	case m.lists[l.of] > l.bytes && takes > m.most/listShare:
		return apierrors.NewTooManyRequests(fmt.Sprintf("lists of tenant %q take more than %d bytes of the server's memory at once; "+
			"read them one after the other, or in pages", l.of, m.most/listShare), 1)
	case m.total > 0 && m.allLists > l.bytes && takes > max(m.total/listShare-m.allLists, m.total/leastListShare):
		return apierrors.NewTooManyRequests("lists of all tenants take too much of the server's memory at once; read in pages", 1)
	default:
		return nil
	}
}

// end forgets a list whose request has ended.
func (l *List) end() {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.budget.allLists -= l.bytes
	if l.budget.lists[l.of] -= l.bytes; l.budget.lists[l.of] == 0 {
		delete(l.budget.lists, l.of)
	}
	l.bytes, l.ended = 0, true
}

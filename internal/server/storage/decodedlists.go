package storage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// listShare is which part of what a space, and all together, may have in caches lists may decode at once that caches do not answer, if there are several.
const listShare = 2

// decodedList is a list that is decoded for one request, such as one at an exact resource version. Its seats are those of
// the bytes that are sent, of which some take fifty times as much memory.
type decodedList struct {
	memory *CacheMemory
	of     tenant.Name
	bytes  int64
	// ended is whether its request has ended. It may be decoded for a while after that.
	ended bool
}

// boundDecoded returns the context of a list of n, which ends if the lists of n take too much memory at once.
func (s *Space) boundDecoded(ctx context.Context, n tenant.Name) context.Context {
	if s.cacheMemory == nil || !n.IsSpace() || tenant.RequestFrom(ctx) == nil || tenant.ByPlatform(ctx) {
		return ctx
	}
	list := &decodedList{memory: s.cacheMemory, of: n}
	context.AfterFunc(ctx, list.end)
	return etcdstore.WithDecoded(ctx, func(_ []byte, obj runtime.Object, err error) (runtime.Object, error) {
		if err == nil {
			err = list.add(obj)
		}
		return obj, err
	})
}

// add notes an object. What is decoded lasts as long as the request.
func (l *decodedList) add(obj runtime.Object) error {
	bytes := int64(memory.Of(obj))
	m := l.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.ended {
		return context.Canceled
	}
	if err := l.check(m.lists[l.of] + bytes); err != nil {
		return err
	}
	l.bytes += bytes
	m.lists[l.of] += bytes
	m.allLists += bytes
	return nil
}

// check returns an error if the lists of the space may not take so much. One list may, if it is the only one. The lock is held.
func (l *decodedList) check(takes int64) error {
	m := l.memory
	switch {
	case m.lists[l.of] > l.bytes && takes > m.most/listShare:
		return apierrors.NewTooManyRequests(fmt.Sprintf("lists of tenant %q that are read from etcd take more than %d bytes of the server's memory at once; "+
			"read them one after the other, or without a resourceVersion", l.of, m.most/listShare), 1)
	case m.total > 0 && m.allLists > l.bytes && takes > max(m.total/listShare-m.allLists, m.total/leastShare):
		return apierrors.NewTooManyRequests("lists of all tenants that are read from etcd take too much of the server's memory at once; "+
			"read in pages, or without a resourceVersion", 1)
	default:
		return nil
	}
}

// end forgets a list whose request has ended.
func (l *decodedList) end() {
	l.memory.mu.Lock()
	defer l.memory.mu.Unlock()
	l.memory.allLists -= l.bytes
	if l.memory.lists[l.of] -= l.bytes; l.memory.lists[l.of] == 0 {
		delete(l.memory.lists, l.of)
	}
	l.bytes, l.ended = 0, true
}

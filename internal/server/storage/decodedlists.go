package storage

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// listShare is which part of what a space, and all together, may have in caches lists may take at once, if there are several.
const (
	listShare = 2
	// leastListShare is which part of what all may have the lists of a space may take whatever others do: a page of 500 Secrets of charts takes 30 MB.
	leastListShare = 32
)

// decodedList is what one request takes that lists: what is decoded for it, such as of a list at an exact resource version, and the copy that upstream makes of
// custom resources while it encodes them. Its seats are those of the bytes that are sent, of which some take fifty times as much memory.
type decodedList struct {
	memory *CacheMemory
	of     tenant.Name
	bytes  int64
	// ended is whether its request has ended. It may be decoded for a while after that.
	ended bool
}

// boundDecoded returns the context of a list of n, which ends if the lists of n take too much memory at once, and what it takes, nil if that has no bound.
func (s *Space) boundDecoded(ctx context.Context, n tenant.Name) (context.Context, *decodedList) {
	if s.options.CacheMemory == nil || !n.IsSpace() || tenant.RequestFrom(ctx) == nil || tenant.ByPlatform(ctx) {
		return ctx, nil
	}
	list := &decodedList{memory: s.options.CacheMemory, of: n}
	context.AfterFunc(ctx, list.end)
	if before, ok := ctx.Value(rereadKey{}).(**decodedList); ok {
		if *before != nil {
			(*before).end()
		}
		*before = list
	}
	return etcdstore.WithDecoded(ctx, func(_ []byte, obj runtime.Object, err error) (runtime.Object, error) {
		if err == nil {
			err = list.add(int64(memory.Of(obj)))
		}
		return obj, err
	}), list
}

type rereadKey struct{}

// withRereads returns a context of a request in which each list takes the place of the one before.
func withRereads(ctx context.Context) context.Context {
	return context.WithValue(ctx, rereadKey{}, new(*decodedList))
}

// boundCopied returns an error if a list of custom resources takes too much memory while it is encoded, also one that a cache answers.
func (s *Space) boundCopied(of *decodedList, list runtime.Object) error {
	if _, custom := s.newFunc().(*unstructured.Unstructured); !custom || of == nil {
		return nil
	}
	var in *contents
	if cached, ok := s.Interface.(*withHistory); ok {
		in = cached.history.contents
	}
	return of.add(in.sizeOf(list))
}

// add notes so many bytes more. They last as long as the request.
func (l *decodedList) add(bytes int64) error {
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
		return apierrors.NewTooManyRequests(fmt.Sprintf("lists of tenant %q take more than %d bytes of the server's memory at once; "+
			"read them one after the other, or in pages", l.of, m.most/listShare), 1)
	case m.total > 0 && m.allLists > l.bytes && takes > max(m.total/listShare-m.allLists, m.total/leastListShare):
		return apierrors.NewTooManyRequests("lists of all tenants take too much of the server's memory at once; read in pages", 1)
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

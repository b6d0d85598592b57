package storage

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
	"github.com/tenantry/tenantry/test/until"
)

// webhook decides what is decoded: it may be away, and does not convert what is bad.
type webhook struct {
	runtime.Codec
	away, strict *atomic.Bool
	asked        func()
}

func (w webhook) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	w.asked()
	if w.away.Load() || w.strict.Load() && bytes.Contains(data, []byte(`"bad":`)) {
		return nil, nil, errBad
	}
	return w.Codec.Decode(data, defaults, into)
}

// shared is a version of a definition that spaces share, and the objects of two of them.
type shared struct {
	*store
	away, strict atomic.Bool
	// asked, if set, is called for each object.
	asked atomic.Pointer[func()]
}

func newShared(t *testing.T, b *backend, strict bool) *shared {
	s := &shared{}
	s.strict.Store(strict)
	b.decoding = func(codec runtime.Codec) runtime.Codec {
		return webhook{codec, &s.away, &s.strict, func() {
			if asked := s.asked.Load(); asked != nil {
				(*asked)()
			}
		}}
	}
	s.store = b.widgets(t, "", true)
	return s
}

func (s *shared) write(t *testing.T, n tenant.Name, name string, fields ...string) {
	t.Helper()
	object := dense.Widget(name, 1)
	for _, field := range fields {
		object.Object[field] = "x"
	}
	if err := s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", name), object, s.newFunc(), 0); err != nil {
		t.Fatal(err)
	}
}

// names returns those in a list of a space.
func (s *shared) names(t *testing.T, n tenant.Name) (found []string, err error) {
	list := s.newListFunc()
	err = s.GetList(s.in(t, n.Scope(), "ns"), s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: "0"}, list)
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		found = append(found, obj.(metav1.Object).GetName())
		return nil
	})
	return found, err
}

// TestUndecodable checks that an object of one space which cannot be converted is left out of what all share, and
// nothing while the webhook is away.
func TestUndecodable(t *testing.T) {
	for name, stored := range map[string]bool{"stored before": true, "written now": false} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			s := newShared(t, b, false)
			s.write(t, "a", "first")
			s.write(t, "b", "good")
			if stored {
				s.write(t, "a", "bad", "bad")
			}
			next := newShared(t, b, true) // a cache that lists what there is
			until.True(t, "another one lists", func() bool { found, err := next.names(t, "b"); return err == nil && slices.Contains(found, "good") })
			w, err := next.Watch(next.in(t, "b", "ns"), next.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: "0"})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Stop()
			if !stored {
				s.write(t, "a", "bad", "bad") // by another server
			}
			next.write(t, "b", "later")
			for seen := ""; seen != "later"; {
				event, open := <-w.ResultChan()
				if !open {
					t.Fatal("a watch of another space has ended")
				}
				seen = event.Object.(metav1.Object).GetName()
			}
			until.True(t, "others go on", func() bool { found, err := next.names(t, "b"); return err == nil && slices.Contains(found, "later") })
			if found, err := next.names(t, "a"); err != nil || !slices.Equal(found, []string{"first"}) {
				t.Errorf("its own space has %v: %v", found, err)
			}
			h := next.Interface.(*withHistory).history
			if h.takesBack() {
				t.Error("what does not convert is taken back")
			}
			next.strict.Store(false)
			if !h.takesBack() {
				t.Error("what was left out is not taken back when it converts")
			}
			next.strict.Store(true)
			err = next.Get(next.in(t, "a", "ns"), next.key("ns", "bad"), storage.GetOptions{}, next.newFunc())
			if err == nil || !strings.Contains(err.Error(), errBad.Error()) {
				t.Errorf("its own space reads it: %v", err)
			}
		})
	}
}

// TestUndecodableWithoutWebhook checks that a list in which nothing converts fails: all objects would seem to have
// gone.
func TestUndecodableWithoutWebhook(t *testing.T) {
	b := newBackend(t)
	s := newShared(t, b, false)
	for _, n := range []tenant.Name{"a", "b"} {
		s.write(t, n, "good")
	}
	s.write(t, "a", "bad", "bad")
	etcd, codec := *s.uncached.(*etcdKeys), *s.uncached.(*etcdKeys).shared
	codec.undecodable = &undecodable{versions: codec.undecodable.versions, resource: codec.undecodable.resource, left: leftOut{}}
	etcd.shared = &codec // what the caches of s leave out is not counted
	h := b.histories.newHistory(&etcd, nil, s.newFunc(), time.Minute)
	t.Cleanup(h.close)
	list := func(ctx context.Context) (int, error) {
		found := s.newListFunc()
		err := h.GetList(ctx, s.resourcePrefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, found)
		h.failedLists.Store(0)
		return meta.LenList(found), err
	}
	s.strict.Store(true)
	if n, err := list(t.Context()); err != nil || n != 3 { // with what is in the place of it
		t.Errorf("with a webhook, there are %d: %v", n, err)
	}
	page, next := s.newListFunc(), s.newListFunc()
	opts := storage.ListOptions{Recursive: true, Predicate: storage.Everything}
	opts.Predicate.Limit = 2
	err := h.GetList(t.Context(), s.resourcePrefix, opts, page)
	opts.Predicate.Continue = page.(metav1.ListInterface).GetContinue()
	if err = errors.Join(err, h.GetList(t.Context(), s.resourcePrefix, opts, next)); err != nil || meta.LenList(next) != 1 || len(etcd.shared.undecodable.left["a"]) != 1 {
		t.Errorf("after a page without what is left out, %d are: %v", len(etcd.shared.undecodable.left), err)
	}
	s.away.Store(true)
	if _, err := list(t.Context()); err == nil {
		t.Error("without a webhook, a list succeeds")
	}
	etcd.shared.undecodable.mu.Lock()
	etcd.shared.undecodable.sample = nil
	etcd.shared.undecodable.mu.Unlock()
	if _, err := list(t.Context()); err == nil {
		t.Error("a list succeeds of which nothing was ever converted")
	}
}

// TestLeftOut checks that a tenant with many objects that are left out does not take the place of others.
func TestLeftOut(t *testing.T) {
	left := leftOut{}
	for range 2 * maxLeft {
		left.add("a", &unstructured.Unstructured{})
	}
	if left.add("b", &unstructured.Unstructured{}); len(left["a"]) != maxLeft || len(left["b"]) != 1 {
		t.Errorf("of a are %d, and of b %d", len(left["a"]), len(left["b"]))
	}
}

// TestConversionsAtOnce checks that what fills a shared cache does not wait for one conversion after the other, and has
// whole objects in the end.
func TestConversionsAtOnce(t *testing.T) {
	b := newBackend(t)
	s := newShared(t, b, false)
	for _, name := range []string{"one", "two"} {
		s.write(t, "a", name)
	}
	h := b.histories.newHistory(s.uncached.(*etcdKeys), nil, s.newFunc(), time.Minute)
	t.Cleanup(h.close)
	until.True(t, "its own cache is filled", func() bool { found, err := s.names(t, "a"); return err == nil && len(found) == 2 })
	var inside atomic.Int32
	both := make(chan struct{})
	meet := func() {
		if inside.Add(1) == 2 {
			close(both)
		}
		<-both
	}
	s.asked.Store(&meet)
	list, ended := s.newListFunc(), make(chan error, 1)
	go func() {
		ended <- h.GetList(t.Context(), s.resourcePrefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, list)
	}()
	until.True(t, "both are converted at once", func() bool { return len(ended) == 1 })
	s.asked.Store(nil)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	seen := 0
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		object, err := meta.Accessor(obj)
		if n, noTenant := tenantOf(obj); err == nil && noTenant == nil && n == "a" && object.GetResourceVersion() != "" {
			seen++
		}
		return err
	})
	if seen != 2 {
		t.Errorf("%d objects are whole", seen)
	}
}

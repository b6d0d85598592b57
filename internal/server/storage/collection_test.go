package storage

import (
	"context"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
	"github.com/tenantry/tenantry/test/until"
)

// TestDecodedLists checks that lists of a space which are decoded for it do not take more memory than they may at once,
// unless there is one alone.
func TestDecodedLists(t *testing.T) {
	const maps, objects = 100, 10
	b := newBackend(t)
	b.cacheMemory = cachememory.New(objects*400*maps, 0) // all together, in a cache
	widgets, others, cached := b.customs(t, "a", true, false), b.customs(t, "b", true, false), b.widgets(t, "a", true)
	for n, s := range map[tenant.Name]*store{"a": widgets, "b": others} {
		for i := range objects {
			if err := s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", strconv.Itoa(i)), dense.Widget(strconv.Itoa(i), maps), s.newFunc(), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	by := func(s *store, n tenant.Name) context.Context {
		return request.WithUser(s.in(t, n.Scope(), "ns"), &user.DefaultInfo{Name: "dev", Extra: map[string][]string{tenant.UserExtraKey: {n.String()}}})
	}
	list := func(ctx context.Context, s *store) error {
		return s.GetList(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything}, s.newListFunc())
	}
	expect := func(what string, fits bool, err error) {
		t.Helper()
		if fits != (err == nil) || err != nil && !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	heldBy := func(n tenant.Name) int64 { return b.cacheMemory.Usage().Lists[n] }
	released := func() {
		t.Helper()
		until.True(t, "nothing is held of lists that have ended", func() bool { return heldBy("a") == 0 })
	}
	until.True(t, "the cache is filled", func() bool {
		ctx, end := context.WithCancel(by(cached, "a"))
		defer end()
		return list(ctx, cached) == nil
	})
	released()
	first, end := context.WithCancel(by(widgets, "a"))
	defer end()
	expect("one", true, list(first, widgets))
	second, endSecond := context.WithCancel(by(widgets, "a"))
	expect("another one beside it", false, list(second, widgets))
	expect("one that a cache answers, which is copied", false, list(second, cached))
	expect("another tenant's", true, list(by(others, "b"), others))
	platform := request.WithUser(widgets.in(t, "a", "ns"), &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
	expect("one of the platform", true, list(platform, widgets))
	end()
	endSecond()
	released()
	after, endAfter := context.WithCancel(by(widgets, "a"))
	expect("another one after it", true, list(after, widgets))
	endAfter()
	released()
	again, endAgain := context.WithCancel(cachememory.WithRereads(by(widgets, "a")))
	expect("a page", true, list(again, widgets))
	expect("the page, read again with fewer objects", true, list(again, widgets))
	endAgain()
	released()
	third, endThird := context.WithCancel(by(cached, "a"))
	defer endThird()
	if expect("one that a cache answers after it", true, list(third, cached)); heldBy("a") < objects*300*maps {
		t.Errorf("a copy counts as %d bytes", heldBy("a"))
	}
}

// TestDecodedWatches checks that what a watch begins with counts until it has been sent, and not as long as the watch.
func TestDecodedWatches(t *testing.T) {
	b := newBackend(t)
	b.cacheMemory = cachememory.New(1<<20, 0)
	s := b.customs(t, "a", true, false)
	if err := s.Create(s.in(t, "a", "ns"), s.key("ns", "one"), dense.Widget("one", 1), s.newFunc(), 0); err != nil {
		t.Fatal(err)
	}
	ctx := request.WithUser(s.in(t, "a", "ns"), &user.DefaultInfo{Name: "dev", Extra: map[string][]string{tenant.UserExtraKey: {"a"}}})
	w, err := s.Watch(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if event := <-w.ResultChan(); event.Type != watch.Added {
		t.Fatalf("the watch begins with %v", event)
	}
	until.True(t, "nothing counts", func() bool { return len(b.cacheMemory.Usage().Lists) == 0 })
}

// TestNamespacesEndWithoutCaches checks that the platform lists what is in a namespace whose objects no cache has, and
// a page of it where it deletes.
func TestNamespacesEndWithoutCaches(t *testing.T) {
	const page = 10_000
	b := newBackend(t)
	b.cacheMemory = cachememory.New(1<<20, 0)
	s := b.widgets(t, "a", true)
	platform := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	dev := &user.DefaultInfo{Name: "dev", Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}
	h := s.Interface.(*withHistory).history
	filled := h.counted
	for what, tc := range map[string]struct {
		empty           bool
		failed          int32
		user            user.Info
		verb, namespace string
		uncached        bool
		limit           int64
	}{
		"the platform deletes":                {false, 1, platform, "deletecollection", "ns", true, deletedAtOnce},
		"before there is a cache":             {true, 0, platform, "deletecollection", "ns", true, deletedAtOnce},
		"the platform looks what is left":     {false, 1, platform, "list", "ns", true, page},
		"the platform lists all of the space": {false, 1, platform, "list", "", false, page},
		"a user deletes":                      {false, 1, dev, "deletecollection", "ns", false, page},
		"there is a cache":                    {false, 0, platform, "deletecollection", "ns", false, page},
	} {
		h.failedLists.Store(tc.failed)
		if h.counted = filled; tc.empty {
			h.counted = b.cacheMemory.NewCache(s.cacheID, "", nil, nil)
		}
		ctx := request.WithRequestInfo(request.WithUser(s.in(t, "a", "ns"), tc.user), &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb, Namespace: tc.namespace})
		if by, limit := s.listedBy(ctx, page); (by == s.uncached) != tc.uncached || limit != tc.limit {
			t.Errorf("%s: without a cache is %t, by %d", what, by == s.uncached, limit)
		}
	}
}

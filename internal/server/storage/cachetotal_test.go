package storage

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// TestHeadroom checks that a write which fails gives back what it took where nothing is left, and a deletion, too.
func TestHeadroom(t *testing.T) {
	b := newBackend(t)
	b.cacheMemory = cachememory.New(1<<20, 1<<20)
	occupier(b.cacheMemory)("others", 1<<20)
	s := b.widgets(t, "a", true)
	create := func(name string, maps int) error {
		return s.Create(s.in(t, "a", "ns"), s.key("ns", name), dense(name, maps), s.newFunc(), 0)
	}
	headroom := func() int64 { return b.cacheMemory.Usage().Headroom["a"] }
	for _, name := range []string{"one", "two"} {
		if err := create(name, 15); err != nil {
			t.Fatal(err)
		}
	}
	used := headroom()
	if used == 0 || used > 1<<20/64 {
		t.Fatalf("%d bytes are headroom", used)
	}
	if err := create("two", 5); err == nil || headroom() != used {
		t.Errorf("after a write that failed, %d bytes are headroom, and were %d: %v", headroom(), used, err)
	}
	w := s.newWrite("a")
	before := dense("one", 15)
	fits := w.Begin(t.Context(), before).Admit
	if err := fits(dense("one", 16)); err != nil || headroom() == used {
		t.Errorf("an attempt takes none of %d: %v", headroom(), err)
	}
	if err := w.Begin(t.Context(), before).Admit(before); err != nil || headroom() != used {
		t.Errorf("the next attempt, which takes none, leaves %d of %d: %v", headroom(), used, err)
	}
	if err := create("three", 40); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "all spaces together") {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Delete(s.in(t, "a", "ns"), s.key("ns", "two"), s.newFunc(), nil, nil, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until.True(t, "what is deleted is given back", func() bool { return headroom() < used })
}

// TestCachesBeyondAll checks that where all spaces have far more than they may, caches of those with little are filled, and of others are not.
func TestCachesBeyondAll(t *testing.T) {
	const total = 128_000
	b := newBackend(t)
	m := cachememory.New(1<<20, total)
	occupy := occupier(m)
	occupy("others", 2*total)
	fill := func(n tenant.Name, objects int) error {
		s := b.customs(t, n, true, false)
		for i := range objects {
			if err := s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", strconv.Itoa(i)), dense(strconv.Itoa(i), 10), s.newFunc(), 0); err != nil {
				t.Fatal(err)
			}
		}
		etcd := s.uncached.(*etcdKeys)
		h := b.histories.newHistory(etcd, m.NewCache(etcd.cacheID, "", etcd.cacheKey, tenantOf), s.newFunc(), time.Minute)
		t.Cleanup(h.close)
		return h.GetList(t.Context(), tenant.CachePrefix(s.resourcePrefix, n.Scope()), storage.ListOptions{Recursive: true, Predicate: storage.Everything}, s.newListFunc())
	}
	if err := fill("a", 1); err != nil {
		t.Errorf("of a space with little: %v", err)
	}
	if err := fill("b", 10); err == nil || !strings.Contains(err.Error(), "of all tenants") {
		t.Errorf("of a space with much: %v", err)
	}
	occupy("others", -2*total)
	if err := fill("c", 10); err != nil {
		t.Errorf("where all have little: %v", err)
	}
}

// TestListsThatACacheAnswers checks that what a cache has counts as long as there are requests that list it.
func TestListsThatACacheAnswers(t *testing.T) {
	b := newBackend(t)
	b.cacheMemory = cachememory.New(1<<20, 0)
	s := b.widgets(t, "a", true)
	ctx, end := context.WithCancel(s.in(t, "a", "ns"))
	list := func() error {
		return s.GetList(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: "0"}, s.newListFunc())
	}
	until.True(t, "the cache answers", func() bool { return list() == nil })
	counts := func() bool { return b.cacheMemory.Usage().Resources > 0 }
	h := s.Interface.(*withHistory).history
	h.endWatch()
	h.forgetClosed()
	if !counts() {
		t.Error("a cache is forgotten whose objects a request has")
	}
	end()
	until.True(t, "it is forgotten with the request", func() bool { return !counts() })
}

// TestNamespacesEndWithoutCaches checks that the platform lists what is in a namespace whose objects no cache has, and a page of it where it deletes.
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

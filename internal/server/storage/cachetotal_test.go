package storage

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// TestMemoryOfAll checks that spaces share what all may have: none takes what others need, and who has little goes on when nothing is left.
func TestMemoryOfAll(t *testing.T) {
	const least = 20
	m := NewCacheMemory(1000, leastShare*least)
	expect := func(n tenant.Name, allowed int64) {
		t.Helper()
		more := allowed - m.bytes[n]
		if slack, err := m.admit(n, more); err != nil || slack != 0 && more > least {
			t.Errorf("%q may not have %d: %v", n, allowed, err)
		}
		if _, err := m.admit(n, more+1); err == nil {
			t.Errorf("%q may have more than %d", n, allowed)
		}
	}
	expect("a", 640)
	m.add("a", 600)
	expect("a", 640)
	expect("b", 340)
	m.add("b", 340)
	expect("c", 170)
	if !m.isNearLimit("d", cacheID{}, 0) {
		t.Error("where half is used, it is not near the limit")
	}
	if !m.maySay("d") {
		t.Error("while there is some left, objects do not say how they are")
	}
	m.add("c", 170)
	m.add("d", 85)
	m.add("e", 40)
	expect("f", 22)
	m.add("f", 45)
	expect("g", least)
	expect("f", 45+least)
	if err := m.fitsObjects("f", DefinitionChange{Versions: 1}, 1, 1, 0); err == nil {
		t.Error("a definition gets a version where nothing is left")
	}
	if m.maySay("f") {
		t.Error("where nothing is left, objects say how they are")
	}
	slack, err := m.admit("f", least)
	if slack != least {
		t.Fatalf("%d is slack: %v", slack, err)
	}
	m.add("f", least)
	m.useSlack("f", least)
	if _, err = m.admit("f", 1); err == nil || !strings.Contains(err.Error(), "all spaces together") {
		t.Errorf("the error does not say who has the memory: %v", err)
	}
	m.add("f", -5)
	m.useSlack("f", -5)
	expect("f", 45+least)
	if m.useSlack("f", -least); len(m.slack) != 0 {
		t.Errorf("there is slack that nobody has: %v", m.slack)
	}
	if m.add("a", -600); m.all != 340+170+85+40+45+least-5 {
		t.Errorf("all have %d", m.all)
	}
}

// TestSlack checks that a write which fails gives back what it took where nothing is left, and a deletion, too.
func TestSlack(t *testing.T) {
	b := newBackend(t)
	b.cacheMemory = NewCacheMemory(1<<20, 1<<20)
	m := b.cacheMemory
	m.add("others", 1<<20)
	s := b.widgets(t, "a", true)
	create := func(name string, maps int) error {
		return s.Create(s.in(t, "a", "ns"), s.key("ns", name), dense(name, maps), s.newFunc(), 0)
	}
	slack := func() int64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.slack["a"]
	}
	for _, name := range []string{"one", "two"} {
		if err := create(name, 15); err != nil {
			t.Fatal(err)
		}
	}
	used := slack()
	if used == 0 || used > 1<<20/leastShare {
		t.Fatalf("%d bytes are slack", used)
	}
	if err := create("two", 5); err == nil || slack() != used {
		t.Errorf("after a write that failed, %d bytes are slack, and were %d: %v", slack(), used, err)
	}
	w := s.newWrite("a")
	before := dense("one", 15)
	fits := w.fits(t.Context(), before)
	if err := fits(dense("one", 16)); err != nil || slack() == used {
		t.Errorf("an attempt takes none of %d: %v", slack(), err)
	}
	if err := w.fits(t.Context(), before)(before); err != nil || slack() != used {
		t.Errorf("the next attempt, which takes none, leaves %d of %d: %v", slack(), used, err)
	}
	if err := create("three", 40); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "all spaces together") {
		t.Errorf("one too many: %v", err)
	}
	if err := s.Delete(s.in(t, "a", "ns"), s.key("ns", "two"), s.newFunc(), nil, nil, nil, storage.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until.True(t, "what is deleted is given back", func() bool { return slack() < used })
}

// TestCachesBeyondAll checks that where all spaces have far more than they may, caches of those with little are filled, and of others are not.
func TestCachesBeyondAll(t *testing.T) {
	const total = 128_000
	b := newBackend(t)
	m := NewCacheMemory(1<<20, total)
	m.add("others", 2*total)
	fill := func(n tenant.Name, objects int) error {
		s := b.customs(t, n, true, false)
		for i := range objects {
			if err := s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", strconv.Itoa(i)), dense(strconv.Itoa(i), 10), s.newFunc(), 0); err != nil {
				t.Fatal(err)
			}
		}
		etcd := s.uncached.(*etcdKeys)
		h := b.histories.newHistory(etcd, s.newFunc(), time.Minute)
		h.contents = m.newCache(etcd.cacheID, "", etcd.cacheKey)
		t.Cleanup(h.close)
		return h.GetList(t.Context(), tenant.CachePrefix(s.resourcePrefix, n.Scope()), storage.ListOptions{Recursive: true, Predicate: storage.Everything}, s.newListFunc())
	}
	if err := fill("a", 1); err != nil {
		t.Errorf("of a space with little: %v", err)
	}
	if err := fill("b", 10); err == nil || !strings.Contains(err.Error(), "of all tenants") {
		t.Errorf("of a space with much: %v", err)
	}
	m.add("others", -2*total)
	if err := fill("c", 10); err != nil {
		t.Errorf("where all have little: %v", err)
	}
}

// TestDecodedListsOfAll checks that lists of all spaces share what they may decode at once.
func TestDecodedListsOfAll(t *testing.T) {
	object := dense("x", 10)
	one := int64(memory.Of(object))
	m := NewCacheMemory(1<<30, 20*one)
	large, small := &decodedList{memory: m, of: "a"}, &decodedList{memory: m, of: "b"}
	read := func(l *decodedList, objects int) (err error) {
		for range objects {
			if err == nil {
				err = l.add(one)
			}
		}
		return err
	}
	if err := read(large, 12); err != nil { // which is more than half
		t.Errorf("one alone: %v", err)
	}
	if err := read(small, 1); !apierrors.IsTooManyRequests(err) {
		t.Errorf("another one: %v", err)
	}
	m.total = 64 * one
	large.bytes, m.lists["a"], m.allLists = 100*one, 100*one, 100*one
	if err := read(small, 2); err != nil {
		t.Errorf("a little one: %v", err)
	}
	if err := read(small, 1); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one that becomes large: %v", err)
	}
	large.end()
	if err := read(small, 10); err != nil {
		t.Errorf("one that is alone again: %v", err)
	}
	if small.end(); m.allLists != 0 {
		t.Errorf("%d bytes count of lists that have ended", m.allLists)
	}
}

// TestListsThatACacheAnswers checks that what a cache has counts as long as there are requests that list it.
func TestListsThatACacheAnswers(t *testing.T) {
	b := newBackend(t)
	b.cacheMemory = NewCacheMemory(1<<20, 0)
	s := b.widgets(t, "a", true)
	ctx, end := context.WithCancel(s.in(t, "a", "ns"))
	list := func() error {
		return s.GetList(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.Everything, ResourceVersion: "0"}, s.newListFunc())
	}
	until.True(t, "the cache answers", func() bool { return list() == nil })
	counts := func() bool {
		b.cacheMemory.mu.Lock()
		defer b.cacheMemory.mu.Unlock()
		return len(b.cacheMemory.definitions) > 0
	}
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
	b.cacheMemory = NewCacheMemory(1<<20, 0)
	s := b.widgets(t, "a", true)
	platform := &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	dev := &user.DefaultInfo{Name: "dev", Extra: map[string][]string{tenant.UserExtraKey: {"a"}}}
	h := s.Interface.(*withHistory).history
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
		b.cacheMemory.mu.Lock()
		h.contents.complete = !tc.empty
		b.cacheMemory.mu.Unlock()
		ctx := request.WithRequestInfo(request.WithUser(s.in(t, "a", "ns"), tc.user), &request.RequestInfo{IsResourceRequest: true, Verb: tc.verb, Namespace: tc.namespace})
		c, err := s.collection(ctx, s.prefix, storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: page}})
		if err != nil {
			t.Fatal(err)
		}
		if uncached := s.listedBy(ctx, &c) == s.uncached; uncached != tc.uncached || c.opts.Predicate.Limit != tc.limit {
			t.Errorf("%s: without a cache is %t, by %d", what, uncached, c.opts.Predicate.Limit)
		}
	}
}

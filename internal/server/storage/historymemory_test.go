package storage

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
	"github.com/tenantry/tenantry/test/until"
)

// TestListsBeyondTheBound checks that a cache is not filled with more than a space may have, however that was written.
func TestListsBeyondTheBound(t *testing.T) {
	const maps, objects, most = 100, 20, 300_000 // some eight of such objects
	b := newBackend(t)
	decoded := 0
	b.raw = func(config storagebackend.ConfigForResource, newFunc, newListFunc func() runtime.Object, resourcePrefix string) (storage.Interface, factory.DestroyFunc, error) {
		return b.server.Storage(config, func() runtime.Object { decoded++; return newFunc() }, newListFunc, resourcePrefix)
	}
	widgets := b.customs(t, "a", true, false)
	for i := range objects {
		name := strconv.Itoa(i)
		if err := widgets.Create(widgets.in(t, "a", "ns"), widgets.key("ns", name), dense.Widget(name, maps), widgets.newFunc(), 0); err != nil {
			t.Fatal(err)
		}
	}
	m := cachememory.New(most, 0)
	etcd := widgets.uncached.(*etcdKeys)
	h := b.histories.newHistory(etcd, m.NewCache(etcd.cacheID, "", etcd.cacheKey, tenantOf), widgets.newFunc(), time.Minute)
	t.Cleanup(h.close)
	list := func(limit int64, token string) (runtime.Object, error) {
		found := widgets.newListFunc()
		return found, h.GetList(t.Context(), tenant.CachePrefix(widgets.resourcePrefix, "a"),
			storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: limit, Continue: token}}, found)
	}
	full := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), `the custom resources of tenant "a" take more than`) || decoded >= objects || held(m, "a") != 0 {
			t.Errorf("%s: %v; %d objects were decoded, and %d bytes count", what, err, decoded, held(m, "a"))
		}
		decoded = 0
	}
	decoded = 0
	_, err := list(0, "")
	full("all", err)
	h.failedLists.Store(0)
	page, err := list(objects/4, "")
	if err != nil || h.counted.Filled() {
		t.Fatalf("a page: %v; complete is %t", err, h.counted.Filled())
	}
	_, err = list(objects, page.(metav1.ListInterface).GetContinue())
	if h.failedLists.Store(0); err == nil {
		t.Errorf("all after a page")
	}
	for i := range objects - 5 {
		name := strconv.Itoa(i)
		if err := widgets.Delete(widgets.in(t, "a", "ns"), widgets.key("ns", name), widgets.newFunc(), nil, nil, nil, storage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := list(0, ""); err != nil || !h.counted.Filled() || held(m, "a") < 5*300*maps || held(m, "a") > most {
		t.Errorf("few: %v; %d bytes count", err, held(m, "a"))
	}
}

// TestCachesBeyondAll checks that where all spaces have far more than they may, caches of those with little are filled,
// and of others are not.
func TestCachesBeyondAll(t *testing.T) {
	const total = 128_000
	b := newBackend(t)
	m := cachememory.New(1<<20, total)
	occupy := occupier(m)
	occupy("others", 2*total)
	fill := func(n tenant.Name, objects int) error {
		s := b.customs(t, n, true, false)
		for i := range objects {
			if err := s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", strconv.Itoa(i)), dense.Widget(strconv.Itoa(i), 10), s.newFunc(), 0); err != nil {
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

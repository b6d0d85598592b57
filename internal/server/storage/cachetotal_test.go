package storage

import (
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// TestMemoryOfAll checks that spaces share what all may have: none takes what others need, and a little is there for each.
func TestMemoryOfAll(t *testing.T) {
	m := NewCacheMemory(1000, 1280)
	expect := func(n tenant.Name, allowed int64) {
		t.Helper()
		now := m.bytes[n]
		if err := m.check(now, allowed-now); err != nil {
			t.Errorf("%q may not have %d: %v", n, allowed, err)
		}
		if err := m.check(now, allowed-now+1); err == nil {
			t.Errorf("%q may have more than %d", n, allowed)
		}
	}
	expect("a", 1000)
	m.add("a", 640)
	expect("a", 640)
	expect("b", 640)
	m.add("b", 440)
	expect("b", 200)
	expect("c", 200)
	if !m.maySay("d") {
		t.Error("while there is some left, objects do not say how they are")
	}
	m.add("c", 200)
	expect("c", 20)
	expect("d", 20)
	if m.maySay("d") {
		t.Error("where nothing is left, objects say how they are")
	}
	if err := m.check(200, 1); err == nil || !strings.Contains(err.Error(), "all spaces together") {
		t.Errorf("the error does not say who has the memory: %v", err)
	}
	if m.add("a", -640); m.all != 640 {
		t.Errorf("all have %d", m.all)
	}
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
	one := int64(weightOf(object, memory.Of(object)))
	m := NewCacheMemory(1<<30, 20*one)
	large, small := &decodedList{memory: m, of: "a"}, &decodedList{memory: m, of: "b"}
	read := func(l *decodedList, objects int) (err error) {
		for range objects {
			if err == nil {
				err = l.add(object)
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
	m.total = 128 * one
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

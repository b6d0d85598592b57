package cachememory

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
)

// key and owner are those of objects of one namespace, which have an annotation for their space.
func key(o runtime.Object) (string, error) { return o.(metav1.Object).GetName(), nil }

func owner(o runtime.Object) (tenant.Name, error) {
	return tenant.Name(o.(metav1.Object).GetAnnotations()[tenant.Annotation]), nil
}

// TestMemoryOfAll checks that spaces share what all may have: none takes what others need, and who has little goes on
// when nothing is left.
func TestMemoryOfAll(t *testing.T) {
	const least = 20
	m := New(1000, headroomShare*least)
	expect := func(n tenant.Name, allowed int64) {
		t.Helper()
		more := allowed - m.bytes[n]
		if headroom, err := m.checkMoreLocked(n, more); err != nil || headroom != 0 && more > least {
			t.Errorf("%q may not have %d: %v", n, allowed, err)
		}
		if _, err := m.checkMoreLocked(n, more+1); err == nil {
			t.Errorf("%q may have more than %d", n, allowed)
		}
	}
	expect("a", 640)
	m.addLocked("a", 600)
	expect("a", 640)
	expect("b", 340)
	m.addLocked("b", 340)
	expect("c", 170)
	if !m.isNearLimit("d", tenant.CacheID{}, 0) {
		t.Error("where half is used, it is not near the limit")
	}
	if !m.mayUpdateStatus("d") {
		t.Error("while there is some left, objects do not say how they are")
	}
	m.addLocked("c", 170)
	m.addLocked("d", 85)
	m.addLocked("e", 40)
	expect("f", 22)
	m.addLocked("f", 45)
	expect("g", least)
	expect("f", 45+least)
	if err := m.checkChangeLocked(tenant.CacheID{Resource: "widgets.example.com", Of: "f"}, DefinitionChange{Versions: 1}, 1, 1, 0); err == nil {
		t.Error("a definition gets a version where nothing is left")
	}
	if m.mayUpdateStatus("f") {
		t.Error("where nothing is left, objects say how they are")
	}
	headroom, err := m.checkMoreLocked("f", least)
	if headroom != least {
		t.Fatalf("%d is headroom: %v", headroom, err)
	}
	m.addLocked("f", least)
	m.useHeadroomLocked("f", least)
	if _, err = m.checkMoreLocked("f", 1); err == nil || !strings.Contains(err.Error(), "all spaces together") {
		t.Errorf("the error does not say who has the memory: %v", err)
	}
	m.addLocked("f", -5)
	m.useHeadroomLocked("f", -5)
	expect("f", 45+least)
	if m.useHeadroomLocked("f", -least); len(m.headroom) != 0 {
		t.Errorf("there is headroom that nobody has: %v", m.headroom)
	}
	if m.addLocked("a", -600); m.all != 340+170+85+40+45+least-5 {
		t.Errorf("all have %d", m.all)
	}
}

// TestCachesThatAreEmpty checks that caches count as the fullest one of their definition: those of versions that a
// webhook does not convert to fill later.
func TestCachesThatAreEmpty(t *testing.T) {
	m := New(1<<20, 0)
	definition := tenant.CacheID{Resource: "widgets.example.com", Of: "a"}
	full, empty := m.NewCache(definition, "", key, owner), m.NewCache(definition, "", key, owner)
	object := dense.Widget("x", 1)
	object.SetAnnotations(map[string]string{tenant.Annotation: "a"})
	full.Listed(&unstructured.UnstructuredList{}, true)
	full.Set(object, 1000)
	if m.bytes["a"] != 2000 {
		t.Errorf("an empty cache beside a full one counts as %d bytes", m.bytes["a"]-1000)
	}
	empty.Set(object, 1500)
	if m.bytes["a"] != 3000 {
		t.Errorf("two caches count as %d bytes", m.bytes["a"])
	}
	full.Set(object, 6<<17)
	if !m.Exceeded("a") || m.Exceeded("b") || (*Budget)(nil).Exceeded("a") {
		t.Error("what is exceeded is not known")
	}
	full.Set(object, 1000)
	empty.Forget()
	if m.bytes["a"] != 1000 || m.Exceeded("a") {
		t.Errorf("one that is left counts as %d bytes", m.bytes["a"])
	}
	full.Set(object, 0)
	full.Forget()
	full.Forget() // once too often
	full.Set(object, 1000)
	if len(m.bytes)+len(m.definitions) != 0 {
		t.Errorf("of nothing there is %v, %v", m.bytes, m.definitions)
	}
}

// TestWritesThatNoCacheHas checks that what is written counts from then on, and once, whatever caches have or wait for.
func TestWritesThatNoCacheHas(t *testing.T) {
	m := New(80_000, 0)
	definition := tenant.CacheID{Resource: "widgets.example.com", Of: "a"}
	first, second := m.NewCache(definition, "", nil, nil), m.NewCache(definition, "", nil, nil)
	newWrite := func(of tenant.CacheID) *Write {
		return m.NewWrite(of, schema.GroupResource{Resource: "widgets"}, "a", nil)
	}
	expect := func(what string, bytes int64) {
		t.Helper()
		if m.bytes["a"] != bytes {
			t.Errorf("%s: %d bytes count, want %d", what, m.bytes["a"], bytes)
		}
	}
	at := func(version string) *unstructured.Unstructured {
		object := dense.Widget("x", 1)
		object.SetResourceVersion(version)
		return object
	}
	one := newWrite(definition)
	one.take(300)
	one.take(500) // another attempt
	expect("one that is under way, for two caches", 1000)
	one.Settle(nil, at("10"))
	expect("one that is written", 1000)
	failed := newWrite(definition)
	failed.take(700)
	failed.Settle(context.Canceled, at("11"))
	expect("one that is not", 1000)
	late := newWrite(definition)
	late.take(100)
	late.Settle(nil, at("20"))
	expect("two", 1200)
	first.Passed(15)
	expect("the first is in a cache", 200)
	second.Passed(12)
	expect("another cache has it", 200)
	first.Listed(&unstructured.UnstructuredList{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "20"}}}, true)
	expect("both are", 0)
	known := newWrite(definition)
	known.take(100)
	known.Settle(nil, at("19"))
	expect("one that a cache had before it was known to be written", 0)

	for version := range maxPending + 10 {
		w := newWrite(definition)
		w.take(1)
		w.Settle(nil, at(strconv.Itoa(1000+version)))
	}
	expect("many that no cache has", 2*(maxPending+10))
	second.Passed(1000 + maxPending)
	expect("those that are not told apart from the last", 2*11)
	second.Passed(1000 + maxPending + 9)
	expect("none", 0)

	late = newWrite(definition)
	late.take(300)
	first.Forget()
	second.Forget()
	m.NewCache(definition, "", nil, nil) // of the definition as it is now
	late.Settle(context.Canceled, at("0"))
	expect("one that is not written when other caches are there", 0)
	m.NewCache(definition, "", nil, nil)

	first, second = m.NewCache(tenant.CacheID{Resource: "gadgets.example.com", Of: "a"}, "", nil, nil), nil
	gadgets := first.of.id
	first.Forget()
	late = newWrite(gadgets)
	late.take(300)
	m.NewCache(gadgets, "", nil, nil)
	late.take(0)
	late.take(200)
	expect("another attempt of one that began without caches", 200)
	late.Settle(context.Canceled, at("0"))
	expect("one that began without caches and is not written", 0)

	fits := func() error {
		w := newWrite(definition)
		err := w.Begin(t.Context(), nil).Admit(dense.Widget("x", 3))
		if err == nil {
			w.Settle(nil, at("3000"))
		}
		return err
	}
	var err error
	for range 60 {
		if err = fits(); err != nil {
			break
		}
	}
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "would take") {
		t.Errorf("%d bytes are written that no cache has, and more: %v", m.bytes["a"], err)
	}
}

// TestLargeObjectsAreReleased checks that finalizers are taken out of an object that is as large as one may be, in a
// space with little.
func TestLargeObjectsAreReleased(t *testing.T) {
	before := dense.Widget("x", 10)
	m := New(int64(memory.Of(before))*objectShare, 0)
	definition := tenant.CacheID{Resource: "widgets.example.com", Of: "a"}
	m.NewCache(definition, "", nil, nil)
	after := before.DeepCopy()
	after.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "example"}})
	for _, only := range []bool{true, false} {
		w := m.NewWrite(definition, schema.GroupResource{Resource: "widgets"}, "a", func(runtime.Object) (func(runtime.Object) (bool, error), error) {
			return func(runtime.Object) (bool, error) { return only, nil }, nil
		})
		if err := w.Begin(t.Context(), before).Admit(after); (err == nil) != only {
			t.Errorf("a change that does nothing but let it go (%t): %v", only, err)
		}
	}
}

// TestCachesMadeAnew checks that what objects take is known while the caches of a definition are made anew, and that a
// definition is not changed again while earlier ones are there.
func TestCachesMadeAnew(t *testing.T) {
	m := New(10_000, 0)
	definition := tenant.CacheID{Resource: "widgets.example.com", Of: "a"}
	object := dense.Widget("x", 1)
	object.SetAnnotations(map[string]string{tenant.Annotation: "a"})
	old := m.NewCache(definition, "", key, owner)
	old.Listed(&unstructured.UnstructuredList{}, true)
	old.Set(object, 4000)
	fits := func(versions int) error {
		return m.CheckDefinitionChange(definition, DefinitionChange{Before: 1, Versions: versions}, nil)
	}
	expect := func(what string, versions int, is func(error) bool) {
		t.Helper()
		if err := fits(versions); !is(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	ok := func(err error) bool { return err == nil }
	tooMuch := func(err error) bool { return err != nil && !apierrors.IsTooManyRequests(err) }
	expect("two versions", 2, ok)
	expect("three versions", 3, tooMuch)
	anew := m.NewCache(definition, "", key, owner)
	expect("beside an earlier cache", 1, apierrors.IsTooManyRequests)
	old.Forget()
	expect("three versions before another cache is filled", 3, tooMuch)
	if err := m.CheckDefinitionChange(definition, DefinitionChange{Before: 1, Versions: 1, Object: 7000}, nil); !tooMuch(err) {
		t.Errorf("a default of each object before another cache is filled: %v", err)
	}
	anew.Forget()
	expect("three versions without a cache", 3, tooMuch)
	anew = m.NewCache(definition, "", key, owner)
	expect("three versions before the cache is filled", 3, tooMuch)
	anew.Listed(&unstructured.UnstructuredList{}, true)
	expect("three versions when nothing is there", 3, ok)
}

// TestDecodedListsOfAll checks that lists of all spaces share what they may decode at once.
func TestDecodedListsOfAll(t *testing.T) {
	object := dense.Widget("x", 10)
	one := int64(memory.Of(object))
	m := New(1<<30, 20*one)
	large, small := &List{budget: m, of: "a"}, &List{budget: m, of: "b"}
	read := func(l *List, objects int) (err error) {
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

// TestListsThatHaveEnded checks that what is decoded for a client that has gone does not count.
func TestListsThatHaveEnded(t *testing.T) {
	m := New(1<<20, 0)
	late := &List{budget: m, of: "late"}
	late.end()
	if err := late.add(1); !errors.Is(err, context.Canceled) || len(m.lists) != 0 {
		t.Errorf("what is decoded when the client has gone: %v; %v counts", err, m.lists)
	}
}

// TestCachesOfTheSystemSpace checks that those have no bound: its writes have none either.
func TestCachesOfTheSystemSpace(t *testing.T) {
	m := New(10, 10)
	for n, bounded := range map[tenant.Name]bool{"a": true, tenant.System: false} {
		c := m.NewCache(tenant.CacheID{Resource: "widgets.example.com", Of: n.Scope()}, "v1", nil, nil)
		if got := c.Filling(t.Context(), true) != t.Context(); got != bounded {
			t.Errorf("the list that fills a cache of %q is bounded: %t", n, got)
		}
	}
}

// TestDefinitionsDoNotKeepCachesEmpty checks that custom resources are in the watch cache whatever the definitions of
// the space take: these are in memory anyhow.
func TestDefinitionsDoNotKeepCachesEmpty(t *testing.T) {
	m := New(1000, 0)
	definitions := m.NewCache(tenant.CacheID{Resource: "customresourcedefinitions.apiextensions.k8s.io", Of: tenant.Everything}, "", key, owner)
	definition := dense.Widget("x", 1)
	definition.SetAnnotations(map[string]string{tenant.Annotation: "a"})
	definitions.Set(definition, 10_000)
	c := m.NewCache(tenant.CacheID{Resource: "widgets.example.com", Of: "a"}, "", key, owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.decoded = 1250
	c.of.recountLocked()
	if err := c.of.mayFillLocked(); m.bytes["a"] <= 10_000 || err != nil {
		t.Errorf("with %d bytes: %v", m.bytes["a"], err)
	}
	c.decoded++
	c.of.recountLocked()
	if c.of.mayFillLocked() == nil {
		t.Error("custom resources have no bound")
	}
	definitions.emptyLocked()
	if len(m.shared) != 0 || m.bytes["a"] != 1251 {
		t.Errorf("%v, %v", m.shared, m.bytes)
	}
}

package storage

import (
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// dense is an object of few bytes that takes much memory: some 350 bytes for each map.
func dense(name string, maps int) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Widget")
	object.SetNamespace("ns")
	object.SetName(name)
	list := make([]any, maps)
	for i := range list {
		list[i] = map[string]any{"": int64(0)}
	}
	object.Object["list"] = list
	return object
}

// TestCustomMemory checks that what the custom resources of a space take in all versions is known and bounded.
func TestCustomMemory(t *testing.T) {
	const maps, objects, most = 100, 20, 1_470_000 // so many of such objects fit in two caches
	b := newBackend(t)
	b.customMemory = NewCustomMemory(most)
	// Two versions of a definition, and one of another tenant's.
	widgets, other, foreign := b.widgets(t, "a", true), b.widgets(t, "a", true), b.widgets(t, "b", true)
	held := func(n tenant.Name) int64 {
		b.customMemory.mu.Lock()
		defer b.customMemory.mu.Unlock()
		return b.customMemory.bytes[n]
	}
	inCaches := func() (n int) {
		b.customMemory.mu.Lock()
		defer b.customMemory.mu.Unlock()
		for c := range b.customMemory.definitions[widgets.definition].all {
			n += len(c.held)
		}
		return n
	}
	create := func(s *store, n tenant.Name, name string, maps int) error {
		return s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", name), dense(name, maps), s.newFunc(), 0)
	}
	become := func(name string, maps int) error {
		return widgets.GuaranteedUpdate(widgets.in(t, "a", "ns"), widgets.key("ns", name), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				becomes := dense(name, maps)
				becomes.SetResourceVersion(input.(metav1.Object).GetResourceVersion())
				return becomes, nil, nil
			}, nil)
	}
	refused := func(what, why string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	taken := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range objects {
		taken("one", create(widgets, "a", strconv.Itoa(i), maps))
	}
	until.True(t, "both caches have all", func() bool { return inCaches() == 2*objects })
	if all := held("a"); all > most || all < 2*objects*300*maps {
		t.Errorf("they take %d bytes", all)
	}
	const full, large = "and would take", "it takes"
	refused("one more", full, create(other, "a", "z", maps))
	refused("a large one", large, create(foreign, "b", "large", 10*maps))
	taken("another tenant's", create(foreign, "b", "z", maps))
	taken("a small one", create(widgets, "a", "small", 1))
	refused("one that becomes larger", full, become("0", 2*maps))
	refused("one that becomes large", large, become("0", 10*maps))
	managed := func(name string, content int) error {
		return widgets.GuaranteedUpdate(widgets.in(t, "a", "ns"), widgets.key("ns", name), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				becomes := input.DeepCopyObject().(*unstructured.Unstructured)
				becomes.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 30_000)}})
				if now := metav1.Now(); content > 0 {
					becomes.SetDeletionTimestamp(&now)
					becomes.SetFinalizers([]string{"example.com/" + strings.Repeat("x", content)})
				}
				return becomes, nil, nil
			}, nil)
	}
	for what, tc := range map[string]struct {
		of              tenant.Name
		versions        int
		object, element int64
		fits            bool
	}{
		"as many versions as there are":    {of: "a", versions: 2, fits: true},
		"one more version":                 {of: "a", versions: 3},
		"a small default of each object":   {of: "a", versions: 2, object: 10, fits: true},
		"a large default of each object":   {of: "a", versions: 2, object: 10_000},
		"a default of each map":            {of: "a", versions: 2, element: 64},
		"all of that, of another tenant's": {of: "b", versions: 3, object: 10_000, element: 64, fits: true},
	} {
		if err := b.customMemory.FitsDefinition(tc.of, widgets.resource, 2, tc.versions, tc.object, tc.element); (err == nil) != tc.fits {
			t.Errorf("%s: %v", what, err)
		}
	}

	taken("one that has one more manager", managed("1", 0))
	taken("one that ends", managed("2", 100))
	b.widgets(t, "a", true) // lists what there is
	until.True(t, "a third cache has all", func() bool { return inCaches() == 3*(objects+1) && held("a") > 3*objects*300*maps })
	taken("one that becomes smaller", become("0", 1))
	for i := range objects - 1 {
		widgets.remove(t, "a", "ns", strconv.Itoa(i+1))
	}
	until.True(t, "nothing is held of what is gone", func() bool { return inCaches() == 3*2 && held("a") < 300*maps })
	taken("one instead", create(widgets, "a", "z", 1))

	for c := range b.customMemory.definitions[widgets.definition].all {
		c.forget()
	}
	if left := held("a"); left != 0 {
		t.Errorf("of caches that are stopped, %d bytes are held", left)
	}
}

// TestCachesThatAreEmpty checks that caches count as the fullest one of their definition: those of versions that a webhook does not convert
// to fill later.
func TestCachesThatAreEmpty(t *testing.T) {
	m := NewCustomMemory(1 << 20)
	definition := counted{"widgets.example.com", "a"}
	key := func(o runtime.Object) (string, error) { return o.(metav1.Object).GetName(), nil }
	full, empty := m.newCache(definition, key), m.newCache(definition, key)
	object := dense("x", 1)
	object.SetAnnotations(map[string]string{tenant.Annotation: "a"})
	full.listed(&unstructured.UnstructuredList{}, true)
	full.set(object, 1000)
	if m.bytes["a"] != 2000 {
		t.Errorf("an empty cache beside a full one counts as %d bytes", m.bytes["a"]-1000)
	}
	empty.set(object, 1500)
	if m.bytes["a"] != 3000 {
		t.Errorf("two caches count as %d bytes", m.bytes["a"])
	}
	empty.forget()
	if m.bytes["a"] != 1000 {
		t.Errorf("one that is left counts as %d bytes", m.bytes["a"])
	}
	full.set(object, 0)
	full.forget()
	full.forget() // once too often
	full.set(object, 1000)
	if len(m.bytes)+len(m.definitions) != 0 {
		t.Errorf("of nothing there is %v, %v", m.bytes, m.definitions)
	}
}

// TestCachesMadeAnew checks that what objects take is known while the caches of a definition are made anew, and that a definition is not changed again
// while earlier ones are there.
func TestCachesMadeAnew(t *testing.T) {
	m := NewCustomMemory(10_000)
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	definition := counted{widgets.String(), "a"}
	key := func(o runtime.Object) (string, error) { return o.(metav1.Object).GetName(), nil }
	object := dense("x", 1)
	object.SetAnnotations(map[string]string{tenant.Annotation: "a"})
	old := m.newCache(definition, key)
	old.set(object, 4000)
	fits := func(versions int) error { return m.FitsDefinition("a", widgets, 1, versions, 0, 0) }
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
	anew := m.newCache(definition, key)
	expect("beside an earlier cache", 1, apierrors.IsTooManyRequests)
	old.forget()
	expect("three versions before another cache is filled", 3, tooMuch)
	anew.forget()
	expect("three versions without a cache", 3, tooMuch)
	anew = m.newCache(definition, key)
	expect("three versions before the cache is filled", 3, tooMuch)
	anew.listed(&unstructured.UnstructuredList{}, true)
	expect("three versions when nothing is there", 3, ok)
}

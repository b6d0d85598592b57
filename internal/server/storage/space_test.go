package storage

import (
	"context"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
	"github.com/tenantry/tenantry/test/until"
)

// TestCacheMemory checks that what the custom resources of a space take in all versions is known and bounded.
func TestCacheMemory(t *testing.T) {
	const maps, objects, most = 100, 20, 1_450_000 // so many of such objects fit in two caches
	b := newBackend(t)
	b.cacheMemory = cachememory.New(most, 0)
	// Two versions of a definition, and one of another tenant's.
	widgets, other, foreign := b.widgets(t, "a", true), b.widgets(t, "a", true), b.widgets(t, "b", true)
	held := func(n tenant.Name) int64 { return held(b.cacheMemory, n) }
	inCaches := func() (n int) { return b.cacheMemory.Usage().Objects }
	create := func(s *store, n tenant.Name, name string, maps int) error {
		return s.Create(s.in(t, n.Scope(), "ns"), s.key("ns", name), dense.Widget(name, maps), s.newFunc(), 0)
	}
	become := func(name string, maps int) error {
		return widgets.GuaranteedUpdate(widgets.in(t, "a", "ns"), widgets.key("ns", name), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				becomes := dense.Widget(name, maps)
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
	fits := func(of tenant.Name, change cachememory.DefinitionChange) error {
		getter := &RESTOptionsGetter{CacheMemory: b.cacheMemory, Ranges: b.ranges}
		change.Before = 2
		return getter.CheckDefinitionChange(t.Context(), of, widgets.resource, change)
	}
	for what, tc := range map[string]struct {
		of     tenant.Name
		change cachememory.DefinitionChange
		fits   bool
	}{
		"as many versions as there are":    {"a", cachememory.DefinitionChange{Versions: 2}, true},
		"one more version":                 {"a", cachememory.DefinitionChange{Versions: 3}, false},
		"a small default of each object":   {"a", cachememory.DefinitionChange{Versions: 2, Object: 10}, true},
		"a large default of each object":   {"a", cachememory.DefinitionChange{Versions: 2, Object: 10_000}, false},
		"a default of each map":            {"a", cachememory.DefinitionChange{Versions: 2, Element: 64}, false},
		"all of that, of another tenant's": {"b", cachememory.DefinitionChange{Versions: 3, Object: 10_000, Element: 64}, true},
	} {
		if err := fits(tc.of, tc.change); (err == nil) != tc.fits {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := (&RESTOptionsGetter{Ranges: b.ranges}).CheckDefinitionChange(t.Context(), "a", widgets.resource, cachememory.DefinitionChange{Versions: 100}); err != nil {
		t.Errorf("without a bound: %v", err)
	}
	started := b.cacheMemory
	b.cacheMemory = cachememory.New(most, 0)
	for what, tc := range map[string]struct {
		of     tenant.Name
		change cachememory.DefinitionChange
		fits   bool
	}{
		"one more version of what nobody has asked for": {"a", cachememory.DefinitionChange{Versions: 3}, false},
		"a default in it":     {"a", cachememory.DefinitionChange{Versions: 2, Object: 10_000}, false},
		"no more of it":       {"a", cachememory.DefinitionChange{Versions: 2}, true},
		"one more of little":  {"b", cachememory.DefinitionChange{Versions: 3}, true},
		"without any objects": {"c", cachememory.DefinitionChange{Versions: 3, Object: 10_000}, true},
	} {
		if err := fits(tc.of, tc.change); (err == nil) != tc.fits {
			t.Errorf("%s: %v", what, err)
		}
	}
	b.cacheMemory = started

	changed := WithDefinition(widgets.in(t, "a", "ns"), Definition{Changed: func() bool { return true }})
	if err := widgets.Create(changed, widgets.key("ns", "late"), dense.Widget("late", 1), widgets.newFunc(), 0); !apierrors.IsTooManyRequests(err) {
		t.Errorf("one whose definition has changed: %v", err)
	}
	if err := widgets.GuaranteedUpdate(changed, widgets.key("ns", "0"), widgets.newFunc(), false, nil,
		func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
			return input, nil, nil
		}, nil); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a change of one whose definition has changed: %v", err)
	}
	refused("one that has one more manager", full, managed("1", 0))
	says := func(subresource string, bytes int, ends bool) error {
		ctx := request.WithRequestInfo(widgets.in(t, "a", "ns"), &request.RequestInfo{Subresource: subresource})
		return widgets.GuaranteedUpdate(ctx, widgets.key("ns", "3"), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				becomes := input.DeepCopyObject().(*unstructured.Unstructured)
				if becomes.Object["status"] = strings.Repeat("x", bytes); ends {
					becomes.SetDeletionTimestamp(new(metav1.Now()))
				}
				return becomes, nil, nil
			}, nil)
	}
	more := occupier(b.cacheMemory)
	add := func(bytes int64) { more("a", bytes) }
	room := most - held("a")
	add(room)
	refused("one that says a little elsewhere", full, says("", 3000, false))
	refused("one that says much", full, says("status", 30_000, false))
	taken("one that says a little", says("status", 3000, false))
	add(most / 8)
	refused("one that says a little where there is more by far", full, says("status", 6000, false))
	add(-most / 8)
	taken("one that says a little while it ends", says("", 6000, true))
	add(-room)
	taken("one that ends", managed("2", 100))
	third := b.widgets(t, "a", true) // lists what there is
	until.True(t, "a third cache has all", func() bool { return inCaches() == 3*(objects+1)+1 && held("a") > 3*objects*300*maps })
	taken("one that becomes smaller", become("0", 1))
	for i := range objects - 1 {
		widgets.remove(t, "a", "ns", strconv.Itoa(i+1))
	}
	until.True(t, "nothing is held of what is gone", func() bool { return inCaches() == 3*2+1 && held("a") < 300*maps })
	taken("one instead", create(widgets, "a", "z", 1))

	for _, s := range []*store{widgets, other, third} {
		s.counted().Forget()
	}
	if left := held("a"); left != 0 {
		t.Errorf("of caches that are stopped, %d bytes are held", left)
	}
}

// TestHeadroom checks that a write which fails gives back what it took where nothing is left, and a deletion, too.
func TestHeadroom(t *testing.T) {
	b := newBackend(t)
	b.cacheMemory = cachememory.New(1<<20, 1<<20)
	occupier(b.cacheMemory)("others", 1<<20)
	s := b.widgets(t, "a", true)
	create := func(name string, maps int) error {
		return s.Create(s.in(t, "a", "ns"), s.key("ns", name), dense.Widget(name, maps), s.newFunc(), 0)
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
	before := dense.Widget("one", 15)
	fits := w.Begin(t.Context(), before).Admit
	if err := fits(dense.Widget("one", 16)); err != nil || headroom() == used {
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

// TestDenseObjects checks that built-in objects count that take far more memory than bytes, and others do not.
func TestDenseObjects(t *testing.T) {
	const subsets, objects = 1000, 10
	one := int64(2 * (subsets*(72-2*3) - 1<<10)) // of the subsets alone, each of which has two bytes
	b := newBackend(t)
	b.cacheMemory = cachememory.New(one*objects+one/2, 0)
	endpoints := func() *store {
		return b.store(t, schema.GroupResource{Resource: "endpoints"}, true, true,
			func() runtime.Object { return &corev1.Endpoints{} }, func() runtime.Object { return &corev1.EndpointsList{} })
	}
	s := endpoints()
	held := func() int64 { return held(b.cacheMemory, "a") }
	create := func(n tenant.Scope, name string, subsets int, finalizers ...string) error {
		obj := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: finalizers}, Subsets: make([]corev1.EndpointSubset, subsets)}
		return s.Create(s.in(t, n, "ns"), s.key("ns", name), obj, s.newFunc(), 0)
	}
	change := func(name string, change func(*corev1.Endpoints)) error {
		return s.GuaranteedUpdate(s.in(t, "a", "ns"), s.key("ns", name), s.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				changed := input.DeepCopyObject().(*corev1.Endpoints)
				change(changed)
				return changed, nil, nil
			}, nil)
	}
	subsetsOf := func(n int) func(*corev1.Endpoints) {
		return func(e *corev1.Endpoints) { e.Subsets, e.Finalizers = make([]corev1.EndpointSubset, n), nil }
	}
	expect := func(what string, fits bool, err error) {
		t.Helper()
		if fits && err != nil || !fits && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "are allowed")) {
			t.Errorf("%s: %v", what, err)
		}
	}
	expect("a small one", true, create("a", "small", 1))
	for i := range objects {
		expect("one that fits", true, create("a", strconv.Itoa(i), subsets, "example.com/x"))
	}
	until.True(t, "all count", func() bool { return held() >= objects*one })
	expect("one more", false, create("a", "z", subsets))
	expect("a large one", false, create("b", "z", 10*subsets))
	expect("another tenant's", true, create("b", "z", subsets))
	expect("a dense one with a text", false, create("a", "diluted", 3*subsets, strings.Repeat("x", 20*subsets)))
	expect("a text", true, create("a", "text", 1, strings.Repeat("x", 1000*subsets)))
	expect("a text that becomes dense", false, change("text", subsetsOf(subsets)))
	expect("the system's", true, create(tenant.System.Scope(), "z", 100*subsets))
	expect("a small one that becomes dense", false, change("small", subsetsOf(subsets)))
	finalizers := []string{"example.com/" + strings.Repeat("x", 25*subsets), "example.com/x"}
	expect("one whose finalizers are long", true, create("a", "ends", subsets, finalizers...))
	expect("one whose finalizers are short", true, change("ends", func(e *corev1.Endpoints) { e.Finalizers = finalizers[1:] }))
	expect("one that becomes larger", false, change("0", subsetsOf(2*subsets)))
	expect("one that ends", true, change("0", func(e *corev1.Endpoints) {
		e.DeletionTimestamp, e.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(0))
		e.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 100)}}
	}))
	expect("one that ends, and becomes larger", false, change("0", subsetsOf(2*subsets)))
	expect("one that may go", true, change("0", func(e *corev1.Endpoints) { e.Finalizers = nil }))
	endpoints() // lists what there is
	until.True(t, "another cache has all", func() bool { return held() >= 2*objects*one })
	for i := range objects {
		expect("one that becomes small", true, change(strconv.Itoa(i), subsetsOf(1)))
	}
	expect("the one whose finalizers were long", true, change("ends", subsetsOf(1)))
	until.True(t, "nothing counts any more", func() bool { return held() == 0 })
	expect("one again", true, create("a", "z", subsets/2))
}

// TestFinalizersInFullSpaces checks that finalizers can be taken out in a full space, and what a server may note with
// that.
func TestFinalizersInFullSpaces(t *testing.T) {
	const most = 200_000
	b := newBackend(t)
	b.cacheMemory = cachememory.New(most, 0)
	widgets := b.widgets(t, "a", true)
	object := dense.Widget("x", 50)
	object.SetFinalizers([]string{"example.com/1", "example.com/2", "example.com/3", "example.com/4", "example.com/5"})
	if err := widgets.Create(widgets.in(t, "a", "ns"), widgets.key("ns", "x"), object, widgets.newFunc(), 0); err != nil {
		t.Fatal(err)
	}
	until.True(t, "it counts", func() bool { return b.cacheMemory.Exceeded("a") || held(b.cacheMemory, "a") > 10_000 })
	change := func(ctx context.Context, managers int, more string) error {
		return widgets.GuaranteedUpdate(ctx, widgets.key("ns", "x"), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				becomes := input.DeepCopyObject().(*unstructured.Unstructured)
				becomes.SetFinalizers(becomes.GetFinalizers()[1:])
				if managers > 0 {
					becomes.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", managers)}})
				}
				if more != "" {
					becomes.SetLabels(map[string]string{"more": more})
				}
				return becomes, nil, nil
			}, nil)
	}
	by := func(n tenant.Name) context.Context {
		return request.WithUser(widgets.in(t, "a", "ns"), &user.DefaultInfo{Name: "jane", Extra: map[string][]string{tenant.UserExtraKey: {string(n)}}})
	}
	users, platform := by("a"), by(tenant.System)
	occupy, occupied := occupier(b.cacheMemory), int64(0)
	for _, step := range []struct {
		what     string
		times    int64 // as much as there may be, there is
		ctx      context.Context
		managers int
		more     string
		refused  bool
	}{
		{"in a full space", 1, users, 1000, "", false},
		{"in a full space, and something else", 1, users, 1000, strings.Repeat("x", 1000), true},
		{"in one that has more than it may", 2, users, 2000, "", true},
		{"in such a one, with nothing to note", 2, users, 0, "", false},
		{"in such a one, by the platform", 2, platform, 3000, "", false},
	} {
		until.True(t, "the cache has what is stored", func() bool { return held(b.cacheMemory, "a") == occupied+int64(memoryOfStored(t, widgets, "x")) })
		more := step.times*most - held(b.cacheMemory, "a")
		occupy("a", more)
		occupied += more
		if err := change(step.ctx, step.managers, step.more); apierrors.IsForbidden(err) != step.refused || err != nil && !step.refused {
			t.Errorf("%s: %v", step.what, err)
		}
	}
}

// held returns what a space takes.
func held(m *cachememory.Budget, n tenant.Name) int64 { return m.Usage().Bytes[n] }

// occupier returns what has a space take so many bytes more, or fewer, in another cache.
func occupier(m *cachememory.Budget) func(n tenant.Name, bytes int64) {
	name := func(o runtime.Object) (string, error) { return o.(metav1.Object).GetName(), nil }
	other := m.NewCache(tenant.CacheID{Resource: "others", Of: tenant.Everything}, "", name, tenantOf)
	of := map[tenant.Name]int64{}
	return func(n tenant.Name, bytes int64) {
		object := dense.Widget(string(n), 1)
		object.SetAnnotations(map[string]string{tenant.Annotation: string(n)})
		of[n] += bytes
		other.Set(object, int(of[n]))
	}
}

func memoryOfStored(t *testing.T, s *store, name string) int {
	t.Helper()
	object := s.newFunc()
	if err := s.uncached.Get(t.Context(), tenant.CacheKey(s.resourcePrefix, "a", s.key("ns", name)), storage.GetOptions{}, object); err != nil {
		t.Fatal(err)
	}
	return memory.Of(object)
}

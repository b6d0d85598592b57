package storage

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	const maps, most = 1000, 1_600_000 // two of such objects fit in two caches
	b := newBackend(t)
	b.customMemory = NewCustomMemory(most)
	// Two versions of a definition, and one of another tenant's.
	widgets, other, foreign := b.widgets(t, "a", true), b.widgets(t, "a", true), b.widgets(t, "b", true)
	held := func(n tenant.Name) int64 {
		b.customMemory.mu.Lock()
		defer b.customMemory.mu.Unlock()
		return b.customMemory.bytes[n]
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
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "bytes of the server's memory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	taken := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"x", "y"} {
		taken(name, create(widgets, "a", name, maps))
	}
	until.True(t, "both caches have both", func() bool { return held("a") > 4*300*maps })
	if all := held("a"); all > most {
		t.Errorf("they take %d bytes", all)
	}
	refused("one more", create(other, "a", "z", maps))
	taken("another tenant's", create(foreign, "b", "z", maps))
	taken("a small one", create(widgets, "a", "small", 1))
	refused("one that becomes larger", become("x", 3*maps))
	if err := b.customMemory.FitsVersions("a", widgets.resource, 2); err != nil {
		t.Errorf("as many versions as there are: %v", err)
	}
	if err := b.customMemory.FitsVersions("a", widgets.resource, 3); err == nil {
		t.Error("one more version fits")
	}
	if err := b.customMemory.FitsVersions("b", widgets.resource, 3); err != nil {
		t.Errorf("of another tenant: %v", err)
	}

	b.widgets(t, "a", true) // lists what there is
	until.True(t, "a third cache has both", func() bool { return held("a") > 6*300*maps })
	taken("one that becomes smaller", become("x", 1))
	widgets.remove(t, "a", "ns", "y")
	until.True(t, "nothing is held of what is gone", func() bool { return held("a") < 300*maps })
	taken("one instead", create(widgets, "a", "z", 1))

	for c := range b.customMemory.caches[widgets.definition] {
		c.forget()
	}
	if left := held("a"); left != 0 {
		t.Errorf("of caches that are stopped, %d bytes are held", left)
	}
}

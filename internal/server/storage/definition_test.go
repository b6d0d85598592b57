package storage

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/dense"
)

// TestWhileDefined checks that etcd itself refuses to create a custom resource whose definition has changed, or has
// gone, since its request came.
func TestWhileDefined(t *testing.T) {
	b := newBackend(t)
	definitions := b.definitions(t)
	const name = "widgets.example.com"
	definitions.create(t, "a", "", name)
	definition := definitions.newFunc()
	read := func() string {
		t.Helper()
		if err := definitions.Get(definitions.in(t, "a", ""), definitions.key("", name), storage.GetOptions{}, definition); err != nil {
			t.Fatal(err)
		}
		return definition.(metav1.Object).GetResourceVersion()
	}
	first := read()
	widgets := b.widgets(t, "a", true)
	widgets.options.Fence = func(tenant.Name, types.UID) etcdstore.Fence { return gate{} }
	create := func(resourceVersion, name string) error {
		ctx := WithDefinition(tenant.WithUID(widgets.in(t, "a", "ns"), "a", "u"), Definition{ResourceVersion: resourceVersion, Changed: func() bool { return false }})
		return widgets.Create(ctx, widgets.key("ns", name), dense.Widget(name, 1), widgets.newFunc(), 0)
	}
	change := func(resourceVersion, name string) error {
		ctx := WithDefinition(tenant.WithUID(widgets.in(t, "a", "ns"), "a", "u"), Definition{ResourceVersion: resourceVersion, Changed: func() bool { return false }})
		return widgets.GuaranteedUpdate(ctx, widgets.key("ns", name), widgets.newFunc(), false, nil,
			func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				input.(metav1.Object).SetLabels(map[string]string{"changed": "true"})
				return input, nil, nil
			}, nil)
	}
	if err := create(first, "one"); err != nil {
		t.Errorf("of the definition as it is: %v", err)
	}
	if err := create(first, "one"); !storage.IsExist(err) {
		t.Errorf("what is there: %v", err)
	}
	definitions.label(t, "a", "", name, "changed")
	if second := read(); second == first {
		t.Fatal("the definition has not changed")
	} else if err := create(second, "two"); err != nil {
		t.Errorf("of the definition as it has become: %v", err)
	}
	if err := create(first, "three"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("of a definition that has changed: %v", err)
	}
	if err := change(first, "one"); err != nil {
		t.Errorf("a change of what is there: %v", err)
	}
	for _, key := range b.keys(t, widgets.definedBy) {
		if _, err := b.server.Client().Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if err := create(first, "four"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("of a definition that is gone: %v", err)
	}
	b.transport.ServerList = []string{"another"}
	if other := b.widgets(t, "a", true); other.definedBy != "" {
		t.Errorf("a definition in another etcd is %q", other.definedBy)
	}
}

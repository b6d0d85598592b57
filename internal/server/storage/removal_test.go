package storage

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

// A definition whose finalizer somebody has taken out stays as long as its space has objects of it.
// Those of other spaces do not count.
func TestDefinitionsStay(t *testing.T) {
	b := newBackend(t)
	definitions := b.definitions(t)
	spaces := []tenant.Name{"foo", tenant.System}
	for _, n := range append(spaces, "bar") {
		b.widgets(t, n, true).create(t, n, "default", "x")
	}
	for _, n := range append(spaces, "empty") {
		definitions.create(t, n, "", "widgets.example.com")
	}
	remove := func(n tenant.Name) error {
		return definitions.Delete(definitions.in(t, n.Scope(), ""), definitions.key("", "widgets.example.com"), definitions.newFunc(),
			nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{})
	}
	if err := remove("foo"); !apierrors.IsForbidden(err) {
		t.Errorf("in a space with an object: %v", err)
	}
	for _, n := range []tenant.Name{"empty", tenant.System} {
		if err := remove(n); err != nil {
			t.Errorf("in %q: %v", n, err)
		}
	}
	b.widgets(t, "foo", true).remove(t, "foo", "default", "x")
	if err := remove("foo"); err != nil {
		t.Errorf("in a space without objects: %v", err)
	}
}

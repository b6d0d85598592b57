package storage

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestCustomResourcesOfOneSpace checks that storage of what one tenant defines answers
// about that tenant's space alone.
func TestCustomResourcesOfOneSpace(t *testing.T) {
	widgets := newBackend(t).widgets(t, "a", true)
	widgets.create(t, "a", "ns", "own")
	for _, n := range []tenant.Scope{"b", tenant.System.Scope(), tenant.All, tenant.Everything} {
		if found, _, err := widgets.tryList(t, n, ""); !isAnswer(err) || !strings.Contains(err.Error(), "name one tenant") {
			t.Errorf("in space %q: found %v, %v; want that one tenant is to be named", n, found, err)
		}
	}
	if found, _ := widgets.list(t, "a", ""); len(found) != 1 {
		t.Errorf("in its space: found %v, want one", found)
	}
}

// isAnswer reports whether an error is an answer to a client. One that wraps it is an internal error.
func isAnswer(err error) bool {
	_, is := err.(apierrors.APIStatus) // as upstream looks at it
	return is
}

// TestSpacesThatDefineThemselves checks that the storage of a published definition does not answer
// for a space that has one of its own.
func TestSpacesThatDefineThemselves(t *testing.T) {
	s := &Space{options: RESTOptionsGetter{Of: tenant.Everything}, foreign: func(n tenant.Name) bool { return n == "a" }}
	if _, err := s.scope(tenant.WithSpace(t.Context(), "a")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("got %v", err)
	}
	for _, scope := range []tenant.Scope{"b", tenant.System.Scope(), tenant.All} {
		if _, err := s.scope(tenant.WithScope(t.Context(), scope)); err != nil {
			t.Errorf("in %s: %v", scope, err)
		}
	}
}

// A cache that many spaces share is ready, and sees their objects, although a space that defines the resource
// itself, or did so, has stored some with another scope.
func TestObjectsOfAnotherScope(t *testing.T) {
	for name, defining := range map[string]map[tenant.Name]bool{"defined by the space": {"foo": true}, "defined no more": nil} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			b.defining = defining
			b.widgets(t, "foo", false).create(t, "foo", "", "x")
			shared := b.widgets(t, "", true)
			shared.create(t, "bar", "default", "x")
			if found, _ := shared.list(t, "bar", ""); len(found) != 1 {
				t.Errorf("found %v", found)
			}
		})
	}
}

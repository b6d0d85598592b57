package storage

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestCustomResourcesOfOneSpace checks that storage of what one tenant defines answers
// about that tenant's space alone.
func TestCustomResourcesOfOneSpace(t *testing.T) {
	widgets := newBackend(t).widgets(t, "a", true)
	widgets.create(t, "a", "ns", "own")
	for _, n := range []tenant.Scope{"b", tenant.System.Scope(), tenant.All, tenant.Everything} {
		if found, _, err := widgets.tryList(t, n, ""); err == nil || !strings.Contains(err.Error(), "name one tenant") {
			t.Errorf("in space %q: found %v, %v; want that one tenant is to be named", n, found, err)
		}
	}
	if found, _ := widgets.list(t, "a", ""); len(found) != 1 {
		t.Errorf("in its space: found %v, want one", found)
	}
}

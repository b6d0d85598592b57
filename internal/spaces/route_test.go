package spaces

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

// FuzzRoute checks that a request goes to the one space that its names are of,
// and that no flattened name reaches the server as the name of an object.
func FuzzRoute(f *testing.F) {
	f.Add("/api/v1/namespaces/a|ns/pods/p/status", "")
	f.Add("/apis/g/v1/namespaces/a|ns", "metadata.name=a|x")
	f.Add("/apis/g/v1/things/b|x", "metadata.namespace=a|x,spec.nodeName=n")
	f.Add("/api/v1/namespaces/a|ns/finalize", "")
	f.Add("/version", "")
	f.Fuzz(func(t *testing.T, path, selector string) {
		r, err := routeOf(path, url.Values{"fieldSelector": {selector}})
		if err != nil || r.resource == nil {
			return
		}
		if r.space != tenant.System && !r.space.IsSpace() {
			t.Fatalf("%q goes to space %q", path, r.space)
		}
		if r.space.IsSpace() && !strings.Contains(path+selector, string(r.space)+tenant.FlatSeparator) {
			t.Fatalf("%q goes to space %q, which it does not name", path, r.space)
		}
		if !strings.Contains(path+selector, tenant.FlatSeparator) && r.space != tenant.System {
			t.Fatalf("%q goes to space %q", path, r.space)
		}
		if strings.Trim(r.path, "/") != strings.Trim(path, "/") && r.space == tenant.System &&
			!strings.Contains(path, string(tenant.System)+tenant.FlatSeparator) {
			t.Fatalf("%q of the system space became %q", path, r.path)
		}
	})
}

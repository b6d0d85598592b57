package spaces

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// ConfigIn returns a copy of config whose requests are about a scope. They have the
// limits of time and bytes of requests on the flattened view.
func ConfigIn(config *rest.Config, in tenant.Scope) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			setPath(req, in, req.URL.Path)
			if isWatch(req.URL.Query()) {
				return next.RoundTrip(req)
			}
			return defaultLimits.roundTrip(next, req, defaultLimits.list)
		})
	})
	return config
}

// setPath sends req to an ordinary path in a scope.
func setPath(req *http.Request, in tenant.Scope, path string) {
	u := url.URL{Path: path}
	root := ""
	if in != tenant.System.Scope() {
		root = in.Root()
	}
	req.URL.Path = root + path
	// net/url would escape the star of tenant.Everything, which the server
	// requires as it is.
	req.URL.RawPath = root + u.EscapedPath()
}

package loopback

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// System returns config for clients whose requests go to the system space unless they name
// another one: those of controllers and hooks of the system space. It must not be given to
// anything that serves requests.
func System(config *rest.Config) *rest.Config {
	return within(config, func(*http.Request) (tenant.Name, error) { return tenant.System, nil })
}

// OfRequest returns config for clients that act in the space of the request in the context
// of each call, as upstream's storage does. A call without a space fails, unless it is for
// one of the paths in platform, which always belong to the system space.
func OfRequest(config *rest.Config, platform ...Path) *rest.Config {
	return within(config, func(req *http.Request) (tenant.Name, error) {
		for _, path := range platform {
			if path.matches(req) {
				return tenant.System, nil
			}
		}
		return tenant.SpaceFrom(req.Context())
	})
}

// Path is a path in the system space, with a method.
type Path struct {
	// Method is the HTTP method. Empty means all.
	Method string
	// Path has no space root. It includes everything below it, unless Exactly.
	Path    string
	Exactly bool
}

func (p Path) matches(req *http.Request) bool {
	if p.Method != "" && p.Method != req.Method {
		return false
	}
	rest, ok := strings.CutPrefix(req.URL.Path, p.Path)
	return ok && (rest == "" || !p.Exactly && rest[0] == '/')
}

// within adds the space that spaceOf returns to requests that name none.
func within(config *rest.Config, spaceOf func(*http.Request) (tenant.Name, error)) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundtrip.Func(func(req *http.Request) (*http.Response, error) {
			if tenant.NamesRoot(req.URL.Path) {
				return next.RoundTrip(req)
			}
			n, err := spaceOf(req)
			if err != nil {
				if req.Body != nil {
					_ = req.Body.Close()
				}
				return nil, fmt.Errorf("the server's own request %s %s names no space: %w", req.Method, req.URL.Path, err)
			}
			req = req.Clone(req.Context())
			if req.URL.RawPath != "" {
				req.URL.RawPath = n.Root() + req.URL.RawPath
			}
			req.URL.Path = n.Root() + req.URL.Path
			return next.RoundTrip(req)
		})
	})
	return config
}

package discovery

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Config is what a Router is made of.
type Config struct {
	*SharedGroups
	// Builtin serves the built-in resources, Definitions the resource
	// CustomResourceDefinition, both in every space.
	Builtin, Definitions http.Handler
	// OpenAPIv2 returns the documents of Builtin and Definitions. It is called
	// when the server serves.
	OpenAPIv2  func() []*spec.Swagger
	Custom     CustomResources
	NotFound   http.Handler
	Serializer runtime.NegotiatedSerializer
}

// Router serves the requests of spaces.
type Router struct {
	Config
	openAPI *openAPI
	merged  *boundedCache[*merged]
	merging singleflight.Group
	// builtin is the discovery that all spaces share. It is made when it is first asked for: the server installs all
	// API groups before it serves.
	builtin func() *builtin
}

// NewRouter returns a router.
func NewRouter(c Config) *Router {
	r := &Router{Config: c, openAPI: newOpenAPI(c.OpenAPIv2), merged: newBoundedCache[*merged](maxMerged)}
	r.builtin = sync.OnceValue(r.newBuiltin)
	return r
}

// Over returns what serves the requests of spaces and, by system, those of the system
// space: system is the aggregator.
func (r *Router) Over(system http.Handler) http.Handler { return &router{r, system} }

type router struct {
	*Router
	system http.Handler
}

// ServeHTTP implements http.Handler.
func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	in, err := tenant.ScopeFrom(req.Context())
	n, one := in.Space()
	w = private(w, req)
	switch {
	case err != nil || n == tenant.System:
		r.system.ServeHTTP(w, req)
	case !one:
		r.handlerOfMany(req).ServeHTTP(w, req)
	default:
		r.serveSpace(n, w, req)
	}
}

func (r *router) serveSpace(n tenant.Name, w http.ResponseWriter, req *http.Request) {
	if document, ok := r.builtin().documents[strings.TrimSuffix(req.URL.Path, "/")]; ok && req.Method == http.MethodGet {
		r.serveObject(document).ServeHTTP(w, req)
		return
	}
	r.handler(n, req.URL.Path).ServeHTTP(w, req)
}

// handlerOfMany returns what serves a request that is about many spaces. Of custom
// resources they have those in common that are published.
func (r *router) handlerOfMany(req *http.Request) http.Handler {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok || !info.IsResourceRequest || r.IsBuiltin(info.APIGroup) {
		return r.system
	}
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	if published := r.Custom.Published(resource); published != nil {
		return published
	}
	if info.Verb == "watch" {
		return r.untilPublished(resource)
	}
	return r.system
}

// untilPublished returns what serves watches of a resource in many spaces that the system space alone has. They end
// when it is published, because they would not see what spaces have of it from then on.
func (r *router) untilPublished(resource schema.GroupResource) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		changes, stop := r.Custom.Changes(tenant.System)
		defer stop()
		ctx, end := context.WithCancel(req.Context())
		defer end()
		go func() {
			for r.Custom.Published(resource) == nil {
				select {
				case <-changes:
				case <-ctx.Done():
					return
				}
			}
			end()
		}()
		r.system.ServeHTTP(w, req.WithContext(ctx))
	})
}

// handler returns what serves a path in the space of n.
func (r *router) handler(n tenant.Name, path string) http.Handler {
	group, ok := groupOf(path)
	switch path {
	case "/api", "/api/":
		return r.builtin().core
	case "/apis", "/apis/", openAPIv2Path, openAPIv3Path:
		return r.ofDefinitions(n, path)
	}
	switch {
	case isHealth(path):
		return r.system // the health of the whole server
	case ok && group == apiregistration.GroupName && strings.HasPrefix(path, "/apis/"):
		return r.system // whose storage shows each space what it serves
	case !ok || r.IsBuiltin(group) || group == apiextensions.GroupName:
		return r.handlerOfGroup(group)
	default:
		return r.ofDefinitions(n, path)
	}
}

// ofDefinitions returns what serves a path in the space of n by the definitions that it has.
func (r *router) ofDefinitions(n tenant.Name, path string) http.Handler {
	switch {
	case r.Custom.IsStarting(n):
		return r.starting()
	case path == openAPIv2Path:
		return r.openAPIv2(n)
	case path == openAPIv3Path:
		return r.openAPIv3(n)
	case strings.HasPrefix(path, openAPIv3Path):
		return r.openAPIv3Of(n)
	case path == "/apis" || path == "/apis/":
		return r.discovery(n)
	default:
		return r.custom(n)
	}
}

// starting answers that what a space serves is not known yet.
func (r *router) starting() http.Handler {
	err := apierrors.NewServiceUnavailable("the server is starting and does not serve the definitions of the space yet; try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		responsewriters.ErrorNegotiated(err, r.Serializer, schema.GroupVersion{}, w, req)
	})
}

// handlerOfGroup returns what serves a group that every space has.
func (r *Router) handlerOfGroup(group string) http.Handler {
	if group == apiextensions.GroupName {
		return r.Definitions
	}
	return r.Builtin
}

// Versions returns the group versions that the space of n serves: those that every
// space does, and those of its definitions.
func (r *Router) Versions(n tenant.Name) (builtin, custom []schema.GroupVersion, err error) {
	for _, group := range r.List() {
		if group.Name == apiregistration.GroupName {
			continue
		}
		for _, version := range group.Versions {
			builtin = append(builtin, schema.GroupVersion{Group: group.Name, Version: version.Version})
		}
	}
	builtin = append(builtin, corev1.SchemeGroupVersion)
	servers := r.Custom.In(n)
	if len(servers) == 0 {
		return builtin, nil, nil
	}
	found, err := r.merge(n, servers)
	if err != nil {
		return nil, nil, err
	}
	return builtin, found.versions, nil
}

// custom returns what serves custom resources in the space of n.
func (r *Router) custom(n tenant.Name) http.Handler {
	switch servers := r.Custom.In(n); {
	case len(servers) == 0:
		return r.NotFound
	case isWhole(servers):
		return servers[0].Handler
	default:
		return r.customAmong(n, servers)
	}
}

// isHealth reports whether a path is that of a health check, or of a part of one.
func isHealth(path string) bool {
	check, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"healthz", "livez", "readyz"}, check)
}

// groupOf returns the API group that a path is about, if it is about one.
func groupOf(path string) (string, bool) {
	for _, prefix := range []string{"/apis/", "/openapi/v3/apis/"} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			group, _, _ := strings.Cut(rest, "/")
			return group, true
		}
	}
	return "", false
}

// openAPIv2 returns what serves the document of OpenAPI v2 in the space of n.
func (r *Router) openAPIv2(n tenant.Name) http.Handler {
	servers := r.Custom.In(n)
	if len(servers) == 0 {
		return r.openAPI.builtinV2
	}
	return r.openAPI.documentV2(n, servers)
}

// openAPIv3 returns what serves the root document of OpenAPI v3 in the space of n.
func (r *Router) openAPIv3(n tenant.Name) http.Handler {
	// Definitions also serves the custom resources of the system space.
	return mergedPaths(pathsOf(r.Custom.In(n)), source{server: r.Builtin}, source{server: r.Definitions, group: apiextensions.GroupName})
}

// openAPIv3Of returns what serves a document of OpenAPI v3 of custom resources in the space of n.
func (r *Router) openAPIv3Of(n tenant.Name) http.Handler {
	return perRequest(func(req *http.Request) (http.Handler, error) {
		document, err := r.openAPI.documentV3(req, n, r.Custom.In(n))
		return cmp.Or(document, r.NotFound), err
	})
}

// discovery returns what serves the groups of the space of n.
func (r *Router) discovery(n tenant.Name) http.Handler {
	switch servers := r.Custom.In(n); {
	case len(servers) == 0:
		return r.groupList(r.builtin().groups)
	case isWhole(servers):
		return r.groupList(servers[0].Groups)
	default:
		return perRequest(func(*http.Request) (http.Handler, error) {
			found, err := r.merge(n, servers)
			if err != nil {
				return nil, err
			}
			return r.groupList(found.groups), nil
		})
	}
}

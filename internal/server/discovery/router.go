package discovery

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/internal/tenant"
)

// CustomResources serves what a space defines itself.
type CustomResources interface {
	// Handler serves the custom resources of n.
	Handler(n tenant.Name) http.Handler
	// Groups serves the aggregated discovery of n, nil if it is the built-in one.
	Groups(n tenant.Name) http.Handler
}

// Router serves the requests of spaces. System is for all others.
type Router struct {
	// System serves the system space, through the aggregator.
	System http.Handler
	// Builtin serves the built-in resources, Definitions the resource
	// CustomResourceDefinition, both in every space.
	Builtin, Definitions http.Handler
	// AllGroups is the aggregated discovery of the system space.
	AllGroups http.Handler
	// OpenAPIv2 returns the documents of Builtin and Definitions. It is called
	// when the server serves.
	OpenAPIv2 func() []*spec.Swagger
	// IsBuiltin reports whether an API group is built in and served in spaces.
	IsBuiltin  func(group string) bool
	Custom     CustomResources
	Serializer runtime.NegotiatedSerializer

	// What all spaces share is made when it is first asked for: the server
	// installs all API groups before it serves.
	once        sync.Once
	groups      aggregated.ResourceManager
	list        []apidiscoveryv2.APIGroupDiscovery
	openAPI     *openAPIv2
	apiServices http.Handler
}

// Groups returns the API groups that every space has.
func (r *Router) Groups() []apidiscoveryv2.APIGroupDiscovery {
	r.once.Do(r.share)
	return r.list
}

func (r *Router) share() {
	groups, err := readGroups(r.AllGroups)
	if err != nil {
		klog.ErrorS(err, "Reading the API groups of all spaces")
	}
	r.apiServices = http.NotFoundHandler()
	for _, group := range groups {
		switch {
		case group.Name == apiregistration.GroupName:
			group = withoutVerbs(group)
			r.apiServices = apiServices(group, r.Serializer)
		case group.Name != apiextensions.GroupName && !r.IsBuiltin(group.Name):
			continue
		}
		r.list = append(r.list, group)
	}
	r.groups = aggregated.NewResourceManager("apis")
	r.groups.SetGroups(r.list)
	r.openAPI = newOpenAPIv2(r.OpenAPIv2)
}

// ServeHTTP implements http.Handler.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	n, err := tenant.From(req.Context())
	if err != nil || !n.IsSpace() {
		r.System.ServeHTTP(w, req)
		return
	}
	r.handler(n, req.URL.Path).ServeHTTP(w, req)
}

// handler returns what serves a path in the space of n.
func (r *Router) handler(n tenant.Name, path string) http.Handler {
	if path == "/apis" || path == "/apis/" {
		return r.discovery(n)
	}
	switch path {
	case openAPIv2Path:
		return r.openAPIv2(n)
	case openAPIv3Path:
		return r.openAPIv3(n)
	}
	group, ok := groupOf(path)
	switch {
	case isHealth(path):
		return r.System // the health of the whole server
	case !ok || r.IsBuiltin(group):
		return r.Builtin
	case group == apiextensions.GroupName:
		return r.Definitions
	case group == apiregistration.GroupName && strings.HasPrefix(path, "/apis/"):
		r.Groups()
		return r.apiServices
	default:
		return r.Custom.Handler(n)
	}
}

// isHealth reports whether a path is that of a health check, or of a part of one.
func isHealth(path string) bool {
	return slices.ContainsFunc([]string{"/healthz", "/livez", "/readyz"}, func(check string) bool {
		rest, ok := strings.CutPrefix(path, check)
		return ok && (rest == "" || rest[0] == '/')
	})
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
	r.Groups()
	if r.Custom.Groups(n) == nil {
		return r.openAPI.shared
	}
	return r.openAPI.of(n, r.Custom.Handler(n))
}

// openAPIv3 returns what serves the root document of OpenAPI v3 in the space of n.
func (r *Router) openAPIv3(n tenant.Name) http.Handler {
	if r.Custom.Groups(n) == nil {
		// Definitions also serves the custom resources of the system space.
		return mergedPaths(source{server: r.Builtin}, source{server: r.Definitions, group: apiextensions.GroupName})
	}
	return mergedPaths(source{server: r.Builtin}, source{server: r.Custom.Handler(n)})
}

func (r *Router) discovery(n tenant.Name) http.Handler {
	groups := r.Custom.Groups(n)
	if groups == nil {
		r.Groups()
		groups = r.groups
	}
	return aggregated.WrapAggregatedDiscoveryToHandler(groupList(groups, r.Serializer), groups, groups)
}

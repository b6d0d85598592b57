package discovery

import (
	"net/http"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/klog/v2"

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
	// IsBuiltin reports whether an API group is built in and served in spaces.
	IsBuiltin  func(group string) bool
	Custom     CustomResources
	Serializer runtime.NegotiatedSerializer

	once   sync.Once
	groups aggregated.ResourceManager
	list   []apidiscoveryv2.APIGroupDiscovery
}

// Groups returns the API groups that every space has. They are read when first
// asked for: the server installs all of them before it serves.
func (r *Router) Groups() []apidiscoveryv2.APIGroupDiscovery {
	r.once.Do(func() {
		groups, err := readGroups(r.AllGroups)
		if err != nil {
			klog.ErrorS(err, "Reading the API groups of all spaces")
		}
		r.list = only(groups, func(group string) bool { return group == apiextensions.GroupName || r.IsBuiltin(group) })
		r.groups = aggregated.NewResourceManager("apis")
		r.groups.SetGroups(r.list)
	})
	return r.list
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
	if path == "/openapi/v3" && r.Custom.Groups(n) != nil {
		return mergedPaths(r.Builtin, r.Custom.Handler(n))
	}
	group, ok := groupOf(path)
	switch {
	case !ok || r.IsBuiltin(group):
		return r.Builtin
	case group == apiextensions.GroupName:
		return r.Definitions
	default:
		return r.Custom.Handler(n)
	}
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

func (r *Router) discovery(n tenant.Name) http.Handler {
	groups := r.Custom.Groups(n)
	if groups == nil {
		r.Groups()
		groups = r.groups
	}
	return aggregated.WrapAggregatedDiscoveryToHandler(groupList(groups, r.Serializer), groups, groups)
}

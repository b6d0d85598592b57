package spaces

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
)

// route is the target of a request on the flattened view.
type route struct {
	// space is the space it goes to, empty if it goes everywhere.
	space tenant.Name
	// everywhere is whether it goes to every space: a list or watch that names no
	// namespace.
	everywhere bool
	// path is the ordinary path in that space.
	path string
	// query is the query in that space.
	query url.Values
	// named is whether the path itself names the space.
	named bool
	// resource is the path after the namespace, empty for discovery.
	resource []string
	// namespace is the one that the path names, by its ordinary name.
	namespace string
	// owner is the UID of the owner of the pods that the request concerns (itemOf).
	owner types.UID
	// collection is whether the path is that of a resource rather than an object.
	collection bool
}

// routeOf maps an ordinary path with flattened names, and the names in its field
// selector. All names in a path must belong to one space.
func routeOf(path string, query url.Values) (route, error) {
	r := route{space: tenant.System, path: path, query: query}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	for _, segment := range segments {
		if err := checkName(segment); err != nil {
			return r, err
		}
	}
	prefix := 0
	switch {
	case segments[0] == "api" && len(segments) > 2:
		prefix = 2
	case segments[0] == "apis" && len(segments) > 3:
		prefix = 3
	case slices.Contains(documents, segments[0]):
		return r, nil
	default:
		return r, errors.New("it is neither a resource nor one of the documents that controllers read")
	}
	resource := segments[prefix:]
	if resource[0] == "watch" {
		return r, errors.New("watches have a query, and no path of their own")
	}
	if resource[0] == "namespaces" && len(resource) > 2 && !isNamespaceSubresource(resource[2:]) {
		if err := r.unflatten(&resource[1]); err != nil {
			return r, err
		}
		r.named, r.namespace = true, resource[1]
		resource = resource[2:]
	}
	if strings.Contains(resource[0], tenant.FlatSeparator) { // a resource that one space defines
		if err := r.unflatten(&resource[0]); err != nil {
			return r, err
		}
		r.named = true
	}
	r.collection = len(resource) == 1
	if len(resource) > 1 {
		r.named = true
		if err := r.unflatten(&resource[1]); err != nil {
			return r, err
		}
	}
	r.resource = resource
	r.path = "/" + strings.Join(segments, "/")
	return r, r.selectFields()
}

// documents are the paths that clients of the flattened view read beside resources:
// discovery, OpenAPI and the version, of the system space.
var documents = []string{"api", "apis", "openapi", "version"}

// scope returns the scope of the request.
func (r *route) scope() tenant.Scope {
	if r.everywhere {
		return tenant.Everything
	}
	return r.space.Scope()
}

// ofClusterScoped reports whether the request may be an event of a cluster-scoped
// object. Recorders write those to the namespace "default" without a space in its
// name. The space is that of the object.
func (r *route) ofClusterScoped() bool {
	return r.space == tenant.System && r.resource[0] == "events"
}

func isNamespaceSubresource(rest []string) bool {
	return len(rest) == 1 && (rest[0] == "status" || rest[0] == "finalize")
}

// unflatten replaces a flattened name and takes its space.
func (r *route) unflatten(name *string) error {
	owner, plain := tenant.Flat(*name).Split()
	if plain == *name {
		return nil
	}
	if r.space != tenant.System && r.space != owner {
		return fmt.Errorf("request names two spaces, %q and %q", r.space, owner)
	}
	if owner != tenant.System && !owner.IsSpace() {
		return fmt.Errorf("name %q is of no space", *name)
	}
	r.space, *name = owner, plain
	return nil
}

// selectFields unflattens the names in a field selector.
func (r *route) selectFields() error {
	value := r.query.Get("fieldSelector")
	if !strings.Contains(value, tenant.FlatSeparator) {
		return nil
	}
	selector, err := fields.ParseSelector(value)
	if err != nil {
		return fmt.Errorf("parsing the field selector: %w", err)
	}
	selector, err = selector.Transform(func(field, value string) (string, string, error) {
		if !isNameField(field) {
			return field, value, nil
		}
		err := r.unflatten(&value)
		r.named = true
		return field, value, err
	})
	if err != nil {
		return err
	}
	r.query = maps.Clone(r.query)
	r.query.Set("fieldSelector", selector.String())
	return nil
}

func isNameField(field string) bool {
	return field == "metadata.name" || field == "metadata.namespace" || strings.HasSuffix(field, ".namespace")
}

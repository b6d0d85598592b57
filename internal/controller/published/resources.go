package published

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/objects"
)

// Object names an object of the system space and, at the same place, its copies.
type Object = objects.Ref

var (
	namespaces  = corev1.Resource("namespaces")
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

func namespaceObject(name string) Object { return Object{Resource: namespaces, Name: name} }

// rank orders resources: what others need comes first, and what decides about
// others last.
func rank(r schema.GroupResource) int {
	switch {
	case r == namespaces:
		return 0
	case r == definitions:
		return 1
	case strings.HasSuffix(r.Resource, "classes"):
		return 2
	case r.Group == rbacv1.GroupName && strings.HasSuffix(r.Resource, "bindings"):
		return 5
	case r.Group == rbacv1.GroupName:
		return 4
	case r.Group == "admissionregistration.k8s.io" && strings.HasSuffix(r.Resource, "policies"):
		return 6
	case r.Group == "admissionregistration.k8s.io":
		return 7
	default:
		return 3
	}
}

func compareObjects(a, b Object) int {
	return cmp.Or(
		cmp.Compare(rank(a.Resource), rank(b.Resource)),
		cmp.Compare(a.Resource.String(), b.Resource.String()),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// path returns the URL path of an object, or of its collection if name is empty.
func path(r schema.GroupVersionResource, namespace, name string) string {
	segments := []string{"", "apis", r.Group, r.Version}
	if r.Group == "" {
		segments = []string{"", "api", r.Version}
	}
	if namespace != "" {
		segments = append(segments, "namespaces", namespace)
	}
	segments = append(segments, r.Resource)
	if name != "" {
		segments = append(segments, name)
	}
	return strings.Join(segments, "/")
}

// resolve finds out in which version each resource is served. Namespaces are
// always among them, because they are published with what is in them, and so are
// definitions, which say what may be in a namespace. A resource that is not built in
// is left out and named: spaces may have another by its name, or none.
func resolve(mapper meta.RESTMapper, resources []schema.GroupResource) (map[schema.GroupResource]schema.GroupVersionResource, []schema.GroupResource, error) {
	var unknown []schema.GroupResource
	resolved := map[schema.GroupResource]schema.GroupVersionResource{
		namespaces:  corev1.SchemeGroupVersion.WithResource("namespaces"),
		definitions: definitions.WithVersion("v1"),
	}
	for _, r := range resources {
		if r.Group != definitions.Group && !scheme.Scheme.IsGroupRegistered(r.Group) {
			unknown = append(unknown, r)
			continue
		}
		served, err := mapper.ResourceFor(r.WithVersion(""))
		switch {
		case meta.IsNoMatchError(err):
			unknown = append(unknown, r)
		case err != nil:
			return nil, nil, fmt.Errorf("finding the publishable resource %q: %w", r, err)
		default:
			resolved[r] = served
		}
	}
	return resolved, unknown, nil
}

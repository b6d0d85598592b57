package published

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Copies of namespaces and definitions hold what tenants put into them, and their
// deletion would delete that too. So they are deleted only if there is nothing; else
// they become the tenant's own.

// release removes the copy of a namespace or a definition from a space, or leaves
// it to the tenant. A namespace has to be without copies first.
func (r *Reconciler) release(ctx context.Context, n tenant.Name, o Object, have copied) (outcome, error) {
	if o.Resource == namespaces && r.copies.in(n, o.Name) {
		return pending, nil
	}
	result, vacant := current, false
	if !have.held && !slices.Contains(spaceNamespaces, o.Name) {
		var err error
		if result, vacant, err = r.vacant(ctx, n, o); err != nil || result != current {
			return result, err
		}
	}
	if vacant {
		return r.delete(ctx, n, o, have)
	}
	_, err := r.clients.mark(ctx, n, r.resources[o.Resource], o.Name, "")
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("releasing %s: %w", o, err)
	}
	r.copies.drop(o, n, forever)
	return current, nil
}

// vacant reports whether a tenant has nothing in a namespace, or of a definition.
func (r *Reconciler) vacant(ctx context.Context, n tenant.Name, o Object) (outcome, bool, error) {
	if o.Resource == definitions {
		return r.unused(ctx, n, o)
	}
	own, err := r.clients.list(ctx, n, r.resources[definitions], "")
	if err != nil || len(own) > 0 { // whose objects may be anywhere
		return current, false, err
	}
	for _, resource := range r.contents {
		found, err := r.clients.list(ctx, n, resource, o.Name)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
			return 0, false, fmt.Errorf("looking for %s in %s: %w", resource.Resource, o, err)
		}
		if slices.ContainsFunc(found, func(name string) bool { return !isFurniture(resource.Resource, name) }) {
			return current, false, nil
		}
	}
	return current, true, nil
}

// isFurniture reports whether an object is one that controllers put into every
// namespace, or that goes by itself.
func isFurniture(resource, name string) bool {
	return resource == "events" ||
		resource == "serviceaccounts" && name == "default" ||
		resource == "configmaps" && name == "kube-root-ca.crt"
}

// unused reports whether a space has no objects of a definition. One that is not
// served at the moment may have some.
func (r *Reconciler) unused(ctx context.Context, n tenant.Name, o Object) (outcome, bool, error) {
	body, err := r.clients.publisher.Get().AbsPath("/tenants/"+string(n)+path(r.resources[definitions], "", o.Name)).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return current, true, nil
	}
	definition := &unstructured.Unstructured{}
	if err == nil {
		err = definition.UnmarshalJSON(body)
	}
	if err != nil {
		return 0, false, fmt.Errorf("reading %s: %w", o, err)
	}
	custom, established := customResource(definition)
	if !established {
		return current, true, nil
	}
	found, err := r.clients.list(ctx, n, custom, "")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsServiceUnavailable(err):
		return pending, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("looking for objects of %s: %w", o, err)
	default:
		return current, len(found) == 0, nil
	}
}

// customResource returns what a definition defines, and whether it is established.
func customResource(definition *unstructured.Unstructured) (custom schema.GroupVersionResource, established bool) {
	custom.Resource, custom.Group, _ = strings.Cut(definition.GetName(), ".")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if fields, ok := version.(map[string]any); ok && fields["served"] == true {
			custom.Version, _ = fields["name"].(string)
		}
	}
	conditions, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		if fields["type"] == "Established" && fields["status"] == string(metav1.ConditionTrue) {
			established = true
		}
	}
	return custom, established
}

// list returns the names of the first objects of a resource in a space.
func (c *clients) list(ctx context.Context, n tenant.Name, r schema.GroupVersionResource, namespace string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	err := c.publisher.Verb(http.MethodGet).AbsPath("/tenants/"+string(n)+path(r, namespace, "")).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		Param("limit", "20").Do(ctx).Into(list)
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, err
}

// contentsOf returns the resources of which there may be objects in a namespace.
func contentsOf(client discovery.DiscoveryInterface) ([]schema.GroupVersionResource, error) {
	lists, err := client.ServerPreferredNamespacedResources()
	if err != nil {
		return nil, fmt.Errorf("discovering what may be in a namespace: %w", err)
	}
	var resources []schema.GroupVersionResource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "create"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discovering what may be in a namespace: %w", err)
		}
		for _, resource := range list.APIResources {
			resources = append(resources, version.WithResource(resource.Name))
		}
	}
	return resources, nil
}

package published

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Copies of namespaces hold what tenants put into them, and their deletion would delete
// that too. So they are deleted only if there is nothing; else they become the tenant's
// own.

// release removes the copy of a namespace from a space, or leaves it to the tenant. It
// has to be without copies first.
func (r *Reconciler) release(ctx context.Context, n tenant.Name, o Object, have observedCopy, contents []schema.GroupVersionResource) (outcome, error) {
	if r.copies.in(n, o.Name) {
		return pending, nil
	}
	if !have.held && !slices.Contains(tenant.Namespaces, o.Name) {
		switch has, err := r.holds(ctx, n, o, contents); {
		case err != nil:
			return 0, err
		case has == copiesAlone:
			return pending, nil
		case has == nothing:
			return r.delete(ctx, n, o, have)
		}
	}
	_, err := r.clients.mark(ctx, n, r.resources[o.Resource], o.Name, "")
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("releasing %s: %w", o, err)
	}
	r.copies.drop(o, n, forever)
	return current, nil
}

// holding is what is in a namespace beside what is in every one.
type holding int

const (
	nothing holding = iota
	// copiesAlone are some that were made so lately that no watch has told of them.
	copiesAlone
	tenants
)

// holds returns what is in a namespace of a space.
func (r *Reconciler) holds(ctx context.Context, n tenant.Name, o Object, contents []schema.GroupVersionResource) (has holding, _ error) {
	own, err := r.clients.list(ctx, n, r.resources[definitions], "", ownSelector)
	if err != nil || len(own) > 0 { // whose objects may be anywhere
		return tenants, err
	}
	for _, resource := range contents {
		for _, in := range []struct {
			selector string
			has      holding
		}{{"", copiesAlone}, {ownSelector, tenants}} {
			found, err := r.clients.list(ctx, n, resource, o.Name, in.selector)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsMethodNotSupported(err) {
				return tenants, fmt.Errorf("looking for %s in %s: %w", resource.Resource, o, err)
			}
			if !slices.ContainsFunc(found, func(name string) bool { return !isAutomatic(resource.Resource, name) }) {
				break
			}
			has = in.has
		}
		if has == tenants {
			return has, nil
		}
	}
	return has, nil
}

// ownSelector selects what is no copy.
const ownSelector = "!" + tenant.PublishedCopyLabel

// isAutomatic reports whether an object is one that controllers put into every
// namespace, or that goes by itself.
func isAutomatic(resource, name string) bool {
	return resource == "events" ||
		resource == "serviceaccounts" && name == "default" ||
		resource == "configmaps" && name == "kube-root-ca.crt"
}

// publishedContents returns the custom resources of which there may be objects in a
// namespace of any space: those of definitions that are published, or have been.
func (c *clients) publishedContents(ctx context.Context, r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	body, err := c.system.Get().AbsPath(path(r, "", "")).SetHeader("Accept", runtime.ContentTypeJSON).
		Param("labelSelector", tenant.PublishedDefinitionLabel).Do(ctx).Raw()
	list := &unstructured.UnstructuredList{}
	if err == nil {
		err = list.UnmarshalJSON(body)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the published definitions: %w", err)
	}
	var resources []schema.GroupVersionResource
	for i := range list.Items {
		if custom, ok := namespacedResource(&list.Items[i]); ok {
			resources = append(resources, custom)
		}
	}
	return resources, nil
}

// namespacedResource returns what a definition defines, if that is in namespaces.
func namespacedResource(definition *unstructured.Unstructured) (custom schema.GroupVersionResource, ok bool) {
	custom.Resource, custom.Group, _ = strings.Cut(definition.GetName(), ".")
	scope, _, _ := unstructured.NestedString(definition.Object, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, version := range versions {
		if fields, ok := version.(map[string]any); ok && fields["served"] == true {
			custom.Version, _ = fields["name"].(string)
		}
	}
	return custom, scope == "Namespaced" && custom.Version != ""
}

// list returns the names of the first objects of a resource in a space.
func (c *clients) list(ctx context.Context, n tenant.Name, r schema.GroupVersionResource, namespace, labels string) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	err := c.publisher.Verb(http.MethodGet).AbsPath(n.Root()+path(r, namespace, "")).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		Param("limit", "20").Param("labelSelector", labels).Do(ctx).Into(list)
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return names, err
}

// contentsOf returns the built-in resources of which there may be objects in a namespace.
func contentsOf(client discovery.DiscoveryInterface) ([]schema.GroupVersionResource, error) {
	lists, err := client.ServerPreferredNamespacedResources()
	if failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err); ok {
		maps.DeleteFunc(failed, func(version schema.GroupVersion, _ error) bool {
			return !scheme.Scheme.IsGroupRegistered(version.Group)
		})
		if len(failed) == 0 { // of aggregated servers, which have nothing in spaces
			err = nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("discovering what may be in a namespace: %w", err)
	}
	var resources []schema.GroupVersionResource
	for _, list := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "create"}}, lists) {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discovering what may be in a namespace: %w", err)
		}
		if !scheme.Scheme.IsGroupRegistered(version.Group) {
			continue
		}
		for _, resource := range list.APIResources {
			resources = append(resources, version.WithResource(resource.Name))
		}
	}
	return resources, nil
}

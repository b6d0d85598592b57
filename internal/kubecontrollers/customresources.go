package kubecontrollers

import (
	"errors"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
)

// customResources knows the custom resources that the spaces define. Discovery
// tells of one space only, and a namespace must not go before all that is in it.
type customResources struct {
	definitions cache.SharedIndexInformer
}

var definitionsResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

func newCustomResources(client dynamic.Interface) (*customResources, error) {
	definitions := dynamicinformer.NewFilteredDynamicInformer(client, definitionsResource, metav1.NamespaceAll, 0,
		cache.Indexers{kindIndex: indexKinds, resourceIndex: indexResources}, nil).Informer()
	return &customResources{definitions: definitions}, definitions.SetTransform(trimDefinition)
}

// trimDefinition keeps of a definition what says which resources it defines.
func trimDefinition(obj any) (any, error) {
	definition, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil // the object of a deletion was trimmed before
	}
	spec, _, _ := unstructured.NestedMap(definition.Object, "spec")
	versions, _, _ := unstructured.NestedSlice(spec, "versions")
	var kept []any
	for _, version := range versions {
		if version, ok := version.(map[string]any); ok {
			kept = append(kept, map[string]any{"name": version["name"], "served": version["served"]})
		}
	}
	trimmed := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"group": spec["group"], "scope": spec["scope"], "names": spec["names"], "versions": kept,
	}}}
	if names, ok, _ := unstructured.NestedMap(definition.Object, "status", "acceptedNames"); ok {
		trimmed.Object["status"] = map[string]any{"acceptedNames": names}
	}
	trimmed.SetAPIVersion(definition.GetAPIVersion())
	trimmed.SetKind(definition.GetKind())
	trimmed.SetName(definition.GetName())
	if value, ok := definition.GetLabels()[tenant.PublishedDefinitionLabel]; ok {
		trimmed.SetLabels(map[string]string{tenant.PublishedDefinitionLabel: value})
	}
	trimmed.SetUID(definition.GetUID())
	trimmed.SetResourceVersion(definition.GetResourceVersion())
	return trimmed, nil
}

var errDefinitionsUnknown = errors.New("the definitions of custom resources are not known yet")

var customResourceVerbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// addNamespaced adds to known what any space defines beside it. In a space that
// does not define it such a resource is empty (spaces.NewClientConfig).
func (c *customResources) addNamespaced(known []*metav1.APIResourceList) ([]*metav1.APIResourceList, error) {
	if !c.definitions.HasSynced() {
		return nil, errDefinitionsUnknown
	}
	seen := map[schema.GroupVersionResource]bool{}
	for _, list := range known {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			seen[gv.WithResource(resource.Name)] = true
		}
	}
	result := slices.Clone(known)
	for _, obj := range c.definitions.GetStore().List() {
		var definition apiextensionsv1.CustomResourceDefinition
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.(*unstructured.Unstructured).Object, &definition)
		if err != nil {
			return nil, err
		}
		if definition.Spec.Scope != apiextensionsv1.NamespaceScoped {
			continue
		}
		for _, version := range definition.Spec.Versions {
			gv := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
			if gvr := gv.WithResource(definition.Spec.Names.Plural); version.Served && !seen[gvr] {
				seen[gvr] = true
				result = append(result, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{{
					Name: gvr.Resource, Namespaced: true, Kind: definition.Spec.Names.Kind, Verbs: customResourceVerbs,
				}}})
			}
		}
	}
	return result, nil
}

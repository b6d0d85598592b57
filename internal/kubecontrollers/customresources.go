package kubecontrollers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/tenant"
)

// customResources knows the custom resources that the spaces define. Discovery
// tells of one space only, and a namespace must not go before all that is in it.
type customResources struct {
	definitions cache.SharedIndexInformer
	// ofSpaces are the resources that tenants' spaces define and the system space does not serve, as addNamespaced last
	// found them.
	ofSpaces atomic.Pointer[sets.Set[schema.GroupVersionResource]]
}

func newCustomResources(config *rest.Config) (*customResources, error) {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	definitions := apiextensionsinformers.NewCustomResourceDefinitionInformer(client, 0, definitionIndexers)
	return &customResources{definitions: definitions}, definitions.SetTransform(trimDefinition)
}

// all returns the definitions of all spaces.
func (c *customResources) all() []*apiextensionsv1.CustomResourceDefinition {
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, obj := range c.definitions.GetStore().List() {
		all = append(all, obj.(*apiextensionsv1.CustomResourceDefinition))
	}
	return all
}

// trimDefinition keeps of a definition what says which resources it defines.
func trimDefinition(obj any) (any, error) {
	definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return obj, nil // the object of a deletion was trimmed before
	}
	definition.ManagedFields, definition.Annotations = nil, nil
	definition.Spec.Conversion, definition.Status.Conditions = nil, nil
	for i, version := range definition.Spec.Versions {
		definition.Spec.Versions[i] = apiextensionsv1.CustomResourceDefinitionVersion{Name: version.Name, Served: version.Served}
	}
	return definition, nil
}

var errDefinitionsUnknown = errors.New("the definitions of custom resources are not known yet")

var customResourceVerbs = metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// addNamespaced adds to known what any space defines beside it. In a space that does not define it such a resource is
// empty (spaces.NewClientConfig). What cannot be emptied of known, such as metrics, is an API of the system space
// alone, and does not stand for what a space defines by its name.
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
			seen[gv.WithResource(resource.Name)] = emptied.Match(list.GroupVersion, &resource)
		}
	}
	result, ofSpaces := slices.Clone(known), sets.New[schema.GroupVersionResource]()
	for _, definition := range c.all() {
		if definition.Spec.Scope != apiextensionsv1.NamespaceScoped {
			continue
		}
		for _, version := range definition.Spec.Versions {
			gv := schema.GroupVersion{Group: definition.Spec.Group, Version: version.Name}
			if gvr := gv.WithResource(definition.Spec.Names.Plural); version.Served && !seen[gvr] {
				seen[gvr] = true
				ofSpaces.Insert(gvr)
				result = append(result, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{{
					Name: gvr.Resource, Namespaced: true, Kind: definition.Spec.Names.Kind, Verbs: customResourceVerbs,
				}}})
			}
		}
	}
	c.ofSpaces.Store(&ofSpaces)
	return result, nil
}

// emptied are the resources of which the namespace controller deletes what is in a namespace.
var emptied = discovery.SupportsAllVerbs{Verbs: []string{"delete", "list"}}

// undiscovered stands for the resources of an API group whose discovery fails. No resource has such a name.
const undiscovered = "*"

// addUndiscovered adds the API groups that could not be discovered to known. They are of APIs that the system space
// aggregates: its namespaces stay until these are known, those of other spaces need not wait (definedMetadata).
func addUndiscovered(known []*metav1.APIResourceList, failed *discovery.ErrGroupDiscoveryFailed) []*metav1.APIResourceList {
	for gv := range failed.Groups {
		known = append(known, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{{
			Name: undiscovered, Namespaced: true, Verbs: customResourceVerbs,
		}}})
	}
	return known
}

// find returns the one definition with a value in an index: of the space, or else of
// those that are published to all.
func (c *customResources) find(index, value string) (*apiextensionsv1.CustomResourceDefinition, error) {
	found, err := c.definitions.GetIndexer().ByIndex(index, value)
	if err == nil && len(found) == 0 {
		published := tenant.Flat(value).Plain()
		found, err = c.definitions.GetIndexer().ByIndex(index, published)
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].(*apiextensionsv1.CustomResourceDefinition), nil
}

// lack reports whether a space has no objects of a resource that could be deleted, because it does not define it.
func (c *customResources) lack(space tenant.Name, resource schema.GroupVersionResource) bool {
	if !spaces.IsCustom(resource.Group+"/v1") || !c.definitions.HasSynced() {
		return false
	}
	if !space.IsSpace() {
		ofSpaces := c.ofSpaces.Load()
		return ofSpaces != nil && ofSpaces.Has(resource)
	}
	defined := resource.GroupResource()
	defined.Resource = tenant.Flatten(space, defined.Resource).String()
	definition, err := c.find(resourceIndex, defined.String())
	return err == nil && definition == nil
}

// definedMetadata is a metadata client for the namespace controller, which deletes and lists
// in each namespace what any space defines. It asks the server for what the space of the
// namespace defines alone: the deletion of a namespace must not take the longer, the more
// other tenants define.
type definedMetadata struct {
	metadata.Interface
	custom *customResources
}

// Resource implements metadata.Interface.
func (d definedMetadata) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return definedGetter{d.Interface.Resource(resource), d.custom, resource}
}

type definedGetter struct {
	metadata.Getter
	custom   *customResources
	resource schema.GroupVersionResource
}

// Namespace implements metadata.Getter.
func (g definedGetter) Namespace(namespace string) metadata.ResourceInterface {
	if g.custom.lack(tenant.Flat(namespace).Space(), g.resource) {
		return nothing{}
	}
	if g.resource.Resource == undiscovered {
		return unknown{g.Getter.Namespace(namespace), g.resource.Group}
	}
	return g.Getter.Namespace(namespace)
}

// unknown are the resources of an API group whose discovery fails.
type unknown struct {
	metadata.ResourceInterface
	group string
}

// DeleteCollection implements metadata.ResourceInterface.
func (u unknown) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return fmt.Errorf("the resources of the API group %q cannot be discovered: see the condition Available of its APIService", u.group)
}

// nothing is a resource without objects.
type nothing struct{ metadata.ResourceInterface }

// DeleteCollection implements metadata.ResourceInterface.
func (nothing) DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error {
	return nil
}

// List implements metadata.ResourceInterface.
func (nothing) List(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	return &metav1.PartialObjectMetadataList{}, nil
}

package kubecontrollers

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Indexes of the definitions, by what they define in which space. Only accepted
// names count: of two definitions of one kind, the server serves the first.
const (
	kindIndex     = "kind"     // acme|Widget.example.com, or Widget.example.com if published
	resourceIndex = "resource" // acme|widgets.example.com, or widgets.example.com
)

var definitionIndexers = cache.Indexers{
	kindIndex:     indexBy(func(names apiextensionsv1.CustomResourceDefinitionNames) string { return names.Kind }),
	resourceIndex: indexBy(func(names apiextensionsv1.CustomResourceDefinitionNames) string { return names.Plural }),
}

// indexBy indexes the definitions of which tenants' spaces can have objects.
func indexBy(nameOf func(apiextensionsv1.CustomResourceDefinitionNames) string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return nil, fmt.Errorf("indexing a %T as a definition", obj)
		}
		space, name := tenant.Flat(definition.Name).Space(), nameOf(definition.Status.AcceptedNames)
		if _, published := definition.Labels[tenant.PublishedDefinitionLabel]; name == "" || !space.IsSpace() && !published {
			return nil, nil
		}
		return []string{schema.GroupResource{Group: definition.Spec.Group, Resource: tenant.Flatten(space, name).String()}.String()}, nil
	}
}

// served returns the versions that a definition serves, the preferred one first.
func served(definition *apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, v := range definition.Spec.Versions {
		if v.Served {
			versions = append(versions, v.Name)
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}

// customDiscovery adds to the resources of the system space those that each
// other space defines, with the space in their names.
type customDiscovery struct {
	discovery.DiscoveryInterface
	custom *customResources
}

// ServerPreferredResources implements discovery.ServerResourcesInterface.
func (d customDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	lists, err := d.DiscoveryInterface.ServerPreferredResources()
	if lists == nil { // the collector must not take what spaces define for all there is
		return nil, err
	}
	for _, definition := range d.custom.all() {
		space, versions, names := tenant.Flat(definition.Name).Space(), served(definition), definition.Status.AcceptedNames
		if !space.IsSpace() || len(versions) == 0 || names.Plural == "" || names.Kind == "" {
			continue
		}
		gv := schema.GroupVersion{Group: definition.Spec.Group, Version: versions[0]}
		lists = append(lists, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{{
			Name:       tenant.Flatten(space, names.Plural).String(),
			Kind:       tenant.Flatten(space, names.Kind).String(),
			Namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
			Verbs:      customResourceVerbs,
		}}})
	}
	return lists, err
}

// customMapper maps the kinds and resources that a space defines, and leaves all
// others to the mapper of the system space.
type customMapper struct {
	*restmapper.DeferredDiscoveryRESTMapper
	custom *customResources
}

var _ meta.ResettableRESTMapper = customMapper{}

// KindFor implements meta.RESTMapper.
func (m customMapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if !isTenants(resource.Resource) {
		return m.DeferredDiscoveryRESTMapper.KindFor(resource)
	}
	definition, err := m.custom.find(resourceIndex, resource.GroupResource().String())
	switch {
	case err != nil:
		return schema.GroupVersionKind{}, err
	case definition == nil || !slices.Contains(served(definition), resource.Version):
		return schema.GroupVersionKind{}, &meta.NoResourceMatchError{PartialResource: resource}
	}
	space := tenant.Flat(resource.Resource).Space()
	return resource.GroupVersion().WithKind(tenant.Flatten(space, definition.Status.AcceptedNames.Kind).String()), nil
}

// RESTMapping implements meta.RESTMapper.
func (m customMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if !isTenants(kind.Kind) {
		return m.DeferredDiscoveryRESTMapper.RESTMapping(kind, versions...)
	}
	definition, err := m.custom.find(kindIndex, kind.String())
	if err != nil {
		return nil, err
	}
	if definition != nil {
		space := tenant.Flat(kind.Kind).Space()
		for _, v := range served(definition) {
			if len(versions) > 0 && !slices.Contains(versions, v) {
				continue
			}
			scope := meta.RESTScopeNamespace
			if definition.Spec.Scope == apiextensionsv1.ClusterScoped {
				scope = meta.RESTScopeRoot
			}
			return &meta.RESTMapping{
				Resource:         schema.GroupVersionResource{Group: kind.Group, Version: v, Resource: tenant.Flatten(space, definition.Status.AcceptedNames.Plural).String()},
				GroupVersionKind: kind.WithVersion(v),
				Scope:            scope,
			}, nil
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
}

// customInformer watches one resource of one space, or one that is published to all,
// for the garbage collector alone. Unlike a shared informer it ends when the collector
// no longer wants it: when the definition goes.
type customInformer struct {
	cache.SharedIndexInformer
	interest *interest
	resource schema.GroupVersionResource
	created  time.Time
	// gone is set once the resource is not served.
	gone *atomic.Bool
}

func newCustomInformer(client metadata.Interface, interest *interest, resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(client, resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	gone := &atomic.Bool{}
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		gone.Store(apierrors.IsNotFound(err))
		watchFailed(ctx, r, err)
	})
	if err != nil {
		return nil, err
	}
	err = informer.SetTransform(func(obj any) (any, error) {
		if object, ok := obj.(metav1.Object); ok { // what the collector does not read
			object.SetManagedFields(nil)
			object.SetAnnotations(nil)
			object.SetLabels(nil)
		}
		return obj, nil
	})
	return customInformer{informer, interest, resource, time.Now(), gone}, err
}

// watchFailed reports why a watch has ended. That of what is not served ends with its
// definition or its space, of which the collector hears a little later.
func watchFailed(ctx context.Context, r *cache.Reflector, err error) {
	if apierrors.IsNotFound(err) {
		klog.FromContext(ctx).V(2).Info("Watched resource is not served", "type", r.TypeDescription(), "err", err)
		return
	}
	cache.DefaultWatchErrorHandler(ctx, r, err)
}

// Informer implements informers.GenericInformer.
func (i customInformer) Informer() cache.SharedIndexInformer { return i }

// Lister implements informers.GenericInformer.
func (i customInformer) Lister() cache.GenericLister {
	return cache.NewGenericLister(i.GetIndexer(), i.resource.GroupResource())
}

// GetController returns what the collector runs as long as it wants the informer.
func (i customInformer) GetController() cache.Controller { return i }

// HasSynced reports whether the objects are known, or will not be. The collector waits
// for all its informers before it looks at definitions again. Discovery still names some
// that have just gone, and with a conversion webhook that hangs nothing can be listed.
func (i customInformer) HasSynced() bool {
	return i.SharedIndexInformer.HasSynced() || i.gone.Load() || time.Since(i.created) >= garbageInitialSync
}

// Run runs the informer until stop, and then forgets what its objects have noted:
// they are gone, or another informer has them in another version.
func (i customInformer) Run(stop <-chan struct{}) {
	i.SharedIndexInformer.Run(stop)
	for _, obj := range i.SharedIndexInformer.GetStore().List() {
		i.interest.release(obj)
	}
}

// AddEventHandlerWithResyncPeriod is what the collector watches with. The objects
// are identities already, and all of them are of interest.
func (i customInformer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, _ time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(i.interest.following(handler, lastKnown, func(any) bool { return true }), 0)
}

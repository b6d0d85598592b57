package sync

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

var (
	routesVersion       = schema.GroupVersion(gatewayv1.GroupVersion)
	routesResource      = routesVersion.WithResource("httproutes")
	definitionsResource = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
)

// routes are what the syncer knows of HTTPRoutes, which neither the spaces nor the host need have. In spaces they are
// custom resources: one informer has those of all spaces that have the definition that the platform publishes. It does
// not see what is written in a space that defines them itself.
type routes struct {
	// inSpaces has objects as their definition lets them be, and onHost what the syncer has made.
	inSpaces, onHost optional
	// spaces writes by flattened names.
	spaces dynamic.Interface
	// host returns a client of a namespace of the host.
	host func(namespace string) writer[gatewayv1.HTTPRoute]
}

// newRoutes returns those of two sides. spaces is the configuration of the flattened view, and writing that of a
// worker's requests there, whose time is not enough for a list of all spaces.
func newRoutes(spaces, writing, host *rest.Config, installation string) (*routes, error) {
	r := &routes{}
	var err error
	if r.spaces, err = dynamic.NewForConfig(writing); err != nil {
		return nil, fmt.Errorf("creating the client of custom resources of all spaces: %w", err)
	}
	reading, err := dynamic.NewForConfig(spaces)
	if err != nil {
		return nil, fmt.Errorf("creating the client of custom resources of all spaces: %w", err)
	}
	client, err := newTypedClient(host, routesVersion, gatewayv1.Install)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the host's HTTPRoutes: %w", err)
	}
	r.host = func(namespace string) writer[gatewayv1.HTTPRoute] {
		return gentype.NewClient(routesResource.Resource, client, metav1.ParameterCodec, namespace, func() *gatewayv1.HTTPRoute { return &gatewayv1.HTTPRoute{} })
	}
	for of, config := range map[*optional]*rest.Config{&r.inSpaces: spaces, &r.onHost: host} {
		of.resource = routesResource
		if of.discovery, err = discovery.NewDiscoveryClientForConfig(config); err != nil {
			return nil, fmt.Errorf("creating the client of discovery: %w", err)
		}
	}
	ours := func(o *metav1.ListOptions) {
		o.LabelSelector = labels.Set{names.InstallationLabel: installation}.String()
	}
	lw := cache.ToListWatcherWithWatchListSemantics(cache.NewFilteredListWatchFromClient(client, routesResource.Resource, metav1.NamespaceAll, ours), client)
	return r, r.setInformers(reading, lw)
}

// setInformers makes the informers, of a client of all spaces and of a ListerWatcher of the host.
func (r *routes) setInformers(spaces dynamic.Interface, host cache.ListerWatcher) error {
	byNamespace := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	r.inSpaces.informer = dynamicinformer.NewFilteredDynamicInformer(spaces, routesResource, metav1.NamespaceAll, 0, byNamespace, nil).Informer()
	r.onHost.informer = cache.NewSharedIndexInformer(host, &gatewayv1.HTTPRoute{}, 0, byNamespace)
	for _, informer := range []cache.SharedIndexInformer{r.inSpaces.informer, r.onHost.informer} {
		if err := informer.SetTransform(slim); err != nil {
			return fmt.Errorf("watching HTTPRoutes: %w", err)
		}
		if err := quietly(informer); err != nil {
			return fmt.Errorf("watching HTTPRoutes: %w", err)
		}
	}
	return nil
}

// areKnown reports whether it is known which routes there are on both sides.
func (r *routes) areKnown() bool { return r.inSpaces.isKnown() && r.onHost.isKnown() }

// followRoutes has HTTPRoutes of both sides fill the queue, from when there are some.
func (s *syncer) followRoutes(ctx context.Context) error {
	for of, h := range map[*optional]handler{
		&s.routes.inSpaces: {changed: s.routeChanged, gone: s.routeGone},
		&s.routes.onHost:   {changed: s.hostRouteChanged, gone: s.andRoom(s.hostRouteChanged)},
	} {
		if _, err := of.informer.AddEventHandler(h); err != nil {
			return fmt.Errorf("watching HTTPRoutes: %w", err)
		}
		go of.follow(ctx, s.enqueueAllRoutes)
	}
	return nil
}

// enqueueAllRoutes has all HTTPRoutes looked at, of spaces and of the host, once it is known which there are.
func (s *syncer) enqueueAllRoutes() {
	for _, obj := range s.routes.inSpaces.informer.GetIndexer().List() {
		s.routeChanged(obj)
	}
	for _, obj := range s.routes.onHost.informer.GetIndexer().List() {
		s.hostRouteChanged(obj)
	}
}

// in returns a client of a namespace of a space.
func (r *routes) in(namespace tenant.Flat) routesIn {
	return routesIn{r.spaces.Resource(routesResource).Namespace(namespace.String())}
}

// routesIn are HTTPRoutes of one namespace of a space.
type routesIn struct{ dynamic.ResourceInterface }

// Get implements getter.
func (r routesIn) Get(ctx context.Context, name string, options metav1.GetOptions) (*unstructured.Unstructured, error) {
	return r.ResourceInterface.Get(ctx, name, options)
}

// definesRoutes reports whether a space has a definition of HTTPRoutes of its own: then the informer has none of it.
func (s *syncer) definesRoutes(ctx context.Context, n tenant.Name) (bool, error) {
	name := tenant.Flatten(n, routesResource.GroupResource().String()).String()
	found, err := orNil(s.routes.spaces.Resource(definitionsResource).Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return false, fmt.Errorf("looking whose the definition of HTTPRoutes is: %w", err)
	}
	return found != nil && found.GetLabels()[tenant.PublishedCopyLabel] == "", nil
}

package server

import (
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"

	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/serializer"
)

// provider wraps one of upstream's API groups.
type provider struct {
	controlplaneapiserver.RESTStorageProvider
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p provider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil || len(group.VersionedResourcesStorageMap) == 0 {
		return group, err
	}
	group.NegotiatedSerializer = serializer.Wrap(group.NegotiatedSerializer, serializer.LinksOf(&group))
	return group, nil
}

// reviewProvider is the group of TokenReviews, which are answered for a space.
type reviewProvider struct {
	authenticationrest.RESTStorageProvider
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p reviewProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	for _, storage := range group.VersionedResourcesStorageMap {
		if _, ok := storage["tokenreviews"]; ok {
			storage["tokenreviews"] = authentication.NewTokenReviews(p.Authenticator, p.APIAudiences)
		}
	}
	return group, err
}

// hookedProvider is a provider that also has a hook; upstream finds out by the
// type whether there is one.
type hookedProvider struct {
	provider
	genericapiserver.PostStartHookProvider
}

// wrapProviders shows tenants on the wire of every group and adds Tenants to
// the core group and as a group of their own.
func wrapProviders(upstream []controlplaneapiserver.RESTStorageProvider, tenants *tenantregistry.Storage, policies *accesspolicy.REST) []controlplaneapiserver.RESTStorageProvider {
	upstream = append(upstream, tenantregistry.Group{Storage: tenants, Others: map[string]rest.Storage{accesspolicy.Resource.Resource: policies}})
	for i := range upstream {
		if reviews, ok := upstream[i].(authenticationrest.RESTStorageProvider); ok {
			upstream[i] = reviewProvider{reviews}
		}
	}
	wrapped := make([]controlplaneapiserver.RESTStorageProvider, len(upstream))
	for i := range upstream {
		if upstream[i].GroupName() == "" {
			hooks, _ := upstream[i].(genericapiserver.PostStartHookProvider)
			core := provider{tenantregistry.CoreGroup{RESTStorageProvider: upstream[i], Storage: tenants}}
			wrapped[i] = hookedProvider{core, hooks}
			continue
		}
		wrapped[i] = provider{upstream[i]}
		if hooks, ok := upstream[i].(genericapiserver.PostStartHookProvider); ok {
			wrapped[i] = hookedProvider{provider{upstream[i]}, hooks}
		}
	}
	return wrapped
}

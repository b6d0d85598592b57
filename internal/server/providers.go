package server

import (
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

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

// hookedProvider is a provider that also has a hook; upstream finds out by the
// type whether there is one.
type hookedProvider struct {
	provider
	genericapiserver.PostStartHookProvider
}

func wrapProviders(upstream []controlplaneapiserver.RESTStorageProvider) []controlplaneapiserver.RESTStorageProvider {
	wrapped := make([]controlplaneapiserver.RESTStorageProvider, len(upstream))
	for i := range upstream {
		wrapped[i] = provider{upstream[i]}
		if hooks, ok := upstream[i].(genericapiserver.PostStartHookProvider); ok {
			wrapped[i] = hookedProvider{provider{upstream[i]}, hooks}
		}
	}
	return wrapped
}

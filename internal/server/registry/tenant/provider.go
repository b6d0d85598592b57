package tenant

import (
	"maps"

	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// Group serves the group tenantry.io.
type Group struct {
	Storage *Storage
	// Others are the storages of the group's other resources, by path.
	Others map[string]rest.Storage
}

// GroupName implements controlplaneapiserver.RESTStorageProvider.
func (Group) GroupName() string { return v1alpha1.GroupVersion.Group }

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (g Group) NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group := genericapiserver.NewDefaultAPIGroupInfo(g.GroupName(), legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
	resources := g.Storage.Map()
	maps.Copy(resources, g.Others)
	group.VersionedResourcesStorageMap[v1alpha1.GroupVersion.Version] = resources
	return group, nil
}

// CoreGroup adds Tenants to upstream's core group, as v1.
type CoreGroup struct {
	controlplaneapiserver.RESTStorageProvider
	Storage *Storage
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (g CoreGroup) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := g.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil {
		return group, err
	}
	for path, storage := range g.Storage.Map() {
		group.VersionedResourcesStorageMap["v1"][path] = storage
	}
	group.VersionedResourcesStorageMap["v1"][Resource.Resource] = coreREST{g.Storage.Tenant}
	return group, nil
}

// coreREST has the short name; in both groups it would be ambiguous.
type coreREST struct{ *REST }

// ShortNames implements rest.ShortNamesProvider.
func (coreREST) ShortNames() []string { return []string{"te"} }

var _ rest.Patcher = &StatusREST{}

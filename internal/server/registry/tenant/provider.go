package tenant

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

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
	group.NegotiatedSerializer = withoutProtobuf{group.NegotiatedSerializer}
	group.VersionedResourcesStorageMap[v1alpha1.GroupVersion.Version] = resources
	return group, nil
}

// withoutProtobuf are the formats that all types of the group have. A deletion answers with the
// object if it has finalizers, in a format that the client prefers.
type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	return slices.DeleteFunc(slices.Clone(s.NegotiatedSerializer.SupportedMediaTypes()), func(info runtime.SerializerInfo) bool {
		return info.MediaType == runtime.ContentTypeProtobuf
	})
}

// AddToCore adds Tenants to the storages of upstream's core group, as v1.
func (s *Storage) AddToCore(storages map[string]rest.Storage) {
	maps.Copy(storages, s.Map())
	storages[Resource.Resource] = coreREST{s.Tenant}
}

// coreREST has the short name; in both groups it would be ambiguous.
type coreREST struct{ *REST }

// ShortNames implements rest.ShortNamesProvider.
func (coreREST) ShortNames() []string { return []string{"te"} }

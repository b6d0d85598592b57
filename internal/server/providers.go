package server

import (
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	policyclient "k8s.io/client-go/kubernetes/typed/policy/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	authenticationrest "k8s.io/kubernetes/pkg/registry/authentication/rest"
	"k8s.io/kubernetes/pkg/registry/authorization/localsubjectaccessreview"
	authorizationrest "k8s.io/kubernetes/pkg/registry/authorization/rest"
	"k8s.io/kubernetes/pkg/registry/authorization/subjectaccessreview"
	certificatesrest "k8s.io/kubernetes/pkg/registry/certificates/rest"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"

	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/server/registry/certificates"
	"github.com/tenantry/tenantry/internal/server/registry/eviction"
	rbacregistry "github.com/tenantry/tenantry/internal/server/registry/rbac"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/serializer"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
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

// rbacProvider is the group of RBAC objects.
type rbacProvider struct {
	rbacrest.RESTStorageProvider
	rights *spacerbac.Authorizer
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p rbacProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil {
		return group, err
	}
	for _, storages := range group.VersionedResourcesStorageMap {
		if err := rbacregistry.Wrap(storages, p.Authorizer, p.rights); err != nil {
			return group, err
		}
	}
	return group, nil
}

// accessProvider is the group of SubjectAccessReviews, which are about the users
// of the space that they are asked in.
type accessProvider struct {
	authorizationrest.RESTStorageProvider
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p accessProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	p.Authorizer = authorization.WithUse(p.Authorizer)
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil {
		return group, err
	}
	for _, storages := range group.VersionedResourcesStorageMap {
		reviewed := authorization.ForReviews(p.Authorizer)
		storages["subjectaccessreviews"] = subjectaccessreview.NewREST(reviewed, legacyscheme.Scheme)
		storages["localsubjectaccessreviews"] = localsubjectaccessreview.NewREST(reviewed, legacyscheme.Scheme)
	}
	return group, nil
}

// certificatesProvider is the group of CertificateSigningRequests, whose keys are bounded.
type certificatesProvider struct {
	certificatesrest.RESTStorageProvider
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p certificatesProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil {
		return group, err
	}
	for _, storages := range group.VersionedResourcesStorageMap {
		if err := certificates.Wrap(storages); err != nil {
			return group, err
		}
	}
	return group, nil
}

// quotaProvider is the core group, whose quotas are charged where they are stored.
type quotaProvider struct {
	controlplaneapiserver.RESTStorageProvider
	quotas *quota.Store
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p quotaProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil {
		return group, err
	}
	return group, p.quotas.Use(group.VersionedResourcesStorageMap["v1"])
}

// evictionProvider is the core group, whose pods are evicted by the budgets of their
// space.
type evictionProvider struct {
	controlplaneapiserver.RESTStorageProvider
	budgets policyclient.PodDisruptionBudgetsGetter
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p evictionProvider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err != nil {
		return group, err
	}
	return group, eviction.Wrap(group.VersionedResourcesStorageMap["v1"], options, p.budgets)
}

// hookedProvider is a provider that also has a hook; upstream finds out by the
// type whether there is one.
type hookedProvider struct {
	provider
	genericapiserver.PostStartHookProvider
}

// wrapProviders shows tenants on the wire of every group and adds Tenants to
// the core group and as a group of their own, with others.
func wrapProviders(upstream []controlplaneapiserver.RESTStorageProvider, tenants *tenantregistry.Storage, others map[string]rest.Storage, rights *spacerbac.Authorizer, quotas *quota.Store, budgets policyclient.PodDisruptionBudgetsGetter) []controlplaneapiserver.RESTStorageProvider {
	upstream = append(upstream, tenantregistry.Group{Storage: tenants, Others: others})
	for i := range upstream {
		switch group := upstream[i].(type) {
		case authenticationrest.RESTStorageProvider:
			upstream[i] = reviewProvider{group}
		case authorizationrest.RESTStorageProvider:
			upstream[i] = accessProvider{group}
		case certificatesrest.RESTStorageProvider:
			upstream[i] = certificatesProvider{group}
		case rbacrest.RESTStorageProvider:
			upstream[i] = rbacProvider{group, rights}
		}
	}
	wrapped := make([]controlplaneapiserver.RESTStorageProvider, len(upstream))
	for i := range upstream {
		group := provider{upstream[i]}
		if upstream[i].GroupName() == "" {
			pods := evictionProvider{upstream[i], budgets}
			group = provider{quotaProvider{tenantregistry.CoreGroup{RESTStorageProvider: pods, Storage: tenants}, quotas}}
		}
		wrapped[i] = group
		if hooks, ok := upstream[i].(genericapiserver.PostStartHookProvider); ok {
			wrapped[i] = hookedProvider{group, patientHooks{hooks}}
		}
	}
	return wrapped
}

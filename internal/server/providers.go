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
	"github.com/tenantry/tenantry/internal/server/registry/certificates"
	"github.com/tenantry/tenantry/internal/server/registry/eviction"
	rbacregistry "github.com/tenantry/tenantry/internal/server/registry/rbac"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/serializer"
)

// provider is one of upstream's API groups, of which storage is changed.
type provider struct {
	controlplaneapiserver.RESTStorageProvider
	change func(group *genericapiserver.APIGroupInfo, options generic.RESTOptionsGetter) error
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p provider) NewRESTStorage(resources serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	group, err := p.RESTStorageProvider.NewRESTStorage(resources, options)
	if err == nil && p.change != nil {
		err = p.change(&group, options)
	}
	if err != nil || len(group.VersionedResourcesStorageMap) == 0 {
		return group, err
	}
	group.NegotiatedSerializer = serializer.Wrap(group.NegotiatedSerializer, serializer.LinksOf(&group)) // tenants on the wire
	return group, nil
}

// eachVersion changes the storage of each version of a group.
func eachVersion(change func(storages map[string]rest.Storage) error) func(*genericapiserver.APIGroupInfo, generic.RESTOptionsGetter) error {
	return func(group *genericapiserver.APIGroupInfo, _ generic.RESTOptionsGetter) error {
		for _, storages := range group.VersionedResourcesStorageMap {
			if err := change(storages); err != nil {
				return err
			}
		}
		return nil
	}
}

// forSpaces returns one of upstream's groups with what is particular about it in spaces.
func (a *assembly) forSpaces(group controlplaneapiserver.RESTStorageProvider, budgets policyclient.PodDisruptionBudgetsGetter) provider {
	switch group := group.(type) {
	case authenticationrest.RESTStorageProvider: // TokenReviews are answered for a space
		return provider{group, eachVersion(func(storages map[string]rest.Storage) error {
			if _, ok := storages["tokenreviews"]; ok {
				storages["tokenreviews"] = authentication.NewTokenReviews(group.Authenticator, group.APIAudiences)
			}
			return nil
		})}
	case authorizationrest.RESTStorageProvider: // reviews are about the users of the space that they are asked in
		group.Authorizer = authorization.WithUse(group.Authorizer)
		return provider{group, eachVersion(func(storages map[string]rest.Storage) error {
			reviewed := authorization.ForReviews(group.Authorizer)
			storages["subjectaccessreviews"] = subjectaccessreview.NewREST(reviewed, legacyscheme.Scheme)
			storages["localsubjectaccessreviews"] = localsubjectaccessreview.NewREST(reviewed, legacyscheme.Scheme)
			return nil
		})}
	case certificatesrest.RESTStorageProvider: // keys are bounded
		return provider{group, eachVersion(certificates.Wrap)}
	case rbacrest.RESTStorageProvider:
		return provider{group, eachVersion(func(storages map[string]rest.Storage) error {
			return rbacregistry.Wrap(storages, group.Authorizer, a.rights)
		})}
	}
	if group.GroupName() != "" {
		return provider{RESTStorageProvider: group}
	}
	// Quotas are charged where they are stored, and pods are evicted by the budgets of
	// their space.
	return provider{group, func(group *genericapiserver.APIGroupInfo, options generic.RESTOptionsGetter) error {
		core := group.VersionedResourcesStorageMap["v1"]
		if err := a.quotas.Use(core); err != nil {
			return err
		}
		a.tenants.AddToCore(core)
		if err := a.useHost(core); err != nil {
			return err
		}
		return eviction.Wrap(core, options, budgets)
	}}
}

// hookedProvider is a provider that also has a hook; upstream finds out by the
// type whether there is one.
type hookedProvider struct {
	provider
	genericapiserver.PostStartHookProvider
}

// apiGroups returns upstream's API groups for spaces, Tenants in the core group and in a
// group of their own, with others, and the metrics of pods where these run.
func (a *assembly) apiGroups(upstream []controlplaneapiserver.RESTStorageProvider, others map[string]rest.Storage, budgets policyclient.PodDisruptionBudgetsGetter) []controlplaneapiserver.RESTStorageProvider {
	upstream = append(upstream, tenantregistry.Group{Storage: a.tenants, Others: others})
	if a.opts.host != nil {
		upstream = append(upstream, metricsGroup{a})
	}
	for i, group := range upstream {
		changed := a.forSpaces(group, budgets)
		upstream[i] = changed
		if hooks, ok := group.(genericapiserver.PostStartHookProvider); ok {
			upstream[i] = hookedProvider{changed, patientHooks{hooks}}
		}
	}
	return upstream
}

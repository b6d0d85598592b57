package crd

import (
	"context"
	"net/http"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	openapicommon "k8s.io/kube-openapi/pkg/common"

	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// storageFor narrows the storage of custom resources to one space or, for the system
// space, widens it to all that do not define a resource themselves.
func (s *Servers) storageFor(getter generic.RESTOptionsGetter, n tenant.Name) generic.RESTOptionsGetter {
	spaces, ok := getter.(*storage.RESTOptionsGetter)
	switch {
	case !ok:
		return getter
	case n != tenant.System:
		return spaces.In(n)
	default:
		return spaces.Shared(
			func(resource schema.GroupResource, n tenant.Name) bool { return s.index.defines(n, resource.String()) },
			func(resource schema.GroupResource) bool { return s.index.isDeleted(resource.String()) })
	}
}

// withoutCache keeps definitions, which the server of the system space serves
// in all spaces, out of a second watch cache.
func withoutCache(getter generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	if spaces, ok := getter.(*storage.RESTOptionsGetter); ok {
		return spaces.WithoutCache(definitions.GroupResource())
	}
	return getter
}

// start runs an extension server for the space of n, or for what the system space
// publishes. What the process has once, such as fairness and audit, stays with the
// server of the system space; what reads definitions does so in the space.
func (s *Servers) start(ctx context.Context, n tenant.Name) (*server, error) {
	recommended := *s.Config.GenericConfig
	config := &apiextensionsapiserver.Config{GenericConfig: &recommended, ExtraConfig: s.Config.ExtraConfig}
	own := &recommended.Config
	own.LoopbackClientConfig = rest.CopyConfig(own.LoopbackClientConfig)
	own.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	own.HealthzChecks, own.LivezChecks, own.ReadyzChecks = nil, nil, nil
	own.FlowControl = nil
	own.AuditBackend = nil
	own.SkipOpenAPIInstallation = true // package discovery makes the documents when somebody asks; upstream would keep all
	own.OpenAPIV3Config = withoutDefinitions(own.OpenAPIV3Config)
	own.EnableMetrics, own.EnableProfiling, own.EnableIndex = false, false, false
	own.BuildHandlerChainFunc = func(handler http.Handler, _ *genericapiserver.Config) http.Handler { return handler }
	own.RESTOptionsGetter = withoutCache(own.RESTOptionsGetter)
	config.ExtraConfig.CRDRESTOptionsGetter = s.storageFor(config.ExtraConfig.CRDRESTOptionsGetter, n)
	own.LoopbackClientConfig.Wrap(selectedFor(n))
	if n != tenant.System {
		own.LoopbackClientConfig.Host += n.Root()
		// Conversion webhooks are the tenant's: they find services of its space only.
		config.ExtraConfig.AuthResolverWrapper = s.Egress.ForTenant(n, config.ExtraConfig.AuthResolverWrapper)
		config.ExtraConfig.ServiceResolver = view.ServicesIn{Flat: s.Services, Tenant: n}
	}
	groups := aggregated.NewResourceManager("apis")
	groups.SetGroups(s.Builtin())
	groups.AddInvalidationCallback(func() { s.listeners.tell(n) })
	own.AggregatedDiscoveryGroupManager = groups

	extensions, err := config.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(s.NotFound))
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	extensions.GenericAPIServer.PrepareRun()
	extensions.GenericAPIServer.RunPostStartHooks(running)
	informer := extensions.Informers.Apiextensions().V1().CustomResourceDefinitions()
	definitions := informer.Lister()
	return &server{
		definitions: definitions,
		handler:     withContent(extensions.GenericAPIServer.UnprotectedHandler(), definitions, s.Fits),
		groups:      groups,
		hasSynced:   informer.Informer().HasSynced,
		stop: func() {
			cancel()
			extensions.GenericAPIServer.Destroy()
		},
	}, nil
}

// withoutDefinitions leaves the API of definitions out of the models of a space's server: it is served elsewhere.
func withoutDefinitions(v3 *openapicommon.OpenAPIV3Config) *openapicommon.OpenAPIV3Config {
	if v3 == nil {
		return nil
	}
	copied := *v3
	copied.IgnorePrefixes = []string{"/"}
	return &copied
}

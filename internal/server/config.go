package server

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/webhook"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/authorization"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/storage"
)

// config is the configuration of the three servers that make up the API server.
type config struct {
	kube       *controlplane.Config
	extensions *apiextensionsapiserver.Config
	aggregator *aggregatorapiserver.Config
	ranges     *storage.Ranges
	// tenants is set once the storage of Tenants exists, before anything is served.
	tenants *tenantregistry.Lookup
}

// registerTenants makes Tenants known to the scheme of the built-in resources.
var registerTenants = sync.OnceFunc(func() { tenantregistry.AddToScheme(legacyscheme.Scheme) })

// openAPIDefinitions are those of the built-in resources and of Tenants.
func openAPIDefinitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	definitions := generatedopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(definitions, v1alpha1.GetOpenAPIDefinitions(ref))
	return definitions
}

func newConfig(ctx context.Context, opts CompletedOptions) (*config, error) {
	registerTenants()
	generic, informers, storageFactory, err := controlplaneapiserver.BuildGenericConfig(
		opts.kube.CompletedOptions,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme},
		controlplane.DefaultAPIResourceConfigSource(),
		openAPIDefinitions,
	)
	if err != nil {
		return nil, err
	}
	// Tenants have no protobuf and are stored as JSON.
	storageFactory.SetSerializer(tenantregistry.Resource, runtime.ContentTypeJSON, nil)
	c := &config{ranges: &storage.Ranges{Client: etcdClient(storageFactory.StorageConfig.Transport)}}
	if generic.Authentication.Authenticator, err = authentication.New(ctx, generic.Authentication.Authenticator, authentication.Config{
		ClientCA:      generic.SecureServing.ClientCA,
		TokenFile:     opts.tokenFile,
		DefaultTenant: opts.defaultTenant,
	}); err != nil {
		return nil, err
	}
	generic.Authorization.Authorizer = authorization.New(generic.Authorization.Authorizer, generic.Authorization.Authorizer)
	generic.BuildHandlerChainFunc = c.handlerChain

	kube, serviceResolver, admissionInitializers, err := app.CreateKubeAPIServerConfig(opts.kube, generic, informers, storageFactory)
	if err != nil {
		return nil, err
	}
	c.kube = kube
	authResolver := webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport,
		generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	if c.extensions, err = controlplaneapiserver.CreateAPIExtensionsConfig(*generic, informers, admissionInitializers,
		opts.kube.CompletedOptions, opts.kube.MasterCount, serviceResolver, authResolver); err != nil {
		return nil, err
	}
	if c.aggregator, err = controlplaneapiserver.CreateAggregatorConfig(*generic, opts.kube.CompletedOptions, informers,
		serviceResolver, kube.ControlPlane.ProxyTransport, kube.ControlPlane.Extra.PeerProxy, admissionInitializers); err != nil {
		return nil, err
	}
	return c, c.installStorage(opts)
}

// installStorage puts the tenant-aware storage below every resource.
func (c *config) installStorage(opts CompletedOptions) error {
	uncached, err := storage.Uncached(opts.kube.Etcd)
	if err != nil {
		return fmt.Errorf("--watch-cache-sizes: %w", err)
	}
	for _, generic := range []*genericapiserver.Config{
		c.kube.ControlPlane.Generic, &c.extensions.GenericConfig.Config, &c.aggregator.GenericConfig.Config,
	} {
		generic.RESTOptionsGetter = &storage.RESTOptionsGetter{
			RESTOptionsGetter: generic.RESTOptionsGetter, Uncached: uncached, Ranges: c.ranges,
		}
	}
	c.extensions.ExtraConfig.CRDRESTOptionsGetter = &storage.RESTOptionsGetter{
		RESTOptionsGetter: c.extensions.ExtraConfig.CRDRESTOptionsGetter, Ranges: c.ranges,
	}
	return nil
}

// etcdClient returns a function that connects to etcd once, when first needed.
func etcdClient(config storagebackend.TransportConfig) func() (*clientv3.Client, error) {
	return sync.OnceValues(func() (*clientv3.Client, error) {
		etcd := clientv3.Config{Endpoints: config.ServerList}
		if config.CertFile != "" || config.KeyFile != "" || config.TrustedCAFile != "" {
			tls, err := transport.TLSInfo{
				CertFile: config.CertFile, KeyFile: config.KeyFile, TrustedCAFile: config.TrustedCAFile,
			}.ClientConfig()
			if err != nil {
				return nil, fmt.Errorf("reading etcd credentials: %w", err)
			}
			etcd.TLS = tls
		}
		return clientv3.New(etcd)
	})
}

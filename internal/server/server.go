package server

import (
	"context"
	"fmt"
	"net/http"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	registryrest "k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"
	"k8s.io/kubernetes/pkg/controlplane/controller/kubernetesservice"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/crd"
	"github.com/tenantry/tenantry/internal/server/discovery"
	"github.com/tenantry/tenantry/internal/server/inprocess"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/server/registry/publishedobject"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/signing"
)

// Server is an assembled API server.
type Server struct {
	aggregator *aggregatorapiserver.APIAggregator
	views      informers.SharedInformerFactory
	rootCA     []byte
	// legacyTokens are for the secrets of service accounts; nil makes none.
	legacyTokens serviceaccount.TokenGenerator
	signing      signing.Config
}

// New assembles the API server and its storage. It listens already, but serves
// nothing before Run.
func New(ctx context.Context, opts CompletedOptions) (*Server, error) {
	c, err := newConfig(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("configuring the API server: %w", err)
	}
	notFound := notfoundhandler.New(c.kube.ControlPlane.Generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	extensions, err := c.extensions.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return nil, fmt.Errorf("creating the custom resource server: %w", err)
	}
	kube, err := c.newKube(c.kube.Complete(), extensions.GenericAPIServer)
	if err != nil {
		return nil, fmt.Errorf("creating the resource server: %w", err)
	}
	c.routeSpaces(kube, extensions, notFound)
	crds := c.extensions.GenericConfig.MergedResourceConfig.ResourceEnabled(
		apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	aggregator, err := controlplaneapiserver.CreateAggregatorServer(c.aggregator.Complete(), kube.GenericAPIServer,
		extensions.Informers.Apiextensions().V1().CustomResourceDefinitions(), crds, priorities())
	if err != nil {
		return nil, fmt.Errorf("creating the aggregator: %w", err)
	}
	if crds {
		aggregator.GenericAPIServer.AddPostStartHookOrDie("space-custom-resources", func(hook genericapiserver.PostStartHookContext) error {
			go func() {
				if err := c.crds.Run(hook); err != nil {
					klog.ErrorS(err, "Following the definitions of all spaces")
				}
			}()
			return waitUntil(hook, c.crds.HasSynced)
		})
	}
	if err := aggregator.GenericAPIServer.AddReadyzChecks(c.admission.Checks()...); err != nil {
		return nil, fmt.Errorf("adding the checks of admission: %w", err)
	}
	rootCA, _ := c.kube.ControlPlane.Generic.SecureServing.Cert.CurrentCertKeyContent()
	if file := opts.rootCAFile; file != "" {
		if rootCA, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("reading the root CA: %w", err)
		}
	}
	s := &Server{aggregator: aggregator, views: c.views, rootCA: rootCA, signing: opts.signing}
	if file := opts.kube.ServiceAccountSigningKeyFile; file != "" {
		if s.legacyTokens, err = authentication.NewLegacyTokenGenerator(file); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// routeSpaces decides what serves the requests of spaces.
func (c *config) routeSpaces(kube *controlplaneapiserver.Server, extensions *apiextensionsapiserver.CustomResourceDefinitions, notFound http.Handler) {
	generic := c.kube.ControlPlane.Generic
	c.router = &discovery.Router{
		Builtin:     kube.GenericAPIServer.UnprotectedHandler(),
		Definitions: extensions.GenericAPIServer.UnprotectedHandler(),
		AllGroups:   generic.AggregatedDiscoveryGroupManager,
		IsBuiltin: func(group string) bool {
			return legacyscheme.Scheme.IsGroupRegistered(group)
		},
		OpenAPIv2: func() []*spec.Swagger {
			return []*spec.Swagger{kube.GenericAPIServer.StaticOpenAPISpec, extensions.GenericAPIServer.StaticOpenAPISpec}
		},
		Custom:     c.crds,
		NotFound:   notFound,
		Serializer: generic.Serializer,
	}
	c.crds.Options = crd.Options{
		Config:      c.extensions,
		Definitions: extensions.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister(),
		Builtin:     c.router.Groups,
		Services:    aggregatorapiserver.NewClusterIPServiceResolver(c.views.Core().V1().Services().Lister()),
		Egress:      c.egress,
		NotFound:    notFound,
	}
}

// Run serves until ctx ends and then drains.
func (s *Server) Run(ctx context.Context) error {
	prepared, err := s.aggregator.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// Informers returns those of all spaces, in the flattened view.
func (s *Server) Informers() informers.SharedInformerFactory { return s.views }

// RootCA returns the PEM bundle that pods verify the server by.
func (s *Server) RootCA() []byte { return s.rootCA }

// LegacyTokens returns what makes the tokens in secrets of service accounts, nil if
// nothing does.
func (s *Server) LegacyTokens() serviceaccount.TokenGenerator { return s.legacyTokens }

// Signing returns the authority that signs CertificateSigningRequests.
func (s *Server) Signing() signing.Config { return s.signing }

// LoopbackConfig returns the credentials by which the server calls itself, as a
// user of the system tenant with every right, and a transport that does so
// without a connection.
func (s *Server) LoopbackConfig() *rest.Config {
	config := rest.CopyConfig(s.aggregator.GenericAPIServer.LoopbackClientConfig)
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = inprocess.NewTransport(s.aggregator.GenericAPIServer.Handler)
	return config
}

// newKube creates the server of the built-in resources with the controllers
// that belong to the server itself.
func (config *config) newKube(c controlplane.CompletedConfig, delegate genericapiserver.DelegationTarget) (*controlplaneapiserver.Server, error) {
	server, err := c.ControlPlane.New(controlplaneapiserver.KubeAPIServer, delegate)
	if err != nil {
		return nil, err
	}
	// Upstream's system namespaces controller asks for this informer while the
	// factory starts, and counts on admission to have asked before it.
	c.ControlPlane.Extra.VersionedInformers.Core().V1().Namespaces().Informer()
	client, err := kubernetes.NewForConfig(c.ControlPlane.Generic.LoopbackClientConfig)
	if err != nil {
		return nil, err
	}
	providers, serving, err := storageProviders(c, config.own)
	if err != nil {
		return nil, err
	}
	tenants, err := tenantregistry.NewStorage(legacyscheme.Scheme, c.ControlPlane.Generic.RESTOptionsGetter, config.ranges, config.deletions)
	if err != nil {
		return nil, fmt.Errorf("creating the storage of tenants: %w", err)
	}
	config.tenants = tenantregistry.NewLookup(tenants)
	config.tenants.ServeMetrics()
	policies, err := config.newAccessPolicies(c.ControlPlane.Generic.RESTOptionsGetter, c.ControlPlane.Generic.Authorization.Authorizer)
	if err != nil {
		return nil, err
	}
	reports, err := publishedobject.NewREST(legacyscheme.Scheme, c.ControlPlane.Generic.RESTOptionsGetter)
	if err != nil {
		return nil, fmt.Errorf("creating the storage of reports about published objects: %w", err)
	}
	config.reports = reports
	others := map[string]registryrest.Storage{accesspolicy.Resource.Resource: policies, publishedobject.Resource.Resource: reports}
	if err := server.InstallAPIs(wrapProviders(providers, tenants, others, config.rights, config.ledger.Store, serving.PolicyV1())...); err != nil {
		return nil, err
	}
	server.GenericAPIServer.AddPostStartHookOrDie("space-views", func(hook genericapiserver.PostStartHookContext) error {
		config.views.StartWithContext(hook)
		go config.admission.Run(hook)
		return waitUntil(hook, config.rbac.HasSynced)
	})
	server.GenericAPIServer.AddPostStartHookOrDie("tenant-lookup", func(hook genericapiserver.PostStartHookContext) error {
		go config.tenants.Run(hook)
		go config.ledger.Run(hook)
		go config.recorder.Run(hook)
		go policies.Follow(hook, config.grants)
		return nil
	})
	return server, installServiceControllers(c, server.GenericAPIServer, client)
}

// installServiceControllers keeps the service "kubernetes" of the system space
// and the default range of cluster addresses.
func installServiceControllers(c controlplane.CompletedConfig, server *genericapiserver.GenericAPIServer, client *kubernetes.Clientset) error {
	_, port, err := c.ControlPlane.Generic.SecureServing.HostPort()
	if err != nil {
		return fmt.Errorf("reading the listener's address: %w", err)
	}
	service := kubernetesservice.New(kubernetesservice.Config{
		PublicIP:                  c.ControlPlane.Generic.PublicAddress,
		EndpointReconciler:        c.EndpointReconcilerConfig.Reconciler,
		EndpointInterval:          c.EndpointReconcilerConfig.Interval,
		ServiceIP:                 c.APIServerServiceIP,
		ServicePort:               c.APIServerServicePort,
		PublicServicePort:         port,
		KubernetesServiceNodePort: c.KubernetesServiceNodePort,
	}, client, c.ControlPlane.Extra.VersionedInformers.Core().V1().Services())
	server.AddPostStartHookOrDie("bootstrap-controller", func(hook genericapiserver.PostStartHookContext) error {
		service.Start(hook.Done())
		return nil
	})
	server.AddPreShutdownHookOrDie("stop-kubernetes-service-controller", func() error {
		service.Stop()
		return nil
	})
	server.AddPostStartHookOrDie("start-kubernetes-service-cidr-controller", func(hook genericapiserver.PostStartHookContext) error {
		defaultservicecidr.NewController(c.ServiceIPRange, c.SecondaryServiceIPRange, client).Start(hook)
		return nil
	})
	return nil
}

// priorities orders the built-in groups in discovery as upstream's scheme does.
func priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	result := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	group, groups := int32(17000), map[string]int32{}
	for _, gv := range legacyscheme.Scheme.PrioritizedVersionsAllGroups() {
		if _, known := result[gv]; known {
			continue
		}
		if _, ok := groups[gv.Group]; !ok {
			groups[gv.Group] = group
			group -= 10
		}
		version := int32(100 - len(result)%50)
		result[gv] = controlplaneapiserver.APIServicePriority{Group: groups[gv.Group], Version: version}
	}
	return result
}

package server

import (
	"context"
	"fmt"
	"net/http"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"github.com/tenantry/tenantry/internal/search"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/discovery"
	"github.com/tenantry/tenantry/internal/server/expression"
	"github.com/tenantry/tenantry/internal/server/inprocess"
	"github.com/tenantry/tenantry/internal/server/registry/apiservice"
	"github.com/tenantry/tenantry/internal/signing"
	"github.com/tenantry/tenantry/internal/spaces"
	"github.com/tenantry/tenantry/internal/workloads/connect"
)

// Server is an assembled API server.
type Server struct {
	aggregator *aggregatorapiserver.APIAggregator
	views      *spaces.Factory
	rootCA     []byte
	// legacyTokens are for the secrets of service accounts; nil makes none.
	legacyTokens *authentication.LegacyTokens
	signing      signing.Config
	start        *start
	// finder searches, nil if searches are not served.
	finder  *search.Service
	serving *genericapiserver.SecureServingInfo
}

// assembly is everything that the servers are made of.
type assembly struct {
	opts CompletedOptions
	*base
	*stores
	*policy
	*configs
	start *start
	// podMetrics are of pods that run on a host cluster, nil if there is none.
	podMetrics *connect.Metrics
}

// New assembles the API server and its storage, in stages. It listens already, but serves
// nothing before Run.
func New(ctx context.Context, opts CompletedOptions) (*Server, error) {
	if err := expression.Bound(); err != nil {
		return nil, err
	}
	a, err := assemble(ctx, opts)
	if err != nil {
		return nil, fmt.Errorf("configuring the API server: %w", err)
	}
	extensions, err := a.extensions.Complete().New(genericapiserver.NewEmptyDelegateWithCustomHandler(a.notFound))
	if err != nil {
		return nil, fmt.Errorf("creating the custom resource server: %w", err)
	}
	kube, err := a.newKube(a.kube.Complete(), extensions.GenericAPIServer)
	if err != nil {
		return nil, fmt.Errorf("creating the resource server: %w", err)
	}
	aggregator, finder, err := a.newAggregator(kube, extensions)
	if err != nil {
		return nil, fmt.Errorf("creating the aggregator: %w", err)
	}
	s := &Server{aggregator: aggregator, views: a.views, signing: opts.Signing, start: a.start, finder: finder, serving: a.generic.SecureServing}
	if s.rootCA, err = a.rootCA(); err != nil {
		return nil, err
	}
	s.legacyTokens = authentication.NewLegacyTokens(opts.tokenKeys)
	return s, nil
}

// assemble makes what the servers are made of. Each stage needs those before it, and is
// complete when the next one begins.
func assemble(ctx context.Context, opts CompletedOptions) (*assembly, error) {
	b, err := newBase(opts)
	if err != nil {
		return nil, err
	}
	s, err := newStores(ctx, opts, b)
	if err != nil {
		return nil, err
	}
	p, err := newPolicy(ctx, opts, b, s)
	if err != nil {
		return nil, err
	}
	c, err := newConfigs(opts, b, s, p)
	return &assembly{opts: opts, base: b, stores: s, policy: p, configs: c, start: newStart()}, err
}

// newAggregator creates the outermost server, which alone filters requests and sends each
// to what serves its space.
func (a *assembly) newAggregator(kube *controlplaneapiserver.Server, extensions *apiextensionsapiserver.CustomResourceDefinitions) (*aggregatorapiserver.APIAggregator, *search.Service, error) {
	generic := &a.aggregator.GenericConfig.Config
	router := a.newRouter(kube, extensions)
	served := apiservice.Served{Versions: router.Versions, Changes: a.crds.Changes}
	generic.RESTOptionsGetter = apiservice.RESTOptionsGetter{RESTOptionsGetter: generic.RESTOptionsGetter, Served: served}
	finder, err := a.newSearch(kube.GenericAPIServer.UnprotectedHandler())
	if err != nil {
		return nil, nil, err
	}
	generic.BuildHandlerChainFunc = func(system http.Handler, generic *genericapiserver.Config) http.Handler {
		if proxy := a.kube.ControlPlane.Extra.PeerProxy; proxy != nil { // as upstream wraps the chain that it finds
			system = proxy.WrapHandler(system)
		}
		return a.handlerChain(router.Over(system), served, finder, generic)
	}
	crds := a.extensions.GenericConfig.MergedResourceConfig.ResourceEnabled(
		apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions"))
	aggregator, err := controlplaneapiserver.CreateAggregatorServer(a.aggregator.Complete(), kube.GenericAPIServer,
		extensions.Informers.Apiextensions().V1().CustomResourceDefinitions(), crds, priorities(legacyscheme.Scheme, connect.MetricsScheme))
	if err != nil {
		return nil, nil, err
	}
	if crds {
		aggregator.GenericAPIServer.AddPostStartHookOrDie("space-custom-resources", func(hook genericapiserver.PostStartHookContext) error {
			go func() {
				if err := a.crds.Run(hook); err != nil {
					klog.ErrorS(err, "Following the definitions of all spaces")
				}
			}()
			return waitUntil(hook, a.crds.HasSynced)
		})
	} else {
		a.crds.ServeNone()
	}
	if finder != nil {
		aggregator.GenericAPIServer.AddPostStartHookOrDie("search", func(hook genericapiserver.PostStartHookContext) error {
			go finder.Run(hook)
			return nil
		})
	}
	return aggregator, finder, aggregator.GenericAPIServer.AddReadyzChecks(a.admission.Checks()...)
}

// newRouter returns what serves the requests of spaces.
func (a *assembly) newRouter(kube *controlplaneapiserver.Server, extensions *apiextensionsapiserver.CustomResourceDefinitions) *discovery.Router {
	return discovery.NewRouter(discovery.Config{
		SharedGroups: a.groups,
		Builtin:      kube.GenericAPIServer.UnprotectedHandler(),
		Definitions:  extensions.GenericAPIServer.UnprotectedHandler(),
		OpenAPIv2: func() []*spec.Swagger {
			return []*spec.Swagger{kube.GenericAPIServer.StaticOpenAPISpec, extensions.GenericAPIServer.StaticOpenAPISpec}
		},
		Custom:     a.crds,
		NotFound:   a.notFound,
		Serializer: a.generic.Serializer,
	})
}

// rootCA returns the PEM bundle that pods verify the server by.
func (a *assembly) rootCA() ([]byte, error) {
	if file := a.opts.RootCAFile; file != "" {
		bundle, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the root CA: %w", err)
		}
		return bundle, nil
	}
	bundle, _ := a.generic.SecureServing.Cert.CurrentCertKeyContent()
	return bundle, nil
}

// Run serves until ctx ends and then drains.
func (s *Server) Run(ctx context.Context) error {
	prepared, err := s.aggregator.PrepareRun()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, s.start.end)()
	serving, end := notBefore(ctx, s.aggregator.GenericAPIServer.MuxAndDiscoveryCompleteSignals(), startTime)
	defer end()
	return prepared.Run(serving)
}

// Informers returns those of all spaces, in the flattened view.
func (s *Server) Informers() *spaces.Factory { return s.views }

// RootCA returns the PEM bundle that pods verify the server by.
func (s *Server) RootCA() []byte { return s.rootCA }

// LegacyTokens returns what makes the tokens in secrets of service accounts, nil if
// nothing does.
func (s *Server) LegacyTokens() *authentication.LegacyTokens { return s.legacyTokens }

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

// priorities orders the built-in groups in discovery as their schemes do.
func priorities(schemes ...*runtime.Scheme) map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	result := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	group, groups := int32(17000), map[string]int32{}
	for _, scheme := range schemes {
		for _, gv := range scheme.PrioritizedVersionsAllGroups() {
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
	}
	return result
}

package server

import (
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/apiserver/pkg/util/webhook"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/rbac"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/crd"
	"github.com/tenantry/tenantry/internal/server/discovery"
	"github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/server/serviceips"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/tenant"
)

// configs are upstream's configurations of the three servers, on the storage of spaces.
type configs struct {
	kube       *controlplane.Config
	extensions *apiextensionsapiserver.Config
	aggregator *aggregatorapiserver.Config
	// groups are the API groups that every space has.
	groups *discovery.SharedGroups
	// crds serves what spaces define, and what is published to them.
	crds *crd.Servers
	// notFound answers what nobody serves.
	notFound *notfoundhandler.Handler
}

// never is how often upstream repairs node ports after it has done so at the
// start, when it keeps those that it knows no Service of: it lists the Services of
// the system space, and would free the ports of all others.
const never = 100 * 365 * 24 * time.Hour

var customResourceDefinitions = apiextensions.Resource("customresourcedefinitions")

func newConfigs(opts CompletedOptions, b *base, s *stores, p *policy) (*configs, error) {
	decided := *b.generic // by the policy, and the base stays as it is
	decided.Authentication.Authenticator, decided.Authorization.Authorizer, decided.RuleResolver = p.authenticator, p.authorizer, p.resolver
	kube, serviceResolver, admissionInitializers, err := app.CreateKubeAPIServerConfig(opts.kube, &decided, b.informers, b.storage)
	if err != nil {
		return nil, err
	}
	extra := &kube.ControlPlane.Extra
	extra.ServiceAccountIssuer = authentication.NewTokenGenerator(extra.ServiceAccountIssuer, extra.ServiceAccountIssuerURL, opts.tokenKeys)
	if extra.VersionedInformers, err = serviceips.All(b.informers, b.views); err != nil {
		return nil, err
	}
	kube.Extra.RepairServicesInterval = never
	authResolver := webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport,
		decided.EgressSelector, decided.LoopbackClientConfig, decided.TracerProvider)
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(decided, b.informers, admissionInitializers,
		opts.kube.CompletedOptions, opts.kube.MasterCount, serviceResolver, authResolver)
	if err != nil {
		return nil, err
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorConfig(decided, opts.kube.CompletedOptions, b.informers,
		serviceResolver, kube.ControlPlane.ProxyTransport, kube.ControlPlane.Extra.PeerProxy, admissionInitializers)
	if err != nil {
		return nil, err
	}
	c := &configs{
		kube: kube, extensions: extensions, aggregator: aggregator,
		groups:   &discovery.SharedGroups{All: decided.AggregatedDiscoveryGroupManager, IsBuiltin: opts.isBuiltin},
		notFound: notfoundhandler.New(decided.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey),
	}
	c.crds = crd.New(crd.Options{
		Definitions: p.definitions,
		Config:      extensions,
		Builtin:     c.groups.List,
		Services:    aggregatorapiserver.NewClusterIPServiceResolver(b.views.Core().V1().Services().Lister()),
		Egress:      p.egress,
		NotFound:    c.notFound,
		Terminating: s.lookup.Terminating,
		Ranges:      s.spaces.Ranges,
		Fits: func(content crd.Content, definition *apiextensionsv1.CustomResourceDefinition) error {
			return spacepolicy.CheckContent(content.Values, content.Objects, definition)
		},
	})
	c.installStorage(opts, b, s, p)
	return c, nil
}

// installStorage puts the storage of spaces, which show the defaults, below every resource.
func (c *configs) installStorage(opts CompletedOptions, b *base, s *stores, p *policy) {
	defaults := defaultObjects(s.lookup.Terminating, opts.podsAPI)
	defaults[customResourceDefinitions] = c.crds.Defaults()
	preparations := map[schema.GroupResource]storage.Preparation{
		customResourceDefinitions:     c.crds.Prepare,
		apps.Resource("daemonsets"):   spacepolicy.PrepareDaemonSet,
		core.Resource("namespaces"):   s.users.Prepare,
		rbac.Resource("rolebindings"): s.users.PrepareBinding,
	}
	if opts.host != nil {
		preparations[core.Resource("pods")] = spacepolicy.PreparePod
	}
	guarded := func(upstream generic.RESTOptionsGetter) *storage.RESTOptionsGetter {
		options := s.over(upstream)
		options.Closed, options.Fence, options.OldestRevision, options.Ledger = s.closed, s.fence, s.oldestRevision, p.ledger
		options.Frozen, options.Terminating = s.frozen, s.lookup.Terminating
		options.Protect = storage.ProtectAll(quota.Protect, p.published.Of, spacepolicy.Namespaces(b.namespace).Protect)
		return options
	}
	for _, getter := range []*generic.RESTOptionsGetter{
		&c.kube.ControlPlane.Generic.RESTOptionsGetter, &c.extensions.GenericConfig.RESTOptionsGetter, &c.aggregator.GenericConfig.RESTOptionsGetter,
	} {
		options := guarded(*getter)
		options.Defaults = defaults
		options.Prepare = preparations
		*getter = options
	}
	custom := guarded(c.extensions.ExtraConfig.CRDRESTOptionsGetter)
	custom.Uncached, custom.Of = nil, tenant.System.Scope()
	c.extensions.ExtraConfig.CRDRESTOptionsGetter = custom
}

package server

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/etcdstore"
	"github.com/tenantry/tenantry/internal/server/admission"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	"github.com/tenantry/tenantry/internal/server/authentication"
	"github.com/tenantry/tenantry/internal/server/authorization"
	"github.com/tenantry/tenantry/internal/server/crd"
	"github.com/tenantry/tenantry/internal/server/discovery"
	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/server/filters"
	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/server/metrics"
	"github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/server/registry/accesspolicy"
	"github.com/tenantry/tenantry/internal/server/registry/apiservice"
	"github.com/tenantry/tenantry/internal/server/registry/publishedobject"
	tenantregistry "github.com/tenantry/tenantry/internal/server/registry/tenant"
	"github.com/tenantry/tenantry/internal/server/serviceips"
	"github.com/tenantry/tenantry/internal/server/storage"
	"github.com/tenantry/tenantry/internal/server/usage"
	"github.com/tenantry/tenantry/internal/spaces"
	spacerbac "github.com/tenantry/tenantry/internal/spaces/rbac"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/version"
)

// config is the configuration of the three servers that make up the API server.
type config struct {
	kube       *controlplane.Config
	extensions *apiextensionsapiserver.Config
	aggregator *aggregatorapiserver.Config
	ranges     *storage.Ranges
	deletions  *tenantregistry.Deletions
	rawStorage storage.RawFunc
	counts     *storage.Counts
	ledger     *quota.Ledger
	flow       flowcontrol.Options
	egress     egress.Options
	usage      *usage.Meter
	// recorder is nil if the status of Tenants does not show what they use.
	recorder *usage.Recorder
	// passwords says whether clients are told to send some.
	passwords bool
	// own are the credentials by which the server calls itself, for clients that name
	// a space in each request.
	own *rest.Config
	// informersToken is that of the informers of the system space.
	informersToken string
	// views are the shared informers over every space.
	views  informers.SharedInformerFactory
	rbac   *spacerbac.Index
	rights *spacerbac.Authorizer
	grants *authorization.Grants
	// admission tells which of its plugins are ready.
	admission *admission.Readiness
	router    *discovery.Router
	// crds serves what spaces define, and what is published to them.
	crds *crd.Servers
	// tenants is set once the storage of Tenants exists, before anything is served.
	tenants *tenantregistry.Lookup
	// reports are about published objects; set like tenants.
	reports *publishedobject.REST
}

// registerTypes makes Tenants and what belongs to them known to the scheme of the
// built-in resources.
var registerTypes = sync.OnceFunc(func() {
	tenantregistry.AddToScheme(legacyscheme.Scheme)
	accesspolicy.AddToScheme(legacyscheme.Scheme)
	publishedobject.AddToScheme(legacyscheme.Scheme)
})

// openAPIDefinitions are those of the built-in resources and of Tenants.
func openAPIDefinitions(ref openapicommon.ReferenceCallback) map[string]openapicommon.OpenAPIDefinition {
	definitions := generatedopenapi.GetOpenAPIDefinitions(ref)
	maps.Copy(definitions, v1alpha1.GetOpenAPIDefinitions(ref))
	return definitions
}

func newConfig(ctx context.Context, opts CompletedOptions) (*config, error) {
	registerTypes()
	metrics.Bound(legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme)
	flowcontrol.Register()
	generic, systemInformers, storageFactory, err := buildGeneric(opts)
	if err != nil {
		return nil, err
	}
	own, informersToken := ownClients(generic)
	flattened, err := kubernetes.NewForConfig(spaces.NewClientConfig(generic.LoopbackClientConfig))
	if err != nil {
		return nil, fmt.Errorf("creating the client of all spaces: %w", err)
	}
	// The types of Tenantry have no protobuf and are stored as JSON.
	for _, resource := range []schema.GroupResource{tenantregistry.Resource, accesspolicy.Resource, publishedobject.Resource} {
		storageFactory.SetSerializer(resource, runtime.ContentTypeJSON, nil)
	}
	etcd, stores := &etcdClients{embedded: opts.etcdClient}, storageFactory.Configs()
	c := &config{
		ranges: &storage.Ranges{Client: etcd.connect},
		deletions: &tenantregistry.Deletions{
			Client:  func() (*clientv3.Client, error) { return etcd.connect(storageFactory.StorageConfig.Transport) },
			Clients: func() ([]*clientv3.Client, error) { return etcd.connectAll(stores) },
			Prefix:  storageFactory.StorageConfig.Prefix,
		},
		rawStorage: opts.rawStorage,

		counts: &storage.Counts{},
		flow:   opts.flow,
		egress: opts.reach(generic.EgressSelector != nil),
		usage:  usage.NewMeter(opts.usage.Tenants),

		passwords: opts.authentication.BasicAuthFile != "",

		own: own, informersToken: informersToken,
	}
	if c.rawStorage == nil {
		c.rawStorage = etcd.storage
	}
	accounts, err := serviceAccounts(opts, generic, flattened)
	if err != nil {
		return nil, err
	}
	if err := authentication.Apply(ctx, generic, authentication.Config{
		Options: opts.authentication, DefaultTenant: opts.defaultTenant, ServiceAccounts: accounts,
		Since: c.credentialsSince, TenantUID: c.tenantUID,
	}); err != nil {
		return nil, err
	}
	if c.views, err = spaces.NewInformerFactory(generic.LoopbackClientConfig, 0); err != nil {
		return nil, err
	}
	labelsOf := func(n tenant.Name) labels.Set { return c.tenants.Labels(n) }
	if c.rbac, err = spacerbac.NewIndex(c.views, labelsOf); err != nil {
		return nil, err
	}
	c.rights = spacerbac.NewAuthorizer(c.rbac)
	if err := c.authorize(ctx, opts.kube.Authorization, generic); err != nil {
		return nil, fmt.Errorf("configuring authorization: %w", err)
	}
	generic.EffectiveVersion = effectiveVersion{generic.EffectiveVersion, version.Kubernetes()}
	generic.BuildHandlerChainFunc = c.handlerChain
	c.showUsage(opts.usage)

	if c.ledger, err = quota.New(quota.Config{
		Informers: c.views, Loopback: own, Ranges: c.ranges, Settle: opts.quotaSettle,
		Terminating: func(n tenant.Name) bool { return c.tenants.Terminating(n) }, Stop: generic.DrainedNotify(),
	}); err != nil {
		return nil, err
	}
	c.ledger.ServeMetrics(opts.usage.Tenants)
	if c.admission, err = admission.Apply(opts.kube.Admission, admission.Config{
		Quota:       c.ledger,
		Informers:   c.views,
		Client:      flattened,
		Loopback:    own,
		Egress:      c.egress,
		Placement:   func(n tenant.Name) *v1alpha1.NodePlacement { return c.tenants.NodePlacement(n) },
		DaemonSets:  func(n tenant.Name) *v1alpha1.DaemonSets { return c.tenants.DaemonSets(n) },
		Terminating: func(n tenant.Name) bool { return c.tenants.Terminating(n) },
		TenantUID:   func(n tenant.Name) types.UID { return c.tenants.UID(n) },
		Published:   c.publishedRules(opts, generic),
	}); err != nil {
		return nil, err
	}
	kube, serviceResolver, admissionInitializers, err := app.CreateKubeAPIServerConfig(opts.kube, generic, systemInformers, storageFactory)
	if err != nil {
		return nil, err
	}
	c.kube = kube
	extra := &kube.ControlPlane.Extra
	if extra.ServiceAccountIssuer, err = authentication.NewTokenGenerator(extra.ServiceAccountIssuer,
		extra.ServiceAccountIssuerURL, opts.kube.ServiceAccountSigningKeyFile); err != nil {
		return nil, err
	}
	if kube.ControlPlane.Extra.VersionedInformers, err = serviceips.All(systemInformers, c.views); err != nil {
		return nil, err
	}
	kube.Extra.RepairServicesInterval = never
	authResolver := webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport,
		generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	if c.extensions, err = controlplaneapiserver.CreateAPIExtensionsConfig(*generic, systemInformers, admissionInitializers,
		opts.kube.CompletedOptions, opts.kube.MasterCount, serviceResolver, authResolver); err != nil {
		return nil, err
	}
	if c.aggregator, err = controlplaneapiserver.CreateAggregatorConfig(*generic, opts.kube.CompletedOptions, systemInformers,
		serviceResolver, kube.ControlPlane.ProxyTransport, kube.ControlPlane.Extra.PeerProxy, admissionInitializers); err != nil {
		return nil, err
	}
	return c, c.installStorage(opts)
}

// showUsage shows what tenants use in the metrics and in the status of Tenants.
func (c *config) showUsage(opts usage.Options) {
	c.usage.Exists = func(n tenant.Name) bool {
		_, exists := c.tenants.Usage(n)
		return exists
	}
	c.usage.Serve()
	if opts.Period == 0 {
		return
	}
	c.recorder = &usage.Recorder{
		Period: opts.Period,
		Known:  func(n tenant.Name) (*v1alpha1.TenantUsage, bool) { return c.tenants.Usage(n) },
		Names:  func() ([]tenant.Name, bool) { return c.tenants.Names() },
		Stored: func(ctx context.Context, n tenant.Name) (int64, int64, error) { return c.ledger.Stored(ctx, n) },
		Update: func(ctx context.Context, n tenant.Name, change func(*v1alpha1.TenantUsage)) error {
			return c.tenants.UpdateUsage(ctx, n, change)
		},
	}
	usage.Stored{Limit: opts.Tenants, Each: func(visit func(tenant.Name, *v1alpha1.TenantUsage)) { c.tenants.EachUsage(visit) }}.Serve()
}

// buildGeneric builds upstream's configuration. Its authentication is that of
// the system space's own accounts; the rest comes after, with the tenants.
func buildGeneric(opts CompletedOptions) (*genericapiserver.Config, informers.SharedInformerFactory, *serverstorage.DefaultStorageFactory, error) {
	all := opts.kube.Authentication
	opts.kube.Authentication = authentication.SystemAccounts(all)
	defer func() { opts.kube.Authentication = all }()
	return controlplaneapiserver.BuildGenericConfig(
		opts.kube.CompletedOptions,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme},
		controlplane.DefaultAPIResourceConfigSource(),
		openAPIDefinitions,
		nil, // its informers have no metrics
	)
}

// never is how often upstream repairs node ports after it has done so at the
// start, when it keeps those that it knows no Service of: it lists the Services of
// the system space, and would free the ports of all others.
const never = 100 * 365 * 24 * time.Hour

var customResourceDefinitions = apiextensions.Resource("customresourcedefinitions")

// installStorage puts the tenant-aware storage below every resource.
func (c *config) installStorage(opts CompletedOptions) error {
	uncached, err := storage.Uncached(opts.kube.Etcd)
	if err != nil {
		return fmt.Errorf("--watch-cache-sizes: %w", err)
	}
	terminating := func(n tenant.Name) bool { return c.tenants.Terminating(n) }
	c.crds = crd.New(terminating, c.ranges)
	defaults := defaultObjects(terminating)
	defaults[customResourceDefinitions] = c.crds.Defaults(terminating)
	protect := storage.ProtectAll(quota.Protect, c.publishedRules(opts, c.kube.ControlPlane.Generic).Of)
	for _, generic := range []*genericapiserver.Config{
		c.kube.ControlPlane.Generic, &c.extensions.GenericConfig.Config, &c.aggregator.GenericConfig.Config,
	} {
		generic.RESTOptionsGetter = &storage.RESTOptionsGetter{
			RESTOptionsGetter: generic.RESTOptionsGetter,
			Raw:               c.rawStorage,
			Uncached:          uncached,
			Ranges:            c.ranges,
			Counts:            c.counts,
			Defaults:          defaults,
			Closed:            c.closed,
			Fence:             c.fence,
			Protect:           protect,
			Ledger:            c.ledger,
			Prepare: map[schema.GroupResource]storage.Preparation{
				customResourceDefinitions:   c.crds.Prepare,
				apps.Resource("daemonsets"): spacepolicy.PrepareDaemonSet,
			},
		}
	}
	aggregated := &c.aggregator.GenericConfig.Config
	aggregated.RESTOptionsGetter = apiservice.RESTOptionsGetter{RESTOptionsGetter: aggregated.RESTOptionsGetter, Served: c.apiServices()}
	c.ranges.Custom = c.extensions.ExtraConfig.CRDRESTOptionsGetter
	c.extensions.ExtraConfig.CRDRESTOptionsGetter = &storage.RESTOptionsGetter{
		RESTOptionsGetter: c.extensions.ExtraConfig.CRDRESTOptionsGetter, Raw: c.rawStorage, Ranges: c.ranges, Counts: c.counts, Closed: c.closed, Fence: c.fence, Protect: protect, Ledger: c.ledger, Only: tenant.System,
	}
	return nil
}

// apiServices says what spaces serve, of which they show APIServices.
func (c *config) apiServices() apiservice.Served {
	return apiservice.Served{
		Versions: func(n tenant.Name) (builtin, custom []schema.GroupVersion, err error) { return c.router.Versions(n) },
		Changes:  c.crds.Changes,
	}
}

// closed returns why the space of n takes no new objects, if it takes none. The
// tenant may have gone, or have been followed by another one of its name, while
// the request waited for a webhook.
func (c *config) closed(ctx context.Context, n tenant.Name) error {
	state, exists, err := c.tenants.Get(ctx, n)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case !exists || state.Terminating:
		return filters.Terminating(n)
	default:
		return ctx.Err()
	}
}

// fence returns what keeps requests for one tenant out of the space of the next one of
// its name, and makes them see what closed says of it.
func (c *config) fence(n tenant.Name, uid types.UID) etcdstore.Fence {
	return c.deletions.Fence(n, uid, filters.Terminating)
}

// serviceAccounts returns how tokens of tenants' service accounts are verified:
// by the same keys as those of the system space.
func serviceAccounts(opts CompletedOptions, generic *genericapiserver.Config, client kubernetes.Interface) (authentication.ServiceAccounts, error) {
	options := opts.kube.Authentication.ServiceAccounts
	accounts := authentication.ServiceAccounts{
		Issuers:   options.Issuers,
		Keys:      options.ExternalPublicKeysGetter,
		Audiences: generic.Authentication.APIAudiences,
		Client:    client,
	}
	if accounts.Keys != nil || len(options.KeyFiles) == 0 {
		return accounts, nil
	}
	var keys []any
	for _, file := range options.KeyFiles {
		read, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return accounts, fmt.Errorf("reading --service-account-key-file %q: %w", file, err)
		}
		keys = append(keys, read...)
	}
	var err error
	accounts.Keys, err = serviceaccount.StaticPublicKeysGetter(keys)
	return accounts, err
}

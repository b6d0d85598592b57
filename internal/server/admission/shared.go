package admission

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"

	"github.com/tenantry/tenantry/internal/server/admission/published"
	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
	tenantquota "github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// shared is common to the plugins of all modes.
type shared struct {
	Config
	// upstream makes upstream's plugins. replacements makes the plugins of this
	// repository, with the configuration.
	upstream, replacements *admission.Plugins
	// flat are the informers of flattened plugins.
	flat     informers.SharedInformerFactory
	views    *view.Views
	services webhook.ServiceResolver
	quota    func() (quota.Configuration, error)
	spaces   *spaceClients
	reads    *reads
	// policy says what webhooks and policies of a space may make of requests of the platform. It is nil if the plugin
	// is switched off.
	policy *spacepolicy.Plugin
}

func newShared(upstream *admission.Plugins, config Config) (*shared, error) {
	if config.Terminating == nil {
		config.Terminating = func(tenant.Name) bool { return false }
	}
	if config.TenantUID == nil {
		config.TenantUID = func(tenant.Name) types.UID { return "" }
	}
	if config.Published.Terminating == nil {
		config.Published.Terminating = config.Terminating
	}
	s := &shared{
		Config:       config,
		upstream:     upstream,
		replacements: admission.NewPlugins(),
		flat:         withFlatClaims(withLiveNamespaces(config.Informers, config.Namespaces)),
		views:        view.New(config.Informers),
		services:     aggregatorapiserver.NewClusterIPServiceResolver(config.Informers.Core().V1().Services().Lister()),
		quota: sync.OnceValues(func() (quota.Configuration, error) {
			return quotainstall.NewQuotaConfigurationForAdmission(config.Informers, nil)
		}),
		spaces: newSpaceClients(config.Loopback),
		reads:  newReads(),
	}
	s.replacements.Register(resourcequota.PluginName, func(config io.Reader) (admission.Interface, error) { return tenantquota.NewPlugin(config, s.Quota) })
	spacepolicy.Register(s.replacements, spacepolicy.Rules{
		Placement: config.Placement, DaemonSets: config.DaemonSets, Workloads: config.Workloads, Definition: config.Definition, UID: config.TenantUID,
		Expressions:           spacepolicy.Expressions{Policies: s.policyCosts, Definitions: config.DefinitionCosts},
		CheckDefinitionChange: config.CheckDefinitionChange, LimitRanges: s.limitRanges, Namespaces: config.Namespaces,
	}, func(p *spacepolicy.Plugin) { s.policy = p })
	published.Register(s.replacements, config.Published)
	for _, class := range schedulingv1.SystemPriorityClasses() {
		s.views.AddBuiltin(class)
	}
	for _, informer := range []cache.SharedIndexInformer{
		config.Informers.Scheduling().V1().PriorityClasses().Informer(),
		config.Informers.Storage().V1().StorageClasses().Informer(),
		config.Informers.Networking().V1().IngressClasses().Informer(),
	} {
		if err := s.views.Index(informer); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// factory returns the factory of a plugin. The plugin gets its dependencies from upstream's
// initializers and is built when they are complete.
func (s *shared) factory(name string, m mode) admission.Factory {
	return func(config io.Reader) (admission.Interface, error) {
		p := plugin{name: name, shared: s, dependencies: &dependencies{}}
		if config != nil {
			data, err := io.ReadAll(config)
			if err != nil {
				return nil, fmt.Errorf("reading the configuration of %s: %w", name, err)
			}
			p.config = data
		}
		switch m {
		case flattened:
			return &flattenedPlugin{unchangedPlugin{plugin: p}}, nil
		case perSpace:
			return newPerSpacePlugin(p), nil
		case onDemand:
			return newOnDemandPlugin(p), nil
		default:
			return &unchangedPlugin{plugin: p}, nil
		}
	}
}

// hubs returns the hub of the objects of which a space needs one to have an instance of an
// on-demand plugin, and creates those of all its objects.
func (s *shared) hubs(name string) (*view.Hub, error) {
	registration := s.Informers.Admissionregistration().V1()
	var needed, watched cache.SharedIndexInformer
	switch name {
	case mutatingwebhook.PluginName:
		needed = registration.MutatingWebhookConfigurations().Informer()
	case validatingwebhook.PluginName:
		needed = registration.ValidatingWebhookConfigurations().Informer()
	case mutatingpolicy.PluginName:
		needed = registration.MutatingAdmissionPolicyBindings().Informer()
		watched = registration.MutatingAdmissionPolicies().Informer()
	case validatingpolicy.PluginName:
		needed = registration.ValidatingAdmissionPolicyBindings().Informer()
		watched = registration.ValidatingAdmissionPolicies().Informer()
	default:
		return nil, fmt.Errorf("admission plugin %q has no objects", name)
	}
	if watched != nil {
		if _, err := s.views.Hub(watched); err != nil {
			return nil, err
		}
	}
	return s.views.Hub(needed)
}

// plugin is one of upstream's plugins, not built yet.
type plugin struct {
	*dependencies
	shared *shared
	name   string
	config []byte // its part of --admission-control-config-file
}

// build makes an instance of the plugin.
func (p *plugin) build(config []byte, initializer admission.PluginInitializer) (admission.Interface, error) {
	plugins := p.shared.upstream
	if slices.Contains(p.shared.replacements.Registered(), p.name) {
		plugins = p.shared.replacements
	}
	if config == nil {
		return plugins.InitPlugin(p.name, nil, initializer)
	}
	return plugins.InitPlugin(p.name, bytes.NewReader(config), initializer)
}

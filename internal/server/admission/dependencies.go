package admission

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	controlplaneadmission "k8s.io/kubernetes/pkg/controlplane/apiserver/admission"
)

// dependencies collects the dependencies that upstream's initializers set on a plugin, to
// pass them on to the plugin's instances. Upstream's informers and clients are left
// out, because they only see the system space.
type dependencies struct {
	apiServerID      string
	authorizer       authorizer.UnconditionalAuthorizer
	drained          <-chan struct{}
	features         featuregate.FeatureGate
	effectiveVersion compatibility.EffectiveVersion
	restMapper       meta.RESTMapper
	dynamic          dynamic.Interface
	services         webhook.ServiceResolver
	webhookAuth      webhook.AuthenticationInfoResolverWrapper
	excluded         []schema.GroupResource
	manifests        *initializer.ManifestLoaders
}

func (d *dependencies) SetAPIServerID(id string) { d.apiServerID = id }
func (d *dependencies) SetUnconditionalAuthorizer(a authorizer.UnconditionalAuthorizer) {
	d.authorizer = a
}
func (d *dependencies) SetDrainedNotification(stop <-chan struct{})   { d.drained = stop }
func (d *dependencies) InspectFeatureGates(f featuregate.FeatureGate) { d.features = f }
func (d *dependencies) InspectEffectiveVersion(v compatibility.EffectiveVersion) {
	d.effectiveVersion = v
}
func (d *dependencies) SetRESTMapper(m meta.RESTMapper)                   { d.restMapper = m }
func (d *dependencies) SetDynamicClient(c dynamic.Interface)              { d.dynamic = c }
func (d *dependencies) SetServiceResolver(r webhook.ServiceResolver)      { d.services = r }
func (d *dependencies) SetManifestLoaders(l *initializer.ManifestLoaders) { d.manifests = l }
func (d *dependencies) SetAuthenticationInfoResolverWrapper(w webhook.AuthenticationInfoResolverWrapper) {
	d.webhookAuth = w
}
func (d *dependencies) SetExcludedAdmissionResources(excluded []schema.GroupResource) {
	d.excluded = excluded
}

// instanceConfig has the dependencies that differ between the instances of a plugin.
type instanceConfig struct {
	client      kubernetes.Interface
	dynamic     dynamic.Interface
	informers   informers.SharedInformerFactory
	authorizer  authorizer.UnconditionalAuthorizer
	stop        <-chan struct{}
	restMapper  meta.RESTMapper
	services    webhook.ServiceResolver
	webhookAuth webhook.AuthenticationInfoResolverWrapper
	quota       quota.Configuration
	manifests   *initializer.ManifestLoaders
}

// initializer returns the initializer of an instance.
func (d *dependencies) initializer(s instanceConfig) admission.PluginInitializer {
	return admission.PluginInitializers{
		initializer.NewAPIServerIDInitializer(d.apiServerID),
		initializer.New(s.client, s.dynamic, s.informers, authorizer.AuthorizerFunc(s.authorizer.Authorize), d.features, d.effectiveVersion, s.stop, s.restMapper),
		webhookinitializer.NewPluginInitializer(s.webhookAuth, s.services),
		controlplaneadmission.NewPluginInitializer(s.quota, d.excluded),
		manifestInitializer{s.manifests},
	}
}

// manifestInitializer offers the loaders of admission configuration in files.
type manifestInitializer struct {
	loaders *initializer.ManifestLoaders
}

func (i manifestInitializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsManifestLoaders); ok && i.loaders != nil {
		wants.SetManifestLoaders(i.loaders)
	}
}

// flatConfig returns the configuration of the one instance that serves all spaces. It has
// no dynamic client: upstream's is that of the system space.
func (p *plugin) flatConfig() (instanceConfig, error) {
	quota, err := p.shared.quota()
	return instanceConfig{
		client: p.shared.Client, informers: p.shared.flat, authorizer: plainNamespaces{p.authorizer}, stop: p.drained,
		restMapper: p.restMapper, services: p.services, webhookAuth: p.webhookAuth, quota: quota, manifests: p.manifests,
	}, err
}

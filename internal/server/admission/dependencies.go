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

// dependencies collects what upstream's initializers offer to a plugin, to hand
// it on to the plugin's instances. Upstream's informers and clients are not
// taken: they know the system space only.
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

// surroundings is what differs between the instances of a plugin.
type surroundings struct {
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

// initializer returns what initializes an instance in its surroundings.
func (d *dependencies) initializer(s surroundings) admission.PluginInitializer {
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

// inFlat returns the surroundings of the one instance that serves all spaces. It gets
// no dynamic client: upstream's is that of the system space.
func (p *plugin) inFlat() (surroundings, error) {
	quota, err := p.shared.quota()
	return surroundings{
		client: p.shared.Client, informers: p.shared.flat, authorizer: plainNamespaces{p.authorizer}, stop: p.drained,
		restMapper: p.restMapper, services: p.services, webhookAuth: p.webhookAuth, quota: quota, manifests: p.manifests,
	}, err
}

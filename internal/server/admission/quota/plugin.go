package quota

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	api "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// workers is how many namespaces are charged at once. A charge is a write: the
// number bounds the charges per second at about workers / latency of etcd.
const workers = 32

// Plugin charges what a request uses to the quotas of its namespace.
type Plugin struct {
	*admission.Handler
	config    *api.Configuration
	accessor  *accessor
	evaluator resourcequota.Evaluator
	quotas    quota.Configuration
	stop      <-chan struct{}
}

var (
	_ admission.ValidationInterface                = &Plugin{}
	_ initializer.WantsExternalKubeClientSet       = &Plugin{}
	_ initializer.WantsExternalKubeInformerFactory = &Plugin{}
	_ initializer.WantsQuotaConfiguration          = &Plugin{}
	_ initializer.WantsDrainedNotification         = &Plugin{}
)

// New returns the plugin with upstream's configuration, which may be nil.
func New(config io.Reader) (*Plugin, error) {
	configuration, err := resourcequota.LoadConfiguration(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", resourcequota.PluginName, err)
	}
	if configuration != nil {
		if errs := validation.ValidateConfiguration(configuration); len(errs) > 0 {
			return nil, errs.ToAggregate()
		}
	}
	return &Plugin{
		Handler:  admission.NewHandler(admission.Create, admission.Update),
		config:   configuration,
		accessor: newAccessor(),
	}, nil
}

func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface)    { p.accessor.client = client }
func (p *Plugin) SetQuotaConfiguration(configuration quota.Configuration) { p.quotas = configuration }
func (p *Plugin) SetDrainedNotification(stop <-chan struct{})             { p.stop = stop }
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	p.accessor.informer = f.Core().V1().ResourceQuotas()
}

// ValidateInitialization starts the evaluator, whose workers serve every space.
func (p *Plugin) ValidateInitialization() error {
	if p.accessor.client == nil || p.accessor.informer == nil || p.quotas == nil || p.stop == nil {
		return errors.New("missing a client, informers, a quota configuration or the notification of the server's end")
	}
	if err := p.accessor.start(); err != nil {
		return err
	}
	p.SetReadyFunc(admission.ReadyFunc(p.accessor.hasSynced))
	p.evaluator = resourcequota.NewQuotaEvaluator(p.accessor, p.quotas.IgnoredResources(),
		generic.NewRegistry(p.quotas.Evaluators()), nil, p.config, workers, p.stop)
	return nil
}

// Validate charges the request or refuses it. Cluster-scoped objects and
// namespaces are not charged to a namespace.
func (p *Plugin) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetOperation() == admission.Create && a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	if !p.accessor.hasSynced() && !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	return p.evaluator.Evaluate(a)
}

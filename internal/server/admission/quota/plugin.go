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

	tenantquota "github.com/tenantry/tenantry/internal/server/quota"
	"github.com/tenantry/tenantry/internal/tenant"
)

// workers is how many namespaces are charged at once. A charge is a write: the
// number bounds the charges per second at about workers / latency of etcd.
const workers = 32

// Plugin charges what a request uses to the quotas of its namespace.
//
// In a space it is the ledger of the tenant that calls it, when the request is
// written.
type Plugin struct {
	*admission.Handler
	config    *api.Configuration
	accessor  *accessor
	evaluator resourcequota.Evaluator
	quotas    quota.Configuration
	stop      <-chan struct{}
	ledger    *tenantquota.Ledger
}

var (
	_ admission.ValidationInterface                = &Plugin{}
	_ initializer.WantsExternalKubeClientSet       = &Plugin{}
	_ initializer.WantsExternalKubeInformerFactory = &Plugin{}
	_ initializer.WantsQuotaConfiguration          = &Plugin{}
	_ initializer.WantsDrainedNotification         = &Plugin{}
)

// New returns the plugin with upstream's configuration, which may be nil. What is
// written in spaces it leaves to the ledger, if there is one.
func New(config io.Reader, ledger *tenantquota.Ledger) (*Plugin, error) {
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
		accessor: &accessor{ledger: ledger},
		ledger:   ledger,
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
	p.SetReadyFunc(admission.ReadyFunc(p.accessor.latest.HasSynced))
	p.evaluator = resourcequota.NewQuotaEvaluator(p.accessor, p.quotas.IgnoredResources(),
		generic.NewRegistry(p.quotas.Evaluators()), nil, p.config, workers, p.stop)
	if p.ledger != nil {
		p.ledger.SetNamespaces(p)
	}
	return nil
}

// Validate charges the request or refuses it. In spaces the ledger does, when it is
// written; here, only what never will be is looked at.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if n.IsSpace() && p.ledger != nil {
		if !a.IsDryRun() {
			return nil
		}
		if err := p.ledger.Check(ctx, n, a); err != nil {
			return err
		}
	}
	// Cluster-scoped objects and namespaces are not charged to a namespace.
	if a.GetNamespace() == "" || a.GetOperation() == admission.Create && a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	return p.Evaluate(a)
}

var _ tenantquota.Namespaces = &Plugin{}

// Limits implements quota.Namespaces.
func (p *Plugin) Limits(namespace string) bool {
	return !p.accessor.latest.HasSynced() || p.config != nil && len(p.config.LimitedResources) > 0 || p.accessor.limits(namespace)
}

// Evaluate implements quota.Namespaces.
func (p *Plugin) Evaluate(a admission.Attributes) error {
	if !p.accessor.latest.HasSynced() && !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	return p.evaluator.Evaluate(a)
}

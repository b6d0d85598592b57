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
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/internal/tenant"
)

// Plugin is the admission plugin ResourceQuota. It makes what charges the quotas of
// namespaces. In a space the ledger charges them, when a request is written; elsewhere the
// plugin charges what is admitted, as upstream's plugin does.
//
// Upstream's plugin remembers the last 100 quotas it has charged and has five workers. With
// quotas in every space, a request would often be charged against a quota that the
// informers have not caught up with, and refused as a conflict.
type Plugin struct {
	*admission.Handler
	config   *api.Configuration
	client   kubernetes.Interface
	informer coreinformers.ResourceQuotaInformer
	quotas   quota.Configuration
	stop     <-chan struct{}
	ledger   *Ledger
	// namespaces is made when upstream has set what the plugin needs.
	namespaces *namespaces
}

var (
	_ admission.ValidationInterface                = &Plugin{}
	_ initializer.WantsExternalKubeClientSet       = &Plugin{}
	_ initializer.WantsExternalKubeInformerFactory = &Plugin{}
	_ initializer.WantsQuotaConfiguration          = &Plugin{}
	_ initializer.WantsDrainedNotification         = &Plugin{}
)

// NewPlugin returns the plugin with upstream's configuration, which may be nil. What is
// written in spaces it leaves to the ledger, if there is one.
func NewPlugin(config io.Reader, ledger *Ledger) (*Plugin, error) {
	configuration, err := resourcequota.LoadConfiguration(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", resourcequota.PluginName, err)
	}
	if configuration != nil {
		if errs := validation.ValidateConfiguration(configuration); len(errs) > 0 {
			return nil, errs.ToAggregate()
		}
	}
	return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update), config: configuration, ledger: ledger}, nil
}

func (p *Plugin) SetExternalKubeClientSet(client kubernetes.Interface)    { p.client = client }
func (p *Plugin) SetQuotaConfiguration(configuration quota.Configuration) { p.quotas = configuration }
func (p *Plugin) SetDrainedNotification(stop <-chan struct{})             { p.stop = stop }
func (p *Plugin) SetExternalKubeInformerFactory(f informers.SharedInformerFactory) {
	p.informer = f.Core().V1().ResourceQuotas()
}

// ValidateInitialization makes what charges the quotas of namespaces, for every space. The
// ledger gets it when it is complete.
func (p *Plugin) ValidateInitialization() (err error) {
	if p.client == nil || p.informer == nil || p.quotas == nil || p.stop == nil {
		return errors.New("missing a client, informers, a quota configuration or the notification of the server's end")
	}
	n := &namespaces{Handler: p.Handler, client: p.client.CoreV1(), limited: p.config != nil && len(p.config.LimitedResources) > 0}
	if p.ledger != nil {
		n.accounts, n.latest = p.ledger.accounts, p.ledger.accounts.latest
	} else if n.latest, err = newLatest(p.informer, nil); err != nil {
		return err
	}
	n.SetReadyFunc(admission.ReadyFunc(n.latest.hasSynced))
	n.evaluator = newEvaluator(&accessor{read: n.latest.ofNamespace, write: n.write},
		generic.NewRegistry(p.quotas.Evaluators()), p.quotas.IgnoredResources(), p.config, p.stop)
	if p.namespaces = n; p.ledger != nil {
		p.ledger.namespaces = n
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
		if err := p.ledger.check(n, a); err != nil {
			return err
		}
	}
	// Cluster-scoped objects and namespaces are not charged to a namespace.
	if a.GetNamespace() == "" || a.GetOperation() == admission.Create && a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	return p.namespaces.evaluate(a)
}

package quota

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Plugin is the admission plugin ResourceQuota, over upstream's evaluator. In a space the
// ledger asks it for the quotas of namespaces, when a request is written; elsewhere it
// charges what is admitted, as upstream's plugin does.
//
// Upstream's plugin remembers the last 100 quotas it has charged and has five workers. With
// quotas in every space, a request would often be charged against a quota that the
// informers have not caught up with, and refused as a conflict.
type Plugin struct {
	*admission.Handler
	config    *api.Configuration
	client    kubernetes.Interface
	informer  coreinformers.ResourceQuotaInformer
	quotas    quota.Configuration
	stop      <-chan struct{}
	ledger    *Ledger
	latest    *latest
	evaluator resourcequota.Evaluator
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

// ValidateInitialization starts the evaluator, whose workers serve every space.
func (p *Plugin) ValidateInitialization() (err error) {
	if p.client == nil || p.informer == nil || p.quotas == nil || p.stop == nil {
		return errors.New("missing a client, informers, a quota configuration or the notification of the server's end")
	}
	if p.ledger != nil {
		p.latest, p.ledger.namespaces = p.ledger.accounts.latest, p
	} else if p.latest, err = newLatest(p.informer, nil); err != nil {
		return err
	}
	p.SetReadyFunc(admission.ReadyFunc(p.latest.hasSynced))
	p.evaluator = newEvaluator(&accessor{read: p.latest.ofNamespace, write: p.write},
		generic.NewRegistry(p.quotas.Evaluators()), p.quotas.IgnoredResources(), p.config, p.stop)
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
	return p.evaluate(a)
}

// limits reports whether a quota may limit anything in a flattened namespace.
func (p *Plugin) limits(namespace string) bool {
	if !p.latest.hasSynced() || p.config != nil && len(p.config.LimitedResources) > 0 {
		return true
	}
	quotas, err := p.latest.ofNamespace(namespace)
	return err != nil || len(quotas) > 0
}

// evaluate charges a request, or, if it is a dry run, says whether it fits.
func (p *Plugin) evaluate(a admission.Attributes) error {
	if !p.latest.hasSynced() && !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}
	return p.evaluator.Evaluate(a)
}

// write writes a charge. Without a ledger it is written as upstream does it, if nothing else
// has changed the quota.
func (p *Plugin) write(c charge) error {
	if n := tenant.Flat(c.after.Namespace).Space(); p.ledger != nil && n.IsSpace() {
		return p.ledger.accounts.charge(c)
	}
	ctx, quotas := context.Background(), p.client.CoreV1().ResourceQuotas(c.after.Namespace)
	updated, err := quotas.UpdateStatus(ctx, c.after, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		if current, getErr := quotas.Get(ctx, c.after.Name, metav1.GetOptions{}); getErr == nil {
			p.latest.remember(current)
		}
	}
	if err != nil {
		return err
	}
	p.latest.remember(updated)
	return nil
}

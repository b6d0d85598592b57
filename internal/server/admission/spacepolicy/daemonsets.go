package spacepolicy

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

var daemonSets = apps.Resource("daemonsets")

const (
	refusedDaemonSet = "a space has no nodes to run a pod on each of; use a Deployment, or ask the platform's administrators " +
		"for daemonSets: {mode: Inert} in the Tenant, which stores DaemonSets without running them"
	inertDaemonSet = "a space has no nodes to run a pod on each of: this DaemonSet is stored and has no pods"
)

// checkDaemonSet refuses a new DaemonSet or, if the tenant may have them, warns that
// it has no pods.
func (p *Plugin) checkDaemonSet(ctx context.Context, a admission.Attributes, n tenant.Name) error {
	if a.GetOperation() == admission.Create && p.daemonSets(n).Mode != v1alpha1.DaemonSetsInert {
		return forbidden(a, refusedDaemonSet)
	}
	before, _ := a.GetOldObject().(*apps.DaemonSet)
	after, _ := a.GetObject().(*apps.DaemonSet)
	if before == nil || after == nil || before.Generation != after.Generation {
		warning.AddWarning(ctx, "", inertDaemonSet)
	}
	return nil
}

func (p *Plugin) daemonSets(n tenant.Name) *v1alpha1.DaemonSets {
	return ownOr(n, p.rules.DaemonSets, &p.config.DaemonSets)
}

// ownOr returns a tenant's own rules or, if it has none, the defaults. of may be nil.
func ownOr[T any](n tenant.Name, of func(tenant.Name) *T, defaults *T) *T {
	if of != nil {
		if rules := of(n); rules != nil {
			return rules
		}
	}
	return defaults
}

// PrepareDaemonSet completes a DaemonSet that is stored in a space; see
// storage.Preparation. No controller handles it. Its status is that of a DaemonSet in a
// cluster without nodes, so that clients do not wait for a rollout for ever, with a
// condition that says why there are no pods.
func PrepareDaemonSet(_ context.Context, n tenant.Name, _ runtime.Object) func(after runtime.Object) error {
	return func(after runtime.Object) error {
		set, ok := after.(*apps.DaemonSet)
		if !ok {
			return fmt.Errorf("unexpected object %T", after)
		}
		if !n.IsSpace() {
			return nil
		}
		set.Status = apps.DaemonSetStatus{
			ObservedGeneration: set.Generation,
			Conditions: []apps.DaemonSetCondition{{
				Type: v1alpha1.ConditionInert, Status: core.ConditionTrue, LastTransitionTime: set.CreationTimestamp,
				Reason: "NoNodes", Message: inertDaemonSet,
			}},
		}
		return nil
	}
}

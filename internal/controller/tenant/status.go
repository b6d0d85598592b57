package tenant

import (
	"context"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

func readyStatus(t *v1alpha1.Tenant) metav1.Condition {
	if t.Spec.Suspended {
		return metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSuspended,
			Message: "requests of the tenant's users are refused; its data is kept",
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: "the space can be used",
	}
}

func progressingStatus(_ *v1alpha1.Tenant, waiting string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing,
		Message: "waiting for " + waiting,
	}
}

func failedStatus(_ *v1alpha1.Tenant, err error) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFailed,
		Message: err.Error(),
	}
}

// commit writes the conditions if they say something new.
func (r *Reconciler) commit(ctx context.Context, t *v1alpha1.Tenant, conditions ...metav1.Condition) error {
	changed := t.DeepCopy()
	for _, condition := range conditions {
		condition.ObservedGeneration = t.Generation
		meta.SetStatusCondition(&changed.Status.Conditions, condition)
	}
	changed.Status.ObservedGeneration = t.Generation
	if apiequality.Semantic.DeepEqual(t.Status, changed.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(t)); err != nil {
		return fmt.Errorf("updating the status of tenant %q: %w", t.Name, client.IgnoreNotFound(err))
	}
	return nil
}

package tenant

import (
	"context"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// statusChange is one part of what a reconcile has to say.
type statusChange func(status *v1alpha1.TenantStatus, generation int64)

func condition(kind string, is bool, reason, message string) statusChange {
	return func(s *v1alpha1.TenantStatus, generation int64) {
		conditions.Set(&s.Conditions, generation, conditions.New(kind, is, reason, message))
	}
}

func ready(t *v1alpha1.Tenant) statusChange {
	if t.Spec.Suspended {
		return notReady(v1alpha1.ReasonSuspended, "requests of the tenant's users are refused; its data is kept")
	}
	return condition(v1alpha1.ConditionReady, true, v1alpha1.ReasonReady, "the space can be used")
}

func progressing(waiting string) statusChange {
	return notReady(v1alpha1.ReasonProgressing, "waiting for "+waiting)
}

func notReady(reason, message string) statusChange {
	return condition(v1alpha1.ConditionReady, false, reason, message)
}

// deleting says what a deletion waits for.
func deleting(message string) statusChange {
	return func(s *v1alpha1.TenantStatus, generation int64) {
		notReady(v1alpha1.ReasonTerminating, "the tenant is being deleted")(s, generation)
		condition(v1alpha1.ConditionDeleting, true, v1alpha1.ReasonTerminating, message)(s, generation)
	}
}

// counted records how many keys etcd holds of a space that is being emptied.
func counted(keys int64) statusChange {
	return func(s *v1alpha1.TenantStatus, _ int64) {
		if s.Deletion == nil {
			s.Deletion = &v1alpha1.TenantDeletion{Keys: keys}
		}
		s.Deletion.Left = keys
	}
}

// commit writes the status if it says something new.
func (r *Reconciler) commit(ctx context.Context, t *v1alpha1.Tenant, changes ...statusChange) error {
	changed := t.DeepCopy()
	for _, change := range changes {
		change(&changed.Status, t.Generation)
	}
	changed.Status.ObservedGeneration = t.Generation
	if apiequality.Semantic.DeepEqual(t.Status, changed.Status) {
		return nil
	}
	err := r.Client.Status().Patch(ctx, changed, client.MergeFrom(t), client.FieldOwner(fieldManager))
	return wrap(client.IgnoreNotFound(err), "updating the status of tenant %q", t.Name)
}

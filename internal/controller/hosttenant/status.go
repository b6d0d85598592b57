package hosttenant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
	"github.com/tenantry/tenantry/internal/controller/planeclient"
)

// record writes which ControlPlane a Tenant is in that names none.
func (r *Reconciler) record(ctx context.Context, w *work) error {
	changed := w.tenant.DeepCopy()
	changed.Status.ControlPlaneRef = w.ref
	return r.write(ctx, w, changed)
}

// commit writes the status if it says something new, and tells of what has changed.
func (r *Reconciler) commit(ctx context.Context, w *work, failed error) error {
	changed := w.tenant.DeepCopy()
	changed.Status = *statusOf(w, failed)
	if apiequality.Semantic.DeepEqual(w.tenant.Status, changed.Status) {
		return nil
	}
	before := w.tenant
	if err := r.write(ctx, w, changed); err != nil {
		return err
	}
	for _, e := range conditions.Transitions(before.Status.Conditions, changed.Status.Conditions, eventType) {
		e.Record(r.Events, before)
	}
	return nil
}

// write writes the status of the Tenant and of no other one of its name.
func (r *Reconciler) write(ctx context.Context, w *work, changed *v1alpha1.Tenant) error {
	unchanged := client.MergeFromWithOptions(w.tenant, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, changed, unchanged, client.FieldOwner(fieldManager))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("updating the status of Tenant %q: %w", w.tenant.Name, err)
	}
	w.tenant = changed
	return nil
}

// statusOf says what a reconcile has come to. failed is the error of its steps.
func statusOf(w *work, failed error) *v1alpha1.TenantStatus {
	status := w.tenant.Status.DeepCopy()
	if w.mirror != nil {
		var whole bool
		if status, whole = mirrored(w); !whole && failed == nil {
			failed = tooMuch(w)
		}
	}
	if w.cp != nil || status.ControlPlaneRef != nil {
		status.ControlPlaneRef = w.ref
	}
	condition := mirroring(w, failed)
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	set := func(c metav1.Condition) { conditions.Set(&status.Conditions, w.tenant.Generation, c) }
	switch {
	case w.mirror != nil && meta.FindStatusCondition(w.mirror.Status.Conditions, v1alpha1.ConditionReady) == nil:
		set(conditions.New(v1alpha1.ConditionReady, false, v1alpha1.ReasonProgressing, "waiting for the space"))
	case w.mirror == nil && failed != nil && isShown(ready, failed):
		set(conditions.New(v1alpha1.ConditionReady, false, condition.Reason, condition.Message))
	}
	set(condition)
	switch k := w.kubeconfig; {
	case k != nil:
		set(k.condition())
	case w.tenant.Spec.KubeconfigSecret == nil:
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionKubeconfig)
	}
	return status
}

// isShown reports whether a Tenant is not Ready for what has failed. A space is as it was if its control plane does not
// answer, or refuses another spec; what has never been made says why.
func isShown(ready *metav1.Condition, failed error) bool {
	p, is := errors.AsType[*conditions.Problem](failed)
	unreachable := is && p.Reason == v1alpha1.ReasonControlPlaneUnreachable || !is && planeclient.IsUnreachable(failed)
	switch {
	case ready == nil:
		return true
	case unreachable:
		return false
	default:
		return is || ready.Status != metav1.ConditionTrue && ready.Reason != v1alpha1.ReasonProgressing
	}
}

// statusBytes is how large the status may be that a control plane says, in JSON. The host stores it for each
// Tenant, and all that watch Tenants there have it.
const statusBytes = 16 << 10

// shownConditions are those of a Tenant in a control plane that the host is told of.
var shownConditions = []string{v1alpha1.ConditionReady, v1alpha1.ConditionDeleting}

// mirrored returns the status of the Tenant in the control plane, in terms of the one on the
// host, and what that says of itself. Of a status that is too large it returns the conditions, and false.
func mirrored(w *work) (*v1alpha1.TenantStatus, bool) {
	before, there := &w.tenant.Status, w.mirror.Status.DeepCopy()
	observed := func(generation int64) int64 {
		if w.settled && generation == w.mirror.Generation {
			return w.tenant.Generation
		}
		return before.ObservedGeneration
	}
	status := &v1alpha1.TenantStatus{
		ObservedGeneration:   observed(there.ObservedGeneration),
		CredentialsNotBefore: there.CredentialsNotBefore, Keystone: there.Keystone, Quota: there.Quota, Usage: there.Usage, Deletion: there.Deletion,
	}
	own := []string{v1alpha1.ConditionMirrored, v1alpha1.ConditionKubeconfig}
	if meta.FindStatusCondition(there.Conditions, v1alpha1.ConditionReady) == nil {
		own = append(own, v1alpha1.ConditionReady)
	}
	for _, kind := range shownConditions {
		if c := meta.FindStatusCondition(there.Conditions, kind); c != nil && isShort(c) {
			c.Message, c.ObservedGeneration = conditions.Message(c.Message), observed(c.ObservedGeneration)
			status.Conditions = append(status.Conditions, *c)
		}
	}
	for _, kind := range own {
		if c := meta.FindStatusCondition(before.Conditions, kind); c != nil {
			status.Conditions = append(status.Conditions, *c)
		}
	}
	if content, err := json.Marshal(status); err != nil || len(content) > statusBytes {
		return &v1alpha1.TenantStatus{
			ObservedGeneration: status.ObservedGeneration, Conditions: status.Conditions,
			Usage: status.Usage, Deletion: status.Deletion, CredentialsNotBefore: status.CredentialsNotBefore,
		}, false
	}
	return status, true
}

// isShort reports whether a condition has a reason that the host takes.
func isShort(c *metav1.Condition) bool {
	const longest = 1024 // as the definition says
	return len(c.Reason) <= longest && len(c.Status) <= len(metav1.ConditionUnknown)
}

// tooMuch says why the quota is not shown.
func tooMuch(w *work) error {
	return conditions.Problemf(v1alpha1.ReasonFailed,
		"the status of the Tenant in ControlPlane %q has more than %d bytes, and the host is not told of its quota: look at it there", w.ref, statusBytes)
}

// mirroring says whether the Tenant in the control plane is as the one on the host.
func mirroring(w *work, failed error) metav1.Condition {
	p, is := errors.AsType[*conditions.Problem](failed)
	switch {
	case is:
		return conditions.New(v1alpha1.ConditionMirrored, false, p.Reason, p.Message)
	case w.settled:
		return conditions.New(v1alpha1.ConditionMirrored, true, v1alpha1.ReasonMirrored, fmt.Sprintf("the Tenant in ControlPlane %q is as this one", w.ref))
	case apierrors.IsInvalid(failed):
		return conditions.New(v1alpha1.ConditionMirrored, false, v1alpha1.ReasonInvalid, failed.Error())
	case planeclient.IsUnreachable(failed):
		return conditions.New(v1alpha1.ConditionMirrored, false, v1alpha1.ReasonControlPlaneUnreachable, failed.Error())
	default:
		return conditions.New(v1alpha1.ConditionMirrored, false, v1alpha1.ReasonFailed, failed.Error())
	}
}

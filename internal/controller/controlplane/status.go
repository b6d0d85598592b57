package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

// conditionsOf says what a reconcile has come to. failed is the error of its steps.
func conditionsOf(w *work, failed error) []metav1.Condition {
	return append([]metav1.Condition{available(w), progressing(w, failed), degraded(w, failed)}, workloadsReady(w, failed)...)
}

// IsAvailable reports whether a server of a ControlPlane answers requests.
func IsAvailable(cp client.Object) bool {
	return meta.IsStatusConditionTrue(cp.(*v1alpha1.ControlPlane).Status.Conditions, v1alpha1.ConditionAvailable)
}

func available(w *work) metav1.Condition {
	switch {
	case w.servers.ready == 0:
		return conditions.New(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonServersNotReady, notReady(w))
	case w.endpoint == "":
		return conditions.New(v1alpha1.ConditionAvailable, false, v1alpha1.ReasonAwaitingAddress, awaitingAddress)
	default:
		return conditions.New(v1alpha1.ConditionAvailable, true, v1alpha1.ReasonServersReady,
			fmt.Sprintf("requests are answered at %s", w.endpoint))
	}
}

// notReady says what is known of servers of which none is ready. The operator asks none of them.
func notReady(w *work) string {
	const message = "no server answers requests"
	switch etcd := w.cp.Spec.Storage.Etcd; {
	case len(w.servers.unready) == 0:
		return message
	case etcd == nil:
		return fmt.Sprintf("%s: pod %s runs and is not ready, and its log says why", message, conditions.Enumerate(w.servers.unready))
	default:
		return fmt.Sprintf("%s: pods %s run and are not ready, as when etcd has no majority: look after %s, or see the logs of the pods",
			message, conditions.Enumerate(w.servers.unready), conditions.Enumerate(etcd.Endpoints))
	}
}

const awaitingAddress = "the Service has no address for clients yet: does the host give out addresses of load balancers?"

func progressing(w *work, failed error) metav1.Condition {
	switch {
	case failed != nil:
		return conditions.New(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonBlocked, "the condition Degraded says by what")
	case w.endpoint == "":
		return conditions.New(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonAwaitingAddress, awaitingAddress)
	case !w.servers.settled:
		return conditions.New(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, "waiting for the servers to be as the spec says and ready")
	case !w.managers.settled:
		return conditions.New(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, "waiting for the managers to be as the spec says and ready")
	case !w.syncer.settled:
		return conditions.New(v1alpha1.ConditionProgressing, true, v1alpha1.ReasonRollingOut, "waiting for the syncer to be as the spec says and ready")
	default:
		return conditions.New(v1alpha1.ConditionProgressing, false, v1alpha1.ReasonAsDesired, "everything is as the spec says")
	}
}

func degraded(w *work, failed error) metav1.Condition {
	p, is := errors.AsType[*conditions.Problem](failed)
	switch {
	case is:
		return conditions.New(v1alpha1.ConditionDegraded, true, p.Reason, p.Message)
	case apierrors.IsInvalid(failed):
		return conditions.New(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonInvalid, failed.Error())
	case failed != nil:
		return conditions.New(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonFailed, failed.Error())
	case cmp.Or(w.servers.failing, w.managers.failing, w.syncer.failing) != "":
		return conditions.New(v1alpha1.ConditionDegraded, true, v1alpha1.ReasonPodFailing, cmp.Or(w.servers.failing, w.managers.failing, w.syncer.failing))
	}
	if a := available(w); a.Status != metav1.ConditionTrue { // "kubectl get -o wide" prints this message beside Available False
		return conditions.New(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonAsExpected, "nothing has failed; "+a.Message)
	}
	return conditions.New(v1alpha1.ConditionDegraded, false, v1alpha1.ReasonAsExpected, "nothing is wrong")
}

// commit writes the status if it says something new, and tells of what has changed.
func (r *Reconciler) commit(ctx context.Context, w *work, failed error) error {
	changed := w.cp.DeepCopy()
	status := &changed.Status
	conditions.Set(&status.Conditions, w.cp.Generation, conditionsOf(w, failed)...)
	status.ObservedGeneration = w.cp.Generation
	status.Endpoint = w.endpoint
	status.Replicas = w.servers.ready
	if w.authorities != nil {
		status.CertificateAuthority = string(w.authorities.server.PEM())
		status.Keys = w.recorded()
	}
	rotated := w.tokenKeys != nil && w.tokenKeys.served
	if rotated {
		status.TokenKeys, status.KeyRotation = w.tokenKeys.all, w.tokenKeys.rotation
		if len(status.TokenKeys) > 1 || meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionKeysRotating) != nil {
			conditions.Set(&status.Conditions, w.cp.Generation, w.tokenKeys.condition())
		}
	}
	record(status, w.copies)
	if w.servers.settled {
		status.Version = w.servers.version
	}
	show(changed)
	if apiequality.Semantic.DeepEqual(w.cp.Status, changed.Status) {
		return nil
	}
	// What was observed of a ControlPlane is not written into the next one of its name.
	unchanged := client.MergeFromWithOptions(w.cp, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, changed, unchanged, client.FieldOwner(FieldManager))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the status of ControlPlane %q: %w", w.cp.Name, err)
	}
	if rotated {
		for _, e := range w.tokenKeys.events {
			e.Record(r.Events, w.cp)
		}
	}
	for _, e := range conditions.Transitions(w.cp.Status.Conditions, status.Conditions, eventType) {
		e.Record(r.Events, w.cp)
	}
	return nil
}

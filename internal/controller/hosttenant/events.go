package hosttenant

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

func deleted(w *work) conditions.Event {
	message := fmt.Sprintf("the Tenant in ControlPlane %q has gone, and its space with it", w.ref)
	if d := w.tenant.Status.Deletion; d != nil {
		message += fmt.Sprintf(": of %d keys, etcd holds 0", d.Keys)
	}
	return conditions.Normal("SpaceDeleted", "Delete", message)
}

func left(w *work) conditions.Event {
	return conditions.Warning("SpaceLeft", "Delete",
		fmt.Sprintf("the Tenant of this name in ControlPlane %q is not of this host and stays", w.ref))
}

func abandoned(w *work) conditions.Event {
	return conditions.Warning("SpaceAbandoned", "Delete",
		fmt.Sprintf("ControlPlane %q is gone: what is left of the space stays in its volume", w.ref))
}

// eventType returns the type of the event that tells of a change, empty if none does.
func eventType(_ *metav1.Condition, is metav1.Condition) string {
	isReady := is.Type == v1alpha1.ConditionReady
	switch {
	case isReady && (is.Status == metav1.ConditionTrue || is.Reason == v1alpha1.ReasonSuspended):
		return corev1.EventTypeNormal
	case !isReady && is.Status == metav1.ConditionFalse,
		isReady && (is.Reason == v1alpha1.ReasonFailed || is.Reason == v1alpha1.ReasonInvalid):
		return corev1.EventTypeWarning
	}
	return ""
}

package hosttenant

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// happening is what an event tells.
type happening struct{ kind, reason, action, message string }

func deleted(w *work) happening {
	message := fmt.Sprintf("the Tenant in ControlPlane %q has gone, and its space with it", w.ref)
	if d := w.tenant.Status.Deletion; d != nil {
		message += fmt.Sprintf(": of %d keys, etcd holds 0", d.Keys)
	}
	return happening{corev1.EventTypeNormal, "SpaceDeleted", "Delete", message}
}

func left(w *work) happening {
	return happening{corev1.EventTypeWarning, "SpaceLeft", "Delete",
		fmt.Sprintf("the Tenant of this name in ControlPlane %q is not of this host and stays", w.ref)}
}

func abandoned(w *work) happening {
	return happening{corev1.EventTypeWarning, "SpaceAbandoned", "Delete",
		fmt.Sprintf("ControlPlane %q is gone: what is left of the space stays in its volume", w.ref)}
}

// transitions are the changes of conditions that people want to be told of.
func transitions(before, after []metav1.Condition) []happening {
	var all []happening
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		same := was != nil && was.Status == c.Status && was.Reason == c.Reason
		switch {
		case same:
		case c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue,
			c.Type == v1alpha1.ConditionReady && c.Reason == v1alpha1.ReasonSuspended:
			all = append(all, happening{corev1.EventTypeNormal, c.Reason, "Reconcile", c.Message})
		case c.Status == metav1.ConditionFalse && c.Type != v1alpha1.ConditionReady,
			c.Type == v1alpha1.ConditionReady && (c.Reason == v1alpha1.ReasonFailed || c.Reason == v1alpha1.ReasonInvalid):
			all = append(all, happening{corev1.EventTypeWarning, c.Reason, "Reconcile", c.Message})
		}
	}
	return all
}

func (r *Reconciler) tell(t *v1alpha1.Tenant, h happening) {
	r.Events.Eventf(t, nil, h.kind, h.reason, h.action, "%s", h.message)
}

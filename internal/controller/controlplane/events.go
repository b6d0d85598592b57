package controlplane

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// happening is what an event tells.
type happening struct{ kind, reason, action, message string }

func keysMade(secret string) happening {
	return happening{corev1.EventTypeNormal, "KeysMade", "MakeKeys",
		fmt.Sprintf("made the keys in Secret %q, which nobody can make again: back it up", secret)}
}

// transitions are the changes of conditions that people want to be told of.
func transitions(before, after []metav1.Condition) []happening {
	var all []happening
	for _, c := range after {
		was := meta.FindStatusCondition(before, c.Type)
		same := was != nil && was.Status == c.Status && was.Reason == c.Reason
		switch {
		case same:
		case c.Type == v1alpha1.ConditionDegraded && c.Status == metav1.ConditionTrue,
			c.Type == v1alpha1.ConditionAvailable && c.Status == metav1.ConditionFalse && was != nil:
			all = append(all, happening{corev1.EventTypeWarning, c.Reason, "Reconcile", c.Message})
		case c.Type == v1alpha1.ConditionAvailable && c.Status == metav1.ConditionTrue:
			all = append(all, happening{corev1.EventTypeNormal, c.Reason, "Reconcile", c.Message})
		}
	}
	return all
}

func (r *Reconciler) record(cp *v1alpha1.ControlPlane, h happening) {
	r.Events.Eventf(cp, nil, h.kind, h.reason, h.action, "%s", h.message)
}

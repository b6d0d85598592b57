package controlplane

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/controller/conditions"
)

func keysMade(secret string) conditions.Event {
	return conditions.Normal("KeysMade", "MakeKeys",
		fmt.Sprintf("made the keys in Secret %q, which nobody can make again: back it up", secret))
}

func tokenKeyPublished(secret string) conditions.Event {
	return conditions.Normal("TokenKeyPublished", "RotateKeys",
		fmt.Sprintf("servers verify tokens of service accounts by the key in Secret %q, too: back it up", secret))
}

func tokenKeySigns(secret string) conditions.Event {
	return conditions.Normal("TokenKeySigns", "RotateKeys", fmt.Sprintf("servers sign tokens of service accounts by the key in Secret %q", secret))
}

func tokenKeyRetired(secret string) conditions.Event {
	return conditions.Normal("TokenKeyRetired", "RotateKeys",
		fmt.Sprintf("servers refuse tokens of service accounts that were signed by the key in Secret %q, which nobody needs any more", secret))
}

func oldTokenKeysRefused(secret string) conditions.Event {
	return conditions.Normal("OldTokenKeysRefused", "RotateKeys",
		fmt.Sprintf("servers refuse tokens of service accounts that an earlier ControlPlane has signed by other keys than that in Secret %q: they have no end that is known", secret))
}

// eventType returns the type of the event that tells of a change, empty if none does.
func eventType(was *metav1.Condition, is metav1.Condition) string {
	switch {
	case is.Type == v1alpha1.ConditionDegraded && is.Status == metav1.ConditionTrue,
		is.Type == v1alpha1.ConditionAvailable && is.Status == metav1.ConditionFalse && was != nil,
		is.Type == v1alpha1.ConditionWorkloadsReady && slices.Contains([]string{v1alpha1.ReasonSyncerNotReady, v1alpha1.ReasonStopped}, is.Reason):
		return corev1.EventTypeWarning
	case (is.Type == v1alpha1.ConditionAvailable || is.Type == v1alpha1.ConditionWorkloadsReady) && is.Status == metav1.ConditionTrue:
		return corev1.EventTypeNormal
	}
	return ""
}

package conditions

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// Event is what an event tells. Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
type Event struct{ Type, Reason, Action, Message string }

// Normal returns an event that asks nothing of anybody.
func Normal(reason, action, message string) Event {
	return Event{corev1.EventTypeNormal, reason, action, message}
}

// Warning returns an event that somebody should look into.
func Warning(reason, action, message string) Event {
	return Event{corev1.EventTypeWarning, reason, action, message}
}

// Record records it about an object. A message that is too long is shortened.
func (e Event) Record(recorder events.EventRecorder, about runtime.Object) {
	recorder.Eventf(about, nil, e.Type, e.Reason, e.Action, "%s", shorten(e.Message, noteLimit))
}

// Transitions are the changes of conditions that people want to be told of: those in status or
// reason for which kind returns the type of an event. was is nil for a condition that is new.
func Transitions(before, after []metav1.Condition, kind func(was *metav1.Condition, is metav1.Condition) string) []Event {
	var all []Event
	for _, is := range after {
		was := meta.FindStatusCondition(before, is.Type)
		if was != nil && was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		if kind := kind(was, is); kind != "" {
			all = append(all, Event{kind, is.Reason, "Reconcile", is.Message})
		}
	}
	return all
}

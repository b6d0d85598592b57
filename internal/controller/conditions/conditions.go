package conditions

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/text"
)

const (
	// Named is how many objects a message names.
	Named = 5
	// messageLimit keeps messages readable and, by far, within what schemas allow.
	messageLimit = 2048
	// noteLimit leaves room for what shows that there was more: servers refuse events with a
	// note of more than 1,024 bytes.
	noteLimit = 1024 - len(more)

	// more is the end of what was shortened.
	more = "..."
)

// Enumerate joins the first few names.
func Enumerate[S ~string](names []S) string {
	var b strings.Builder
	for i, name := range names[:min(len(names), Named)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	if rest := len(names) - Named; rest > 0 {
		fmt.Fprintf(&b, " and %d more", rest)
	}
	return b.String()
}

// Message shortens a message that is too long.
func Message(message string) string { return shorten(message, messageLimit) }

// shorten keeps the beginning of a message, of so many bytes, and shows that there was more.
func shorten(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	return text.Cut(message, limit) + more
}

// New returns a condition. A message that is too long is shortened.
func New(kind string, is bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if is {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: Message(message)}
}

// Set sets conditions that are about a generation of their object.
func Set(conditions *[]metav1.Condition, generation int64, all ...metav1.Condition) {
	for _, c := range all {
		c.ObservedGeneration = generation
		meta.SetStatusCondition(conditions, c)
	}
}

// Waited returns how long a condition has not been true: nothing if it is, or if there
// is none.
func Waited(conditions []metav1.Condition, kind string) time.Duration {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil || c.Status == metav1.ConditionTrue {
		return 0
	}
	return time.Since(c.LastTransitionTime.Time)
}

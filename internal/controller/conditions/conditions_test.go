package conditions

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

func TestMessage(t *testing.T) {
	limit := strings.Repeat("x", messageLimit)
	for name, tc := range map[string]struct{ message, want string }{
		"short":         {"waiting", "waiting"},
		"at the limit":  {limit, limit},
		"longer":        {limit + "yz", limit + "..."},
		"between runes": {limit + "é", limit + "..."},
		"within a rune": {limit[1:] + "é and more", limit[1:] + "..."},
		"no text":       {strings.Repeat("\x80", messageLimit+1), "..."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Message(tc.message); got != tc.want {
				t.Errorf("got %d bytes, %q at the end", len(got), got[max(0, len(got)-8):])
			}
		})
	}
}

// TestEventsAreShort checks that no event is refused for its length.
func TestEventsAreShort(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	Warning("Reason", "Act", strings.Repeat("é", 1024)).Record(recorder, &corev1.Secret{})
	note := strings.TrimPrefix(<-recorder.Events, "Warning Reason ")
	if len(note) > 1024 || !strings.HasSuffix(note, "é...") {
		t.Errorf("it has %d bytes, and ends with %q", len(note), note[len(note)-8:])
	}
}

// TestIsProblem checks what is left to people, and what is tried again soon.
func TestIsProblem(t *testing.T) {
	problem, other := Problemf("Reason", "mend it"), errors.New("no answer")
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"none":                           {nil, false},
		"a problem":                      {problem, true},
		"a problem in an error":          {fmt.Errorf("reading: %w", problem), true},
		"another error":                  {other, false},
		"problems":                       {errors.Join(problem, problem), true},
		"problems in an error":           {fmt.Errorf("reading: %w", errors.Join(problem, problem)), true},
		"a problem beside another error": {errors.Join(problem, other), false},
		"such a pair beside a problem":   {errors.Join(problem, errors.Join(other, problem)), false},
	} {
		if got := IsProblem(tc.err); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conditions := []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now()},
			{Type: "Done", Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now()},
		}
		time.Sleep(time.Minute)
		for kind, want := range map[string]time.Duration{"Ready": time.Minute, "Done": 0, "Unknown": 0} {
			if got := Waited(conditions, kind); got != want {
				t.Errorf("%s: got %v, want %v", kind, got, want)
			}
		}
	})
}

func TestEnumerate(t *testing.T) {
	for want, names := range map[string][]string{
		"":                         nil,
		"a":                        {"a"},
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := Enumerate(names); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

package conditions

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

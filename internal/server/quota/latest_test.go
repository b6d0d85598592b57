package quota

import "testing"

// TestCaughtUp checks that nothing is kept of what the informers have.
func TestCaughtUp(t *testing.T) {
	limit := list("pods", "10")
	old, current := newQuota("1", limit, limit, list("pods", "0")), newQuota("2", limit, limit, list("pods", "1"))
	for name, tc := range map[string]struct {
		event func(*Latest)
		want  int
	}{
		"an older state": {func(l *Latest) { l.caughtUp(old) }, 1},
		"the same state": {func(l *Latest) { l.caughtUp(current) }, 0},
		"deletion":       {func(l *Latest) { l.gone(current) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLatest(t, old)
			l.Remember(current)
			if got := l.Get(nameOf(current)); got.ResourceVersion != "2" {
				t.Errorf("got version %s of what was remembered, want 2", got.ResourceVersion)
			}
			tc.event(l)
			if got := len(l.ahead); got != tc.want {
				t.Errorf("got %d quotas kept, want %d", got, tc.want)
			}
		})
	}
}

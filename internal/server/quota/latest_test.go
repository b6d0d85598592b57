package quota

import "testing"

// TestCaughtUp checks that nothing is kept of what the informers have.
func TestCaughtUp(t *testing.T) {
	limit := list("pods", "10")
	old, current := newQuota("1", limit, limit, list("pods", "0")), newQuota("2", limit, limit, list("pods", "1"))
	for name, tc := range map[string]struct {
		event func(*latest)
		want  int
	}{
		"an older state": {func(l *latest) { l.caughtUp(old) }, 1},
		"the same state": {func(l *latest) { l.caughtUp(current) }, 0},
		"deletion":       {func(l *latest) { l.gone(current) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			l := latestOf(t, old)
			l.remember(current)
			if got := l.get(nameOf(current)); got.ResourceVersion != "2" {
				t.Errorf("got version %s of what was remembered, want 2", got.ResourceVersion)
			}
			tc.event(l)
			if got := len(l.ahead); got != tc.want {
				t.Errorf("got %d quotas kept, want %d", got, tc.want)
			}
		})
	}
}

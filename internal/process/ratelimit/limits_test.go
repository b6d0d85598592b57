package ratelimit

import (
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	r, now := Limits[string]{PerSecond: 2, AtOnce: 10}, time.Unix(1000, 0)
	for _, step := range []struct {
		after time.Duration
		key   string
		much  int
		wait  time.Duration
		known int
	}{
		{0, "acme", 10, 0, 1},
		{0, "acme", 2, time.Second, 1},
		{0, "acme", 1, 500 * time.Millisecond, 1}, // who waits has had nothing
		{0, "globex", 20, 0, 2},                   // counts as all at once
		{time.Second, "acme", 2, 0, 2},
		{time.Second, "initech", 1, 0, 3},
		{3 * time.Second, "umbrella", 1, 0, 2}, // acme has had something since, globex and initech have all again
	} {
		now = now.Add(step.after)
		if wait := r.Take(now, step.key, step.much); wait != step.wait || r.Len() != step.known {
			t.Errorf("%+v: waits %v, %d are known", step, wait, r.Len())
		}
	}
	r.Forget("acme")
	if wait := r.Take(now, "acme", 10); wait > 0 {
		t.Errorf("what was forgotten waits %v", wait)
	}
}

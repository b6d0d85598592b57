package sync

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
)

func TestGuard(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	for name, tc := range map[string]struct{ all, want int }{
		"few":           {all: 100, want: 50},
		"all of few":    {all: 40, want: 40},
		"a tenth":       {all: 1000, want: 100},
		"none at first": {all: 0, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := &guard{clock: c, limit: DefaultOrphanLimit}
			gone := 0
			for left := tc.all; left > 0 && g.allow(left) == nil; left-- {
				gone++
			}
			if gone != tc.want {
				t.Errorf("%d are gone, want %d", gone, tc.want)
			}
		})
	}
	g := &guard{clock: c, limit: 1, what: "pods"}
	if err := g.allow(2); err != nil {
		t.Error(err)
	}
	if err := g.allow(1); err == nil {
		t.Error("the second of two may go")
	}
	c.Step(orphanWindow + time.Second)
	if err := g.allow(1); err != nil {
		t.Errorf("after a while: %v", err)
	}
}

func TestDeletions(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(0, 0))
	d := newDeletions(c)
	for i := range 100 {
		d.note(types.UID(fmt.Sprint(i)), true)
	}
	if seen, ok := d.of("7"); !ok || !seen.forced {
		t.Errorf("got %v, %v", seen, ok)
	}
	c.Step(orphanWindow + time.Second)
	d.note("new", false)
	if _, ok := d.of("7"); ok || len(d.seen) != 1 {
		t.Errorf("%d are remembered", len(d.seen))
	}
}

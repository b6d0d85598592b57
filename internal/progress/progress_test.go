package progress

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	for name, tc := range map[string]struct {
		seen, next string
		wait       string
		want       bool
		after      time.Duration
	}{
		"not begun":        {wait: "5"},
		"known":            {seen: "5", wait: "5", want: true},
		"long known":       {seen: "9", wait: "5", want: true},
		"in a moment":      {seen: "4", next: "5", wait: "5", want: true, after: time.Millisecond},
		"and what follows": {seen: "4", next: "7", wait: "5", want: true, after: time.Millisecond},
		"not far enough":   {seen: "3", next: "4", wait: "5", after: waitTimeout},
		"never":            {seen: "4", wait: "5", after: waitTimeout},
		"no version":       {seen: "4", wait: "", want: false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p Progress
				p.Note(tc.seen)
				if tc.next != "" {
					time.AfterFunc(time.Millisecond, func() { p.Note(tc.next) })
				}
				began := time.Now()
				if got := p.Wait(tc.wait); got != tc.want {
					t.Errorf("got %t, want %t", got, tc.want)
				}
				if waited := time.Since(began); waited != tc.after {
					t.Errorf("waited %v, want %v", waited, tc.after)
				}
			})
		})
	}
}

package backlog

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const (
	most       = 20
	minBackoff = 100 * time.Millisecond
	maxBackoff = time.Minute
)

// TestBacklog checks that what has failed keeps nothing else of its tenant waiting.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New[string, string](minBackoff, maxBackoff)
		bad, good := "bad", "good"
		for times := range 20 {
			b.Retry("acme", bad)
			b.Add("acme", good)
			if got := b.Take("acme", most); len(got) != 1 || got[0] != good {
				t.Fatalf("got %v", got)
			}
			want := min(minBackoff<<times, maxBackoff)
			if got := b.Next("acme"); got != want {
				t.Fatalf("after %d failures it comes after %v, want %v", times+1, got, want)
			}
			time.Sleep(want)
			if got := b.Take("acme", most); len(got) != 1 || got[0] != bad {
				t.Fatalf("got %v", got)
			}
		}
		b.Done("acme", bad)
		b.Retry("acme", bad)
		if got := b.Next("acme"); got != minBackoff {
			t.Errorf("after it was done it comes after %v", got)
		}
		b.Add("acme", bad) // of which something has changed
		if got := b.Next("acme"); got != Soon || len(b.Take("acme", most)) != 1 || b.Next("acme") != 0 || len(b.items) > 0 {
			t.Errorf("it comes after %v, and %v are left", got, b.items)
		}
	})
}

// TestTake checks that no more is taken than is asked for, and of nobody else.
func TestTake(t *testing.T) {
	b := New[string, int](time.Second, time.Minute)
	for i := range 3 {
		b.Add("acme", i)
		b.Add("acme", i)
	}
	b.Add("globex", 7)
	if got := b.Take("globex", 2); !slices.Equal(got, []int{7}) || b.Len("globex") != 0 || b.Next("globex") != 0 {
		t.Errorf("got %v", got)
	}
	first := b.Take("acme", 2)
	if len(first) != 2 || b.Len("acme") != 1 || b.Next("acme") != Soon {
		t.Errorf("got %v, and %d are left", first, b.Len("acme"))
	}
	if all := slices.Sorted(slices.Values(append(first, b.Take("acme", 2)...))); !slices.Equal(all, []int{0, 1, 2}) {
		t.Errorf("got %v", all)
	}
}

package keyed

import (
	"context"
	"errors"
	"testing"
)

func TestTurns(t *testing.T) {
	turns, all := Turns[string]{Each: 2, Waiting: 1}, make(chan struct{}, 3)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	take := func(key string) func() {
		t.Helper()
		release, err := turns.Take(t.Context(), key, all)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	acme, again, globex := take("acme"), take("acme"), take("globex")
	for _, key := range []string{"acme", "globex"} { // it has no turn more, and there is no place more
		if _, err := turns.Take(ended, key, all); !errors.Is(err, context.Canceled) {
			t.Errorf("a turn of %s too many: %v", key, err)
		}
	}
	_, _, leave := turns.of.Use("acme", nil) // waits
	if _, err := turns.Take(ended, "acme", all); !errors.Is(err, ErrTooMany) {
		t.Errorf("any number waits: %v", err)
	}
	leave()
	acme()
	next := take("acme")
	for _, release := range []func(){again, globex, next} {
		release()
	}
	if turns.Len() > 0 || len(all) > 0 {
		t.Errorf("of %d keys turns are kept, %d places are taken", turns.Len(), len(all))
	}
}

package waiting

import (
	"context"
	"testing"
)

func TestTurns(t *testing.T) {
	var turns Turns
	release, err := turns.Take(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	other, err := turns.Take(t.Context(), "globex")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := turns.Take(ctx, "acme"); err == nil {
		t.Error("a turn is taken twice")
	}
	release()
	if turns.of.Len() > 0 {
		t.Error("turns are kept")
	}
}

package kubecontrollers

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestTurns(t *testing.T) {
	now := time.Time{}.Add(time.Hour)
	turns := newTurns(1)
	turns.now = func() time.Time { return now }
	const work = time.Second
	count := func(n tenant.Name) (taken int) {
		for turns.take(n, work) == nil {
			taken++
		}
		return taken
	}
	if got, want := count("a"), int(maxTurnDebt/work/turnDivisor)+1; got != want {
		t.Errorf("%d turns at first, want %d", got, want)
	}
	if err := turns.take("b", work); err != nil {
		t.Errorf("another tenant waits: %v", err)
	}
	if now = now.Add(40 * work); count("a") == 0 {
		t.Error("what was done is not paid back")
	}
	if now = now.Add(time.Hour); turns.take("c", work) != nil || len(turns.until) != 1 {
		t.Errorf("tenants without a debt are remembered: %v", turns.until)
	}
}

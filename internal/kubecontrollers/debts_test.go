package kubecontrollers

import (
	"testing"
	"time"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestTurns(t *testing.T) {
	now := time.Time{}.Add(time.Hour)
	debts := newDebts(1)
	debts.now = func() time.Time { return now }
	const work = time.Second
	count := func(n tenant.Name) (taken int) {
		for debts.take(n, work) == nil {
			taken++
		}
		return taken
	}
	if got, want := count("a"), int(maxDebt/work/debtDivisor)+1; got != want {
		t.Errorf("%d turns at first, want %d", got, want)
	}
	if err := debts.take("b", work); err != nil {
		t.Errorf("another tenant waits: %v", err)
	}
	if now = now.Add(40 * work); count("a") == 0 {
		t.Error("what was done is not paid back")
	}
	now = now.Add(time.Hour)
	debts.work("d", work)
	if few, many := debts.owesMuch("d", 1), debts.owesMuch("d", 10); few || !many {
		t.Errorf("owes much with one item %v, and with ten %v", few, many)
	}
	if debts.contended("d") {
		t.Error("a tenant contends with itself")
	}
	if now = now.Add(contention - time.Second); !debts.contended("a") {
		t.Error("what another has had done is forgotten")
	}
	now = now.Add(time.Hour)
	debts.waits("a")
	if debts.contended("a") {
		t.Error("a tenant that waits contends with itself")
	}
	if debts.waits("b"); !debts.contended("a") || len(debts.until) != 1 {
		t.Errorf("one that waits does not count, or owes something: %v", debts.until)
	}
	if now = now.Add(time.Hour); debts.take("c", work) != nil || len(debts.until) != 1 {
		t.Errorf("tenants without a debt are remembered: %v", debts.until)
	}
}

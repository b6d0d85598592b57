package cachememory

import (
	"strings"
	"testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestMemoryOfStored checks that what spaces have stored takes memory of all, and who has little goes on when nothing
// is left.
func TestMemoryOfStored(t *testing.T) {
	const least = 20
	m := New(10, ordinary*headroomShare*least) // objects in caches have a bound of their own
	expect := func(n tenant.Name, allowed int64) {
		t.Helper()
		now := m.stored[n]
		if err := m.MayStore(n, now, allowed-now); err != nil {
			t.Errorf("%q may not have %d: %v", n, allowed, err)
		}
		if err := m.MayStore(n, now, allowed+1-now); err == nil {
			t.Errorf("%q may have more than %d", n, allowed)
		}
	}
	expect("a", 640)
	if err := m.MayStore("a", 600, 41); err == nil {
		t.Error("what the server has not heard of yet does not count")
	}
	m.SetStored("a", 600)
	expect("a", 640)
	expect("b", 340)
	m.SetStored("b", 400) // by another server
	expect("b", 400+least)
	m.SetStored("b", 410)
	expect("b", 400+least)
	m.SetStored("b", 405)
	expect("b", 400+least)
	m.SetStored("b", 400)
	if len(m.headroom) != 0 {
		t.Errorf("there is headroom that nobody has: %v", m.headroom)
	}
	if headroom, err := m.checkMoreLocked("a", 1); err != nil || headroom != 1 {
		t.Errorf("of what is stored, %d of 1 byte in caches is headroom: %v", headroom, err)
	}
	err := m.MayStore("a", 600, least+1)
	if err == nil || !strings.Contains(err.Error(), "1800 bytes") || !strings.Contains(err.Error(), "all spaces together") {
		t.Errorf("the error does not say what takes the memory: %v", err)
	}
	m.SetStored("system", 1<<30)
	m.SetStored("b", 0)
	if m.SetStored("a", 0); m.takeAllLocked() != 0 || len(m.stored) != 0 {
		t.Errorf("nothing is stored, and takes %d: %v", m.takeAllLocked(), m.stored)
	}
}

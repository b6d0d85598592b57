package cachememory

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestCopies checks that copies of objects count as long as they are there, and are not read where there is no room.
func TestCopies(t *testing.T) {
	const each = 1 << 20
	m := New(copyBytes+5*each/2, 0)
	c := m.NewCopy("acme")
	set := func(name string, bytes int) error {
		return c.Set(types.NamespacedName{Namespace: "ns", Name: name}, bytes)
	}
	begin := func() {
		t.Helper()
		if err := c.Begin(); err != nil {
			t.Error(err)
		}
	}
	begin()
	for _, name := range []string{"a", "b"} {
		if err := set(name, each); err != nil {
			t.Fatal(err)
		}
	}
	if err := set("c", each); err == nil || !strings.Contains(err.Error(), "what policies read") || m.bytes["acme"] != copyBytes {
		t.Errorf("a third one of two and a half: %v, and counts %d bytes", err, m.bytes["acme"])
	}
	begin()
	for _, name := range []string{"a", "b"} {
		if err := set(name, each); err != nil {
			t.Fatal(err)
		}
	}
	if c.Filled(); m.bytes["acme"] != copyBytes+2*each || m.shared["acme"] != m.bytes["acme"] {
		t.Errorf("it counts %d bytes, %d of them beside caches of its own, not %d", m.bytes["acme"], m.shared["acme"], copyBytes+2*each)
	}
	if err := set("c", each); err != nil {
		t.Errorf("what is there grows by what was written: %v", err)
	}
	if err := set("d", each); err == nil {
		t.Error("it grows by more than a quarter beyond the bound")
	}
	if err := set("c", 0); err != nil {
		t.Error(err)
	}
	begin()
	if err := set("b", each/4); err != nil || m.bytes["acme"] != copyBytes+2*each+each/4 {
		t.Errorf("what is read anew beside what there is counts, together, %d bytes (%v)", m.bytes["acme"], err)
	}
	if err := set("a", each); err == nil || m.bytes["acme"] != copyBytes+2*each {
		t.Errorf("all is read anew without room for both: %v, and counts %d bytes", err, m.bytes["acme"])
	}
	m.most += 4 * each
	begin()
	for _, name := range []string{"a", "b", "c"} {
		if err := set(name, each); err != nil {
			t.Errorf("%s, although there is room: %v", name, err)
		}
	}
	if c.Filled(); m.bytes["acme"] != copyBytes+3*each {
		t.Errorf("what was read anew, in place of what there was, counts %d bytes", m.bytes["acme"])
	}
	m.most -= 4 * each
	if err := set("a", 1); err != nil {
		t.Errorf("an object gets smaller: %v", err)
	}
	if err := set("b", 0); err != nil || m.bytes["acme"] != copyBytes+each+1 {
		t.Errorf("after one was deleted it counts %d bytes (%v)", m.bytes["acme"], err)
	}
	c.Forget()
	c.Forget()
	if err := set("late", 1); err != nil || m.all != 0 || len(m.bytes)+len(m.shared) != 0 {
		t.Errorf("without it, %v count %d (%v)", m.bytes, m.all, err)
	}
}

// TestCopiesOfAll checks that copies have no headroom, which is for objects, and that the system space has no bound.
func TestCopiesOfAll(t *testing.T) {
	m := New(0, 1<<30)
	c := m.NewCopy("acme")
	if err := c.Begin(); err != nil {
		t.Error(err)
	}
	m.addLocked("other", 1<<30)
	if err := c.Set(types.NamespacedName{Name: "a"}, 1); err == nil || !strings.Contains(err.Error(), "--tenant-cache-total-bytes") {
		t.Errorf("where all have used all, one is read: %v", err)
	}
	if c := m.NewCopy("system"); c != nil {
		t.Error("the system space has a bound")
	}
	var none *Budget
	if err := none.NewCopy("acme").Set(types.NamespacedName{Name: "a"}, 1); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}

// TestReaders checks that what reads a copy counts, without what it has read, and does not begin where there is no
// room.
func TestReaders(t *testing.T) {
	m := New(2*copyBytes, 0)
	one, other := m.NewCopy("acme"), m.NewCopy("acme")
	for range 2 { // and it begins again
		if err := one.Begin(); err != nil || m.bytes["acme"] != copyBytes+informerBytes {
			t.Errorf("two informers, of which one has a watch, count %d bytes: %v", m.bytes["acme"], err)
		}
	}
	m.most -= informerBytes
	if err := other.Begin(); err == nil || m.bytes["acme"] != copyBytes+informerBytes {
		t.Errorf("without room, another one begins, and %d bytes count", m.bytes["acme"])
	}
	other.Forget()
	if err := other.Begin(); err != nil || m.bytes["acme"] != copyBytes {
		t.Errorf("one that has been forgotten counts: %d bytes: %v", m.bytes["acme"], err)
	}
}

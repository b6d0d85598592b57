package sync

import "testing"

func TestReferences(t *testing.T) {
	r := newReferences()
	a, b := reference{configMapItem, "acme|shop", "a"}, reference{secretItem, "acme|shop", "a"}
	one, two := item{podItem, "acme", "acme|shop", "one"}, item{podItem, "acme", "acme|shop", "two"}
	r.set(one, []reference{a, b})
	r.set(two, []reference{a})
	if before := r.set(one, []reference{b}); len(before) != 2 || !r.has(a) || !r.has(b) {
		t.Errorf("it had %v", before)
	}
	r.set(two, nil)
	if r.has(a) || !r.has(b) {
		t.Error("what no pod names is named")
	}
	r.set(one, nil)
	if len(r.counts) != 0 || len(r.byItem) != 0 {
		t.Errorf("left are %v and %v", r.counts, r.byItem)
	}
}

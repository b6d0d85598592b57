package search

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestHeld checks who has no room, and who is ended, when all connections hold as much as they may.
func TestHeld(t *testing.T) {
	const mib = 1 << 20
	type client struct {
		tenant tenant.Name
		bytes  int64 // beside what a connection takes
	}
	for name, tc := range map[string]struct {
		before []client
		room   int64 // that is left
		enters tenant.Name
		grows  int64
		// ended is how many of those of each size are ended, and refused whether the new one is.
		ended   map[client]int
		refused bool
	}{
		"room":                           {[]client{{"acme", 6 * mib}, {"globex", mib}}, mib, "acme", mib / 2, nil, false},
		"who holds the most":             {[]client{{"acme", 6 * mib}, {"acme", 4 * mib}, {"globex", mib}}, 0, "acme", 0, nil, true},
		"who holds little":               {[]client{{"acme", 6 * mib}, {"acme", 5 * mib}}, 0, "globex", 0, map[client]int{{"acme", 6 * mib}: 1}, false},
		"who holds as much as others":    {[]client{{"acme", 5 * mib}, {"globex", 5 * mib}}, 0, "acme", 0, nil, true},
		"who begins to hold the most":    {[]client{{"acme", 2 * mib}, {"globex", 3 * mib}}, mib, "initech", 9 * mib, map[client]int{{"initech", 9 * mib}: 1}, false},
		"who grows beside one with more": {[]client{{"acme", 8 * mib}, {"globex", mib}}, mib, "initech", 2 * mib, map[client]int{{"acme", 8 * mib}: 1}, false},
		"who grows beside many":          {[]client{{"acme", 3 * mib}, {"acme", 3 * mib}, {"acme", 3 * mib}}, mib, "globex", 4 * mib, map[client]int{{"acme", 3 * mib}: 1}, false},
		"the largest of a tenant":        {[]client{{"acme", 2 * mib}, {"acme", 4 * mib}, {"acme", 3 * mib}}, mib, "globex", 2 * mib, map[client]int{{"acme", 4 * mib}: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, ended := held{most: tc.room}, map[client]int{}
			for _, c := range tc.before {
				h.most += c.bytes + connectionBytes
			}
			var open []*holder
			enter := func(c client) bool {
				o := h.enter(c.tenant, func() { ended[c]++ })
				if o == nil {
					return false
				}
				open = append(open, o)
				o.add(c.bytes)
				return true
			}
			for _, c := range tc.before {
				if !enter(c) {
					t.Fatal("one of those before is refused")
				}
			}
			if got := enter(client{tc.enters, tc.grows}); got == tc.refused {
				t.Errorf("it enters: %t", got)
			}
			if diff := cmp.Diff(tc.ended, ended, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("others are ended (-want +got):\n%s", diff)
			}
			if h.total() > h.most {
				t.Errorf("%d bytes are held", h.total())
			}
			for _, o := range open {
				o.add(-mib / 8)
				o.leave()
				o.leave()
			}
			if h.total() != 0 || len(h.tenant) != 0 || len(h.of) != 0 {
				t.Errorf("%d bytes are held by nobody", h.total())
			}
		})
	}
}

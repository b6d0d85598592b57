package keystone

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestNames(t *testing.T) {
	for _, tc := range []struct{ name, id, want string }{
		{"acme", acme, "acme-587964a412e5"},
		{"Web", web, "web-6bfde9b0e82b"},
		{"We/b", web, "we-b-6bfde9b0e82b"},
		{"  --a..b--  ", web, "a-b-6bfde9b0e82b"},
		{"Default", "default", "default-37a8eec1ce19"},
		{strings.Repeat("ü", 64), web, "x-6bfde9b0e82b"},
		{"", web, "x-6bfde9b0e82b"},
		{strings.Repeat("ab", 100), web, strings.Repeat("ab", 25) + "-6bfde9b0e82b"},
		{strings.Repeat("a", 49) + "/b", web, strings.Repeat("a", 49) + "-6bfde9b0e82b"},
		{"system", web, "system-6bfde9b0e82b"},
		{"a\x00b", "A_b@c.d", "a-b-bc99c4244271"},
	} {
		if got := nameOf(tc.name, tc.id); got != tc.want {
			t.Errorf("%q, %q: %q, want %q", tc.name, tc.id, got, tc.want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, name, id string) {
		got := nameOf(name, id)
		if n, err := tenant.Parse(got); err != nil || !n.IsSpace() || got != nameOf(name, id) {
			t.Errorf("%q, %q: %q, %v", name, id, got, err)
		}
	})
}

func TestNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	for i := range 20_000 {
		id := fmt.Sprintf("%032x", i*1_000_003)
		if i%2 == 0 {
			id = fmt.Sprint("chosen-", i)
		} else {
			id = id[20:] + id[:20]
		}
		got := nameOf("same", id)
		if other, ok := seen[got]; ok {
			t.Fatalf("%s and %s are both %s", id, other, got)
		}
		seen[got] = id
	}
}

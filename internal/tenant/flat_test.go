package tenant

import "testing"

func TestFlatten(t *testing.T) {
	for _, tc := range []struct {
		name       Name
		plain      string
		flat       string
		irrelevant bool // there is no way back
	}{
		{name: "acme", plain: "default", flat: "acme|default"},
		{name: "acme", plain: "", flat: "", irrelevant: true},
		{name: System, plain: "default", flat: "default"},
		{name: "", plain: "default", flat: "default", irrelevant: true},
	} {
		flat := Flatten(tc.name, tc.plain)
		if flat != tc.flat {
			t.Errorf("Flatten(%q, %q) = %q, want %q", tc.name, tc.plain, flat, tc.flat)
		}
		if n, plain := Unflatten(flat); !tc.irrelevant && (n != tc.name || plain != tc.plain) {
			t.Errorf("Unflatten(%q) = %q, %q, want %q, %q", flat, n, plain, tc.name, tc.plain)
		}
	}
}

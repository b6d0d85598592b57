package tenant

import "testing"

func TestFlatten(t *testing.T) {
	for _, tc := range []struct {
		name       Name
		plain      string
		flat       Flat
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
		if n, plain := flat.Split(); !tc.irrelevant && (n != tc.name || plain != tc.plain) {
			t.Errorf("%q splits into %q, %q, want %q, %q", flat, n, plain, tc.name, tc.plain)
		}
		if n, plain := flat.Split(); flat.Space() != n || flat.Plain() != plain {
			t.Errorf("%q is %q of %q, and splits into %q, %q", flat, flat.Plain(), flat.Space(), n, plain)
		}
	}
}

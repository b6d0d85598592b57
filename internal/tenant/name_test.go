package tenant

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

// FuzzParse checks that a name is one exactly if upstream takes it for a label, but for the
// reserved one.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "a", "acme", "a-b", "-a", "a-", "-", "A", "0", "a.b", "a_b", "a|b", "\xff", "ä", "a\n", "a\x00", "system", "all", "*",
		strings.Repeat("a", 63), strings.Repeat("a", 64),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := len(validation.IsDNS1123Label(s)) == 0 && s != "all"
		if n, err := Parse(s); (err == nil) != want || want && string(n) != s {
			t.Errorf("Parse(%q) = %q, %v", s, n, err)
		}
	})
}

// TestParse checks which names a Tenant may have, other than those of labels.
func TestParse(t *testing.T) {
	for name, valid := range map[string]bool{"acme": true, "system": true, "all": false, "*": false, "": false, "A": false} {
		if n, err := Parse(name); (err == nil) != valid || valid && string(n) != name {
			t.Errorf("Parse(%q) = %q, %v, want it to be valid: %t", name, n, err, valid)
		}
	}
}

package spacepolicy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestSeenPatterns checks that a tenant cannot have any number of patterns compiled, one
// definition after the other, and that patterns are counted once.
func TestSeenPatterns(t *testing.T) {
	var k seenPatterns
	add := func(n tenant.Name, pattern string, instructions int) error {
		return k.in(life{name: n})(pattern, instructions)
	}
	const each = 1000 - perPattern
	for i := range maxKept / 1000 {
		if err := add("a", fmt.Sprint("p", i), each); err != nil {
			t.Fatalf("pattern %d: %v", i, err)
		}
	}
	if err := add("a", "p7", each); err != nil {
		t.Errorf("a known pattern: %v", err)
	}
	if err := add("b", "one", 1); err != nil {
		t.Errorf("the first pattern of another tenant: %v", err)
	}
	if err := k.in(life{name: "a", uid: "later"})("one", 1); err != nil {
		t.Errorf("the first pattern of a later tenant of the name: %v", err)
	}
	if err := add("a", "one", 1); err == nil || !strings.Contains(err.Error(), "restart the server") {
		t.Errorf("one more pattern: %v", err)
	}
}

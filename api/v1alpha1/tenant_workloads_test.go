package v1alpha1

import (
	"strings"
	"testing"
)

func TestHasHostName(t *testing.T) {
	granted := []string{"example.com", "*.acme.example.com"}
	for name, want := range map[string]bool{
		"example.com": true, "shop.acme.example.com": true, "*.acme.example.com": true, strings.Repeat("a", 63) + ".acme.example.com": true,
		"acme.example.com": false, "a.shop.acme.example.com": false, "*.shop.acme.example.com": false, "shop.example.com": false, "*.example.com": false,
		"Shop.acme.example.com": false, "a_b.acme.example.com": false, "-.acme.example.com": false, ".acme.example.com": false, "": false, "*": false,
		strings.Repeat("a", 64) + ".acme.example.com": false,
	} {
		if got := HasHostName(granted, name); got != want {
			t.Errorf("%q is granted: %t, want %t", name, got, want)
		}
	}
	if HasHostName([]string{strings.Repeat("a.", 127) + "a"}, strings.Repeat("a.", 127)+"a") {
		t.Error("a name of 255 bytes is granted")
	}
}

package main

import "testing"

// TestGrown checks what a bench of idle tenants fails for.
func TestGrown(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after int64
		tenants       int
		fails         bool
	}{
		"nothing":                    {before: 250, after: 250, tenants: 2000},
		"less than there is noise":   {before: 250, after: 250 + noise, tenants: 100},
		"one for each tenant":        {before: 250, after: 2250, tenants: 2000, fails: true},
		"one for each of few":        {before: 250, after: 350, tenants: 100, fails: true},
		"one for a tenth":            {before: 250, after: 451, tenants: 2000, fails: true},
		"some, beside many that are": {before: 250, after: 320, tenants: 2000},
	} {
		t.Run(name, func(t *testing.T) {
			if err := grown([]held{{"same", 1}, {"goroutines", tc.before}}, []held{{"same", 1}, {"goroutines", tc.after}}, tc.tenants); (err != nil) != tc.fails {
				t.Errorf("got %v", err)
			}
		})
	}
}

package process

import "testing"

func TestSettings(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		options Options
		cores   int
		perCore int
		garbage uint64
	}{
		"one core":            {options: NewOptions(), cores: 1, perCore: 2, garbage: 512 * mib},
		"two cores":           {options: NewOptions(), cores: 2, perCore: 2, garbage: 512 * mib},
		"more cores":          {options: NewOptions(), cores: 3, perCore: 1},
		"Go's own":            {options: Options{ProcessorsPerCore: 1}, cores: 2, perCore: 1},
		"more, on many cores": {options: Options{ProcessorsPerCore: 3, GarbageBytes: mib}, cores: 64, perCore: 3, garbage: mib},
	} {
		t.Run(name, func(t *testing.T) {
			if perCore, garbage := tc.options.settings(tc.cores); perCore != tc.perCore || garbage != tc.garbage {
				t.Errorf("got %d processors for each core and %d bytes of garbage, want %d and %d", perCore, garbage, tc.perCore, tc.garbage)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		valid   bool
	}{
		"defaults":                 {options: NewOptions(), valid: true},
		"the bounds":               {options: Options{ProcessorsPerCore: 8, GarbageBytes: 1 << 40}, valid: true},
		"fewer than no processors": {options: Options{ProcessorsPerCore: -1}},
		"too many processors":      {options: Options{ProcessorsPerCore: 9}},
		"less than Go's garbage":   {options: Options{GarbageBytes: -2}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.options.Validate(); (err == nil) != tc.valid {
				t.Errorf("got error %v, want it valid: %t", err, tc.valid)
			}
		})
	}
}

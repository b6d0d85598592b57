package usage

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestValidateOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		want    string
	}{
		"defaults": {options: NewOptions()},
		"nothing":  {},
		"negative": {
			options: Options{Tenants: -1, Period: -time.Second},
			want:    "--tenant-metrics-limit: -1 is negative\n--tenant-usage-period: -1s is less than 10ms; 0 is never",
		},
		"a typo": {options: Options{Period: 60}, want: "--tenant-usage-period: 60ns is less than 10ms; 0 is never"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := errors.Join(tc.options.Validate()...); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

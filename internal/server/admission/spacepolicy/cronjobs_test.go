package spacepolicy

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/batch"

	"github.com/tenantry/tenantry/internal/tenant"
)

func TestCheckSchedule(t *testing.T) {
	of := func(bytes int) *batch.CronJob {
		return &batch.CronJob{Spec: batch.CronJobSpec{Schedule: strings.Repeat("0", bytes)}}
	}
	for name, tc := range map[string]struct {
		object, old runtime.Object
		space       tenant.Name
		refused     bool
	}{
		"longest":          {object: of(maxScheduleBytes), space: "a"},
		"too long":         {object: of(maxScheduleBytes + 1), space: "a", refused: true},
		"as long before":   {object: of(maxScheduleBytes + 1), old: of(maxScheduleBytes + 1), space: "a"},
		"longer":           {object: of(maxScheduleBytes + 2), old: of(maxScheduleBytes + 1), space: "a", refused: true},
		"the system space": {object: of(maxScheduleBytes + 1), space: tenant.System},
	} {
		t.Run(name, func(t *testing.T) {
			err := validated(t, tc.space, batch.SchemeGroupVersion.WithKind("CronJob"), "cronjobs", tc.object, tc.old)
			if refused := err != nil && strings.Contains(err.Error(), "bytes, and that of a CronJob in a space at most"); refused != tc.refused || err != nil && !refused {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}

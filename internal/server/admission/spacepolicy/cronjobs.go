package spacepolicy

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/batch"
)

// maxScheduleBytes is several times what a schedule has that lists each minute and hour.
const maxScheduleBytes = 1_000

// checkSchedule refuses CronJobs with very long schedules, which the controller parses each
// time that it looks at them. One that was as long before can be changed.
func checkSchedule(a admission.Attributes) error {
	bytes := scheduleBytes(a.GetObject())
	if bytes <= max(maxScheduleBytes, scheduleBytes(a.GetOldObject())) {
		return nil
	}
	return forbidden(a, fmt.Sprintf("its schedule has %d bytes, and that of a CronJob in a space at most %d; make several CronJobs of it", bytes, maxScheduleBytes))
}

func scheduleBytes(obj runtime.Object) int {
	if cronJob, ok := obj.(*batch.CronJob); ok {
		return len(cronJob.Spec.Schedule)
	}
	return 0
}

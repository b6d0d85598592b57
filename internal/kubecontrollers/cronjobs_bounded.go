package kubecontrollers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	batchclient "k8s.io/client-go/kubernetes/typed/batch/v1"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/util/parsers"
)

const (
	// scheduleSpan is how long before the most recent time of its schedule a CronJob is
	// shown to have been scheduled. It has 10,080 minutes.
	scheduleSpan = 7 * 24 * time.Hour
	// maxUnknownActive is how many Jobs that the controller asks the server for a CronJob
	// may have in its status.
	maxUnknownActive = 100
)

// cronJobBounds shows CronJobs to upstream's controller so that it looks at each for a
// little time, whatever their status says. A status is its tenant's to
// write. The controller walks from the last time that a CronJob was scheduled to the present,
// from time to time of the schedule: from the year 2 that takes hours, and from the year 2097
// for ever, if the schedule has the 29th of February alone.
type cronJobBounds struct {
	jobs batchlisters.JobLister
	now  func() time.Time
}

func (b cronJobBounds) shown(cronJob *batchv1.CronJob) *batchv1.CronJob {
	last, active := lastScheduled(cronJob, b.now()), b.active(cronJob)
	if last == cronJob.Status.LastScheduleTime && slices.Equal(active, cronJob.Status.Active) {
		return cronJob
	}
	bounded := *cronJob
	bounded.Status.LastScheduleTime, bounded.Status.Active = last, active
	return &bounded
}

// lastScheduled returns when a CronJob was last scheduled: never before it was created, nor
// in the future, nor long before the most recent time of its schedule.
func lastScheduled(cronJob *batchv1.CronJob, now time.Time) *metav1.Time {
	last, from := cronJob.Status.LastScheduleTime, cronJob.CreationTimestamp.Time
	if last != nil {
		if last.Time.Before(from) {
			last = &metav1.Time{Time: from}
		}
		if last.After(now) {
			last = &metav1.Time{Time: now}
		}
		from = last.Time
	}
	if now.Sub(from) <= scheduleSpan {
		return last
	}
	schedule, err := parsers.ParseCronScheduleWithPanicRecovery(scheduleOf(cronJob))
	if err != nil {
		return last
	}
	// The times of others (@every) depend on the last one. The controller calculates these.
	calendar, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return last
	}
	if near := beforeMostRecent(calendar, from, now).Add(-scheduleSpan); near.After(from) {
		return &metav1.Time{Time: near}
	}
	return last
}

// beforeMostRecent returns a time at most a minute before the most recent time of a schedule,
// or from if the schedule has none since then.
func beforeMostRecent(schedule cron.Schedule, from, now time.Time) time.Time {
	until := now
	hasTimeSince := func(t time.Time) bool {
		next := schedule.Next(t)
		return !next.IsZero() && !next.After(now)
	}
	if !hasTimeSince(from) {
		return from
	}
	for until.Sub(from) > time.Minute {
		if middle := from.Add(until.Sub(from) / 2); hasTimeSince(middle) {
			from = middle
		} else {
			until = middle
		}
	}
	return from
}

// scheduleOf returns the schedule of a CronJob with its time zone, as the controller does.
func scheduleOf(cronJob *batchv1.CronJob) string {
	zone := cronJob.Spec.TimeZone
	if zone == nil || strings.Contains(cronJob.Spec.Schedule, "TZ") {
		return cronJob.Spec.Schedule
	}
	return fmt.Sprintf("TZ=%s %s", *zone, cronJob.Spec.Schedule)
}

// active returns the Jobs in the status of a CronJob. Each is there once, and few of those that
// are not known: the controller asks the server for these.
func (b cronJobBounds) active(cronJob *batchv1.CronJob) []corev1.ObjectReference {
	var active []corev1.ObjectReference
	unknown, seen := 0, sets.New[types.UID]()
	for _, ref := range cronJob.Status.Active {
		if seen.Has(ref.UID) {
			continue
		}
		seen.Insert(ref.UID)
		if job, err := b.jobs.Jobs(cronJob.Namespace).Get(ref.Name); err != nil || job.UID != ref.UID {
			if unknown++; unknown > maxUnknownActive {
				continue
			}
		}
		active = append(active, ref)
	}
	return active
}

// offered returns what the controller is offered.
func (b cronJobBounds) offered(all offered[batchlisters.CronJobLister]) offered[batchlisters.CronJobLister] {
	shown := mapped[*batchv1.CronJob]{all.informer, b.shown}
	return offered[batchlisters.CronJobLister]{boundedCronJobInformer(all.informer, b), batchlisters.NewCronJobLister(shown.GetIndexer())}
}

// boundedCronJobInformer is for the handler, which calculates the next time of a changed
// schedule.
func boundedCronJobInformer(informer cache.SharedIndexInformer, bounds cronJobBounds) wrapping {
	return wrapping{informer, func(handler cache.ResourceEventHandler) cache.ResourceEventHandler {
		return cache.ResourceEventHandlerDetailedFuncs{
			AddFunc:    handler.OnAdd,
			DeleteFunc: handler.OnDelete,
			UpdateFunc: func(old, obj any) {
				if cronJob, ok := obj.(*batchv1.CronJob); ok {
					obj = bounds.shown(cronJob)
				}
				handler.OnUpdate(old, obj)
			},
		}
	}}
}

// boundedCronJobClient is for when the controller asks whether a status is newer than what
// it has seen.
type boundedCronJobClient struct {
	kubernetes.Interface
	bounds cronJobBounds
}

// BatchV1 implements kubernetes.Interface.
func (c boundedCronJobClient) BatchV1() batchclient.BatchV1Interface {
	return boundedCronJobBatch{c.Interface.BatchV1(), c.bounds}
}

type boundedCronJobBatch struct {
	batchclient.BatchV1Interface
	bounds cronJobBounds
}

// CronJobs implements batchclient.CronJobsGetter.
func (c boundedCronJobBatch) CronJobs(namespace string) batchclient.CronJobInterface {
	return boundedCronJobsIn{c.BatchV1Interface.CronJobs(namespace), c.bounds}
}

type boundedCronJobsIn struct {
	batchclient.CronJobInterface
	bounds cronJobBounds
}

// Get implements batchclient.CronJobInterface.
func (c boundedCronJobsIn) Get(ctx context.Context, name string, opts metav1.GetOptions) (*batchv1.CronJob, error) {
	cronJob, err := c.CronJobInterface.Get(ctx, name, opts)
	if err != nil {
		return nil, err
	}
	return c.bounds.shown(cronJob), nil
}

package kubecontrollers

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/util/parsers"
	"k8s.io/utils/ptr"
)

var present = time.Date(2026, 5, 31, 12, 0, 30, 0, time.UTC)

func cronJobOf(schedule string, created time.Time, last *time.Time) *batchv1.CronJob {
	cronJob := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a|default", Name: "nightly", CreationTimestamp: metav1.Time{Time: created}},
		Spec:       batchv1.CronJobSpec{Schedule: schedule},
	}
	if last != nil {
		cronJob.Status.LastScheduleTime = &metav1.Time{Time: *last}
	}
	return cronJob
}

func newCronJobBounds(t *testing.T) (offered[batchlisters.CronJobLister], cronJobBounds, cache.Store) {
	t.Helper()
	views := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Batch().V1()
	bounds := cronJobBounds{views.Jobs().Lister(), func() time.Time { return present }}
	return offered[batchlisters.CronJobLister]{views.CronJobs().Informer(), views.CronJobs().Lister()}, bounds, views.Jobs().Informer().GetStore()
}

// TestScheduleIsShort checks how many times a schedule has from where the controller begins
// to look, and that the most recent one stays what it is.
func TestScheduleIsShort(t *testing.T) {
	const most = int(scheduleSpan/time.Minute) + 1
	hour, year := present.Add(-time.Hour), present.AddDate(-1, 0, 0)
	longAgo, future := time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2097, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		schedule string
		zone     *string
		created  time.Time
		last     *time.Time
		// same is whether the status is shown as it is, recent the most recent time.
		same   bool
		recent time.Time
	}{
		"recent":              {schedule: "0 * * * *", created: year, last: &hour, same: true, recent: present.Truncate(time.Hour)},
		"never":               {schedule: "0 * * * *", created: hour, same: true, recent: present.Truncate(time.Hour)},
		"before its creation": {schedule: "@every 1s", created: hour, last: &longAgo, recent: present},
		"in the future":       {schedule: "0 0 29 2 *", created: hour, last: &future},
		"suspended for years": {schedule: "* * * * *", created: longAgo, recent: present.Truncate(time.Minute)},
		"a zone":              {schedule: "0 0 * * *", zone: ptr.To("Asia/Tokyo"), created: year, recent: time.Date(2026, 5, 30, 15, 0, 0, 0, time.UTC)},
		"in some months":      {schedule: "* * * 1-4 *", created: longAgo, recent: time.Date(2026, 4, 30, 23, 59, 0, 0, time.UTC)},
		"once a year":         {schedule: "0 0 1 1 *", created: year, same: false, recent: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		"on no day":           {schedule: "0 0 30 2 *", created: longAgo, same: true},
		"not one":             {schedule: "* *", created: longAgo, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			views, bounds, _ := newCronJobBounds(t)
			cronJob := cronJobOf(tc.schedule, tc.created, tc.last)
			cronJob.Spec.TimeZone = tc.zone
			if err := views.informer.GetStore().Add(cronJob); err != nil {
				t.Fatal(err)
			}
			shown, err := bounds.offered(views).lister.CronJobs(cronJob.Namespace).Get(cronJob.Name)
			if err != nil {
				t.Fatal(err)
			}
			if same := shown == cronJob; same != tc.same {
				t.Errorf("shown as it is: %v, want %v", same, tc.same)
			}
			schedule, err := parsers.ParseCronScheduleWithPanicRecovery(scheduleOf(shown))
			if err != nil {
				return
			}
			from := shown.CreationTimestamp.Time
			if shown.Status.LastScheduleTime != nil {
				from = shown.Status.LastScheduleTime.Time
			}
			steps, recent := 0, time.Time{}
			for next := schedule.Next(from); !next.IsZero() && !next.After(present); next = schedule.Next(next) {
				if recent = next; steps == most {
					t.Fatalf("more than %d times since %s", most, from)
				}
				steps++
			}
			if !recent.Equal(tc.recent) {
				t.Errorf("the most recent time is %s, want %s", recent, tc.recent)
			}
		})
	}
}

// TestChangedScheduleIsShort checks what the handler of the controller is told.
func TestChangedScheduleIsShort(t *testing.T) {
	views, bounds, _ := newCronJobBounds(t)
	longAgo := time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC)
	var told *batchv1.CronJob
	recorder := &recordingInformer{SharedIndexInformer: views.informer}
	informer := boundedCronJobInformer(recorder, bounds)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) { told = obj.(*batchv1.CronJob) }}); err != nil {
		t.Fatal(err)
	}
	cronJob := cronJobOf("@every 1s", present, &longAgo)
	recorder.handler.OnUpdate(cronJob, cronJob)
	if told == nil || !told.Status.LastScheduleTime.Time.Equal(present) {
		t.Errorf("the handler is told %v", told)
	}
}

type recordingInformer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *recordingInformer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return nil, nil
}

// TestAskedCronJobIsShort checks what the controller gets from the server itself.
func TestAskedCronJobIsShort(t *testing.T) {
	_, bounds, _ := newCronJobBounds(t)
	longAgo := time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC)
	cronJob := cronJobOf("@every 1s", present, &longAgo)
	client := boundedCronJobClient{fake.NewClientset(cronJob), bounds}
	got, err := client.BatchV1().CronJobs(cronJob.Namespace).Get(t.Context(), cronJob.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !got.Status.LastScheduleTime.Time.Equal(present) {
		t.Errorf("scheduled at %s", got.Status.LastScheduleTime)
	}
}

// TestActiveJobs checks for how many Jobs of a status the controller may ask the server.
func TestActiveJobs(t *testing.T) {
	_, bounds, jobs := newCronJobBounds(t)
	cronJob := cronJobOf("0 * * * *", present, nil)
	refer := func(name string) {
		cronJob.Status.Active = append(cronJob.Status.Active, corev1.ObjectReference{Namespace: cronJob.Namespace, Name: name, UID: types.UID(name)})
	}
	for i := range maxUnknownActive + 10 {
		refer(fmt.Sprintf("unknown-%d", i))
	}
	for i := range maxUnknownActive + 10 {
		name := fmt.Sprintf("known-%d", i)
		refer(name)
		refer(name)
		if err := jobs.Add(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: cronJob.Namespace, Name: name, UID: types.UID(name)}}); err != nil {
			t.Fatal(err)
		}
	}
	shown := map[string]int{}
	for _, ref := range bounds.shown(cronJob).Status.Active {
		shown[ref.Name[:len("known")]]++
	}
	if diff := cmp.Diff(map[string]int{"known": maxUnknownActive + 10, "unkno": maxUnknownActive}, shown); diff != "" {
		t.Errorf("Jobs (-want +got):\n%s", diff)
	}
}

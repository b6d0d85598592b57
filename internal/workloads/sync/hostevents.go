package sync

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/process/ratelimit"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// eventsPerMinute is how many events of the host a space gets in a minute, and how many of the syncer itself.
	eventsPerMinute = 300
	// eventAge is how old an event may be that a syncer copies when it starts.
	eventAge = time.Minute
)

// hostEvents are events of the host, as a Reflector reads them, that are to be copied into spaces. None stays here
// after that.
type hostEvents struct {
	limits *ratelimit.Limits[tenant.Name]

	// pending are forgotten when they are done, unless another version of them has come.
	pending keyed.Values[item, *corev1.Event]
}

// newEventLimits returns the limits of how many events each tenant gets.
func newEventLimits() *ratelimit.Limits[tenant.Name] {
	return &ratelimit.Limits[tenant.Name]{PerSecond: rate.Limit(eventsPerMinute) / 60, AtOnce: eventsPerMinute}
}

// watchEvents watches the host's events of pods until ctx ends.
func (s *syncer) watchEvents(ctx context.Context) {
	lw := cache.NewListWatchFromClient(s.host.CoreV1().RESTClient(), "events", metav1.NamespaceAll, fields.OneTermEqualSelector("involvedObject.kind", "Pod"))
	cache.NewReflector(lw, &corev1.Event{}, eventStore{s}, 0).RunWithContext(ctx)
}

// eventSeen has an event looked at if it is about a pod of a space.
func (s *syncer) eventSeen(event *corev1.Event) {
	about := event.InvolvedObject
	host, err := cached[corev1.Pod](s.hostCaches.pods, about.Namespace+"/"+about.Name)
	if err != nil || host == nil {
		return
	}
	n, _, ok := s.hostCaches.ours(host)
	if !ok || host.UID != about.UID || s.events.limits.Take(s.clock.Now(), n.Tenant, 1) > 0 {
		return
	}
	i := itemFor(eventItem, n.Flat(), string(event.UID))
	s.events.pending.Set(i, event)
	s.queue.Add(i)
}

// syncEvent tells of an event of the host in the space of its pod.
func (s *syncer) syncEvent(ctx context.Context, i item) error {
	event := s.events.pending.Get(i)
	if event == nil {
		return nil
	}
	done := func() { s.events.pending.DeleteIf(i, func(now *corev1.Event) bool { return now == event }) }
	pod, err := s.pods.Pods(i.namespace.String()).Get(event.InvolvedObject.Name)
	host, indexErr := cached[corev1.Pod](s.hostCaches.pods, event.InvolvedObject.Namespace+"/"+event.InvolvedObject.Name)
	if err != nil || indexErr != nil || host == nil || uidOf(host) != pod.UID {
		done()
		return nil // the pod is gone
	}
	of, _, ok := s.hostCaches.ours(host)
	if !ok {
		done()
		return nil
	}
	err = s.putEvent(ctx, eventIn(event, host, pod, of))
	switch {
	case apierrors.IsTooManyRequests(err): // more than the space keeps for now
		// Each attempt counts, or a space that stays full would have ever more of them here.
		if s.events.limits.Take(s.clock.Now(), i.tenant, 1) == 0 {
			s.queue.AddAfter(i, unrecordedTime)
			return nil
		}
	case err != nil:
		return err
	}
	done()
	return nil
}

// eventIn returns an event of the host as it is in the space.
func eventIn(event *corev1.Event, host, pod *corev1.Pod, of names.Namespace) *corev1.Event {
	shown := translate.Event(event, host, pod, of)
	shown.ObjectMeta = metav1.ObjectMeta{Name: "tn-" + names.Digest(string(event.UID)), Namespace: pod.Namespace}
	shown.InvolvedObject = corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, FieldPath: shown.InvolvedObject.FieldPath,
	}
	shown.Message = shortened(shown.Message)
	return &shown
}

// putEvent creates an event, or says how often it has come again.
func (s *syncer) putEvent(ctx context.Context, event *corev1.Event) error {
	client := s.spaces.CoreV1().Events(event.Namespace)
	_, err := client.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		patch := fmt.Sprintf(`{"count":%d,"lastTimestamp":%q}`, event.Count, event.LastTimestamp.UTC().Format(time.RFC3339))
		_, err = client.Patch(ctx, event.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		klog.FromContext(ctx).V(2).Info("A space does not take what the host says of a pod", "namespace", event.Namespace, "pod", event.InvolvedObject.Name, "reason", event.Reason, "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("telling of the pod: %w", err)
	}
	return nil
}

// eventStore is where a Reflector puts the host's events.
type eventStore struct{ *syncer }

var _ cache.ReflectorStore = eventStore{}

// Add implements cache.ReflectorStore.
func (e eventStore) Add(obj any) error {
	e.eventSeen(obj.(*corev1.Event))
	return nil
}

// Update implements cache.ReflectorStore.
func (e eventStore) Update(obj any) error { return e.Add(obj) }

// Delete implements cache.ReflectorStore.
func (e eventStore) Delete(any) error { return nil }

// Replace implements cache.ReflectorStore. Old events have been copied before.
func (e eventStore) Replace(all []any, _ string) error {
	for _, obj := range all {
		event := obj.(*corev1.Event)
		if e.clock.Since(translate.LastSeen(event).Time) < eventAge {
			e.eventSeen(event)
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (e eventStore) Resync() error { return nil }

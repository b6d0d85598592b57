package sync

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilcache "k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// reasonDeleting is the reason of the event that a deleted tenant's namespaces go from the host, and reasonDeleted
	// of the receipt that none is left, by which the first one goes.
	reasonDeleting = "WorkloadsDeleting"
	reasonDeleted  = "WorkloadsDeleted"
	// reasonKept is that of the event that one of them stays, in the place of the first.
	reasonKept = "WorkloadsKept"
	// sayAgain is how often the event is written that namespaces go, or stay, which expires after an hour.
	sayAgain = 30 * time.Minute
	// receiptDelay is how long after its Tenant has gone the host is asked: a worker that knew the Tenant may have been
	// making a namespace.
	receiptDelay = workTimeout + requestTimeout
	// endingName is the ConfigMap of the system space with what a restart knows of it, by UIDs: the tenant's name, and
	// how many namespaces there were. Events would not do: they expire, and tenants choose what a list of them costs.
	endingName = "tenantry-syncer-ending"
	// maxEnding is how many it has at most, some 50 KB. Of others a restart knows if they still have a namespace.
	maxEnding = 500
)

// endings say, in events, what becomes of what deleted tenants have on the host.
type endings struct {
	spaces, host kubernetes.Interface
	installation string
	tenants      cache.SharedIndexInformer
	caches       *hostCaches
	queue        *queue
	// said are the events that were written of late.
	said *utilcache.LRUExpireCache

	// going are deleted tenants whose namespaces go from the host, by their UIDs. Of others nothing is known here, so
	// that those who had none cost nothing.
	going keyed.Values[types.UID, endingTenant]
	// read is whether what an earlier syncer has noted is among them.
	read atomic.Bool
	// without says since when there has been no Tenant, by UIDs.
	without *idleSince
	// kept is why a namespace of the host stays, by its name.
	kept keyed.Values[string, string]
}

func newEndings(c clients, tenants cache.SharedIndexInformer, onHost *hostCaches, q *queue, now clock.PassiveClock) *endings {
	return &endings{
		spaces: c.spaces, host: c.host, installation: c.installation, tenants: tenants, caches: onHost, queue: q,
		said: utilcache.NewLRUExpireCacheWithClock(maxRecentEvents, now), without: newIdleSince(now, receiptDelay),
	}
}

// endingTenant is how many namespaces there were, and whether a restart knows that.
type endingTenant struct {
	there int
	noted bool
}

// enqueue has a tenant looked at again, if its namespaces go.
func (e *endings) enqueue(n tenant.Name, uid types.UID) {
	if e.going.Get(uid).there > 0 {
		e.queue.Add(item{kind: receiptItem, tenant: n, name: string(uid)})
	}
}

// note notes, before the first namespace of a tenant that is being deleted goes, that they do. If a restart
// cannot be told, they go nevertheless, and that is tried again with the receipt.
func (e *endings) note(ctx context.Context, of names.Namespace) error {
	t, err := tenantIn(e.tenants, of.Tenant)
	if err != nil || t != nil && t.UID == of.TenantUID && t.DeletionTimestamp == nil {
		return err
	}
	if err := e.readNotes(ctx); err != nil || e.going.Get(of.TenantUID).there > 0 {
		return err
	}
	there, err := e.namespacesOf(of.Tenant, of.TenantUID)
	if err != nil {
		return err
	}
	e.going.Set(of.TenantUID, endingTenant{there: max(1, len(there))}) // the cache may not have it any more
	if err := e.storeNote(ctx, of.Tenant, of.TenantUID); err != nil {
		klog.FromContext(ctx).V(2).Info("Trying again later", "err", err)
	}
	e.enqueue(of.Tenant, of.TenantUID)
	return nil
}

// keep notes that a namespace of a deleted tenant stays on the host.
func (e *endings) keep(of names.Namespace, host string, why error) {
	if e.kept.Set(host, why.Error()) == "" {
		e.enqueue(of.Tenant, of.TenantUID)
	}
}

// namespacesOf returns the namespaces on the host that the caches know of one life of a tenant.
func (e *endings) namespacesOf(n tenant.Name, uid types.UID) ([]*corev1.Namespace, error) {
	all, err := e.caches.namespacesOfTenant(n)
	return slices.DeleteFunc(all, func(namespace *corev1.Namespace) bool {
		of, _ := namespaceOf(namespace)
		return of.TenantUID != uid
	}), err
}

// readNotes reads, once, what an earlier syncer has noted.
func (e *endings) readNotes(ctx context.Context) error {
	if e.read.Load() {
		return nil
	}
	found, err := orNil(e.spaces.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, endingName, metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("reading which deleted tenants still have namespaces on the host: %w", err)
	}
	if found != nil {
		for uid, value := range found.Data {
			n, count, _ := strings.Cut(value, " ")
			if there, err := strconv.Atoi(count); err == nil {
				e.going.GetOrSet(types.UID(uid), endingTenant{there: there, noted: true})
				e.enqueue(tenant.Name(n), types.UID(uid))
			}
		}
	}
	e.read.Store(true)
	return nil
}

// storeNote has a restart know what is noted of a tenant, unless it does, or has to know of too many.
func (e *endings) storeNote(ctx context.Context, n tenant.Name, uid types.UID) error {
	of := e.going.Get(uid)
	if of.noted || e.going.Len() > maxEnding {
		return nil
	}
	if err := e.writeNote(ctx, n, uid, new(fmt.Sprintf("%s %d", n, of.there))); err != nil {
		return err
	}
	of.noted = true
	e.going.Set(uid, of)
	return nil
}

// writeNote writes what a restart knows of a tenant, nil for nothing.
func (e *endings) writeNote(ctx context.Context, n tenant.Name, uid types.UID, value *string) error {
	patch, err := json.Marshal(map[string]any{"data": map[types.UID]*string{uid: value}})
	if err != nil {
		return err
	}
	client := e.spaces.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	_, err = client.Patch(ctx, endingName, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsNotFound(err) {
		if err = nil; value != nil {
			first := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: endingName}, Data: map[string]string{string(uid): *value}}
			_, err = client.Create(ctx, first, metav1.CreateOptions{FieldManager: fieldManager})
		}
	}
	if err != nil {
		return fmt.Errorf("noting in the ConfigMap %s/%s what tenant %q has on the host: %w", metav1.NamespaceSystem, endingName, n, err)
	}
	return nil
}

// sync records that nothing of a deleted tenant is on the host any more, and until then that something is. An
// item without a name stands for what an earlier syncer has noted.
func (e *endings) sync(ctx context.Context, i item) error {
	uid := types.UID(i.name)
	if uid == "" {
		return e.readNotes(ctx)
	}
	of := e.going.Get(uid)
	if of.there == 0 {
		return nil
	}
	stored := e.storeNote(ctx, i.tenant, uid)
	t, err := tenantIn(e.tenants, i.tenant)
	there, countErr := e.namespacesOf(i.tenant, uid)
	if err := errors.Join(err, countErr); err != nil {
		return err
	}
	wait, ended := sayAgain, false
	if t == nil || t.UID != uid {
		left := e.without.left(string(uid))
		if ended = left <= 0; !ended {
			wait = left
		}
	}
	if !ended || len(there) > 0 {
		e.queue.AddAfter(i, wait)
		return errors.Join(stored, e.say(ctx, i.tenant, uid, there))
	}
	return errors.Join(stored, e.writeReceipt(ctx, i.tenant, uid, of.there))
}

// say records that the namespaces of a deleted tenant go, of which some are there, or why one of them stays.
func (e *endings) say(ctx context.Context, n tenant.Name, uid types.UID, there []*corev1.Namespace) error {
	slices.SortFunc(there, func(a, b *corev1.Namespace) int { return strings.Compare(a.Name, b.Name) }) // it is the same one each time
	for _, namespace := range there {
		if why := e.kept.Get(namespace.Name); why != "" {
			event := tenantEvent(n, uid, reasonKept, shortened(why))
			event.Type = corev1.EventTypeWarning
			return e.renewEvent(ctx, event, tenantEvent(n, uid, reasonDeleting, ""))
		}
	}
	event := tenantEvent(n, uid, reasonDeleting, fmt.Sprintf("namespaces of the tenant on the host cluster are being deleted: %d", e.going.Get(uid).there))
	return e.renewEvent(ctx, event, tenantEvent(n, uid, reasonKept, ""))
}

// writeReceipt records that none of so many namespaces of a deleted tenant is on the host. That is asked itself: a
// cache may not know yet what was made last.
func (e *endings) writeReceipt(ctx context.Context, n tenant.Name, uid types.UID, there int) error {
	left, err := e.host.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		Limit: 1, LabelSelector: labels.Set{names.InstallationLabel: e.installation, names.TenantUIDLabel: string(uid)}.String(),
	})
	if err != nil {
		return fmt.Errorf("looking whether the host has namespaces of tenant %q: %w", n, err)
	}
	if len(left.Items) > 0 {
		return fmt.Errorf("the cache of the host's namespaces is behind: there is %q", left.Items[0].Name)
	}
	receipt := tenantEvent(n, uid, reasonDeleted, fmt.Sprintf("of the tenant's namespaces on the host cluster (%d), none is left", there))
	if err := errors.Join(e.writeEvent(ctx, receipt), e.writeNote(ctx, n, uid, nil)); err != nil {
		return err
	}
	for _, reason := range []string{reasonDeleting, reasonKept} {
		if err := e.deleteEvent(ctx, tenantEvent(n, uid, reason, "")); err != nil {
			return err
		}
	}
	klog.FromContext(ctx).Info("Of the namespaces of a deleted tenant on the host cluster, none is left", "tenant", n, "uid", uid, "namespaces", there)
	e.going.Delete(uid)
	e.without.Delete(string(uid))
	return nil
}

const tenantKind = "Tenant"

// tenantEvent returns an event about one life of a tenant, of which it has one for each reason.
func tenantEvent(n tenant.Name, uid types.UID, reason, note string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%s.%s", n, uid, reasonNames[reason])},
		EventTime:           metav1.NowMicro(),
		ReportingController: component, ReportingInstance: component,
		Type: corev1.EventTypeNormal, Reason: reason, Action: "Delete", Note: note,
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: tenantKind, Name: string(n), UID: uid},
	}
}

var reasonNames = map[string]string{reasonDeleting: "workloads-deleting", reasonDeleted: "workloads-deleted", reasonKept: "workloads-kept"}

// renewEvent records an event in the place of an earlier one of its name, which says something else, or expires, and of
// another one that is not so any more. What events of events.k8s.io say cannot be changed.
func (e *endings) renewEvent(ctx context.Context, event, over *eventsv1.Event) error {
	if said, ok := e.said.Get(event.Name); ok && said == event.Note {
		return nil
	}
	if err := errors.Join(e.deleteEvent(ctx, event), e.deleteEvent(ctx, over)); err != nil {
		return err
	}
	if err := e.writeEvent(ctx, event); err != nil {
		return err
	}
	e.said.Add(event.Name, event.Note, sayAgain/2)
	return nil
}

// deleteEvent deletes an event about a tenant, if there is one.
func (e *endings) deleteEvent(ctx context.Context, event *eventsv1.Event) error {
	if err := e.spaces.EventsV1().Events(event.Namespace).Delete(ctx, event.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting what was noted of tenant %q: %w", event.Regarding.Name, err)
	}
	e.said.Remove(event.Name)
	return nil
}

// writeEvent records an event, unless it has been recorded.
func (e *endings) writeEvent(ctx context.Context, event *eventsv1.Event) error {
	_, err := e.spaces.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recording of tenant %q: %w", event.Regarding.Name, err)
	}
	return nil
}

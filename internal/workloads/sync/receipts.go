package sync

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// reasonDeleting is the reason of the event that a deleted tenant's namespaces go from the host, and reasonDeleted
	// of the receipt that none is left. The first one is what a restart knows of it, and goes when there is the other
	// one.
	reasonDeleting = "WorkloadsDeleting"
	reasonDeleted  = "WorkloadsDeleted"
	// namespacesAnnotation is on the first one, with how many there were.
	namespacesAnnotation = names.Prefix + "namespaces"
)

// endingTenants are deleted tenants whose namespaces go from the host, by their UIDs, with how many there were. Of
// others nothing is known here, so that those who had none cost nothing.
type endingTenants struct {
	keyed.Values[types.UID, int]
}

// hostNamespaceGone has the receipt of a tenant written, if it was the last one.
func (s *syncer) hostNamespaceGone(obj any, _ bool) {
	s.hostNamespaceChanged(obj)
	if of, ok := namespaceOf(obj.(*corev1.Namespace)); ok {
		s.enqueueReceipt(of.Tenant, of.TenantUID)
	}
}

func (s *syncer) enqueueReceipt(n tenant.Name, uid types.UID) {
	if s.ending.Get(uid) > 0 {
		s.queue.Add(item{kind: receiptItem, tenant: n, name: string(uid)})
	}
}

// noteEnding notes, before the first namespace of a tenant that is being deleted goes, that they do.
func (s *syncer) noteEnding(ctx context.Context, of names.Namespace) error {
	t, err := s.tenantNamed(of.Tenant)
	if err != nil || s.ending.Get(of.TenantUID) > 0 || t != nil && t.UID == of.TenantUID && t.DeletionTimestamp == nil {
		return err
	}
	there, err := s.namespacesOfUID(of.Tenant, of.TenantUID)
	if err != nil {
		return err
	}
	event := tenantEvent(of.Tenant, of.TenantUID, reasonDeleting, fmt.Sprintf("namespaces of the tenant on the host cluster are being deleted: %d", there))
	event.Annotations = map[string]string{namespacesAnnotation: strconv.Itoa(there)}
	if err := s.writeEvent(ctx, event); err != nil {
		return err
	}
	s.ending.Set(of.TenantUID, there)
	s.enqueueReceipt(of.Tenant, of.TenantUID) // they may have gone meanwhile
	return nil
}

// namespacesOfUID returns how many namespaces on the host the caches know of one life of a tenant.
func (s *syncer) namespacesOfUID(n tenant.Name, uid types.UID) (count int, _ error) {
	all, err := s.hostCaches.namespacesOfTenant(n)
	for _, namespace := range all {
		if of, _ := namespaceOf(namespace); of.TenantUID == uid {
			count++
		}
	}
	return count, err
}

// readEnding reads what an earlier syncer has noted.
func (s *syncer) readEnding(ctx context.Context) error {
	list, err := s.spaces.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("reason", reasonDeleting).String()})
	if err != nil {
		return fmt.Errorf("reading which deleted tenants still have namespaces on the host: %w", err)
	}
	for i := range list.Items {
		event := &list.Items[i]
		there, err := strconv.Atoi(event.Annotations[namespacesAnnotation])
		if about := event.Regarding; err == nil && event.Reason == reasonDeleting && event.ReportingController == component && about.Kind == tenantKind {
			s.ending.Set(about.UID, there)
			s.enqueueReceipt(tenant.Name(about.Name), about.UID)
		}
	}
	return nil
}

// syncReceipt records that nothing of a deleted tenant is on the host any more. The host is asked itself: a cache may
// not know yet what was made last.
func (s *syncer) syncReceipt(ctx context.Context, i item) error {
	uid := types.UID(i.name)
	t, err := s.tenantNamed(i.tenant)
	there, countErr := s.namespacesOfUID(i.tenant, uid)
	if err != nil || countErr != nil || there > 0 || t != nil && t.UID == uid {
		return errors.Join(err, countErr)
	}
	left, err := s.host.CoreV1().Namespaces().List(ctx, metav1.ListOptions{
		Limit: 1, LabelSelector: labels.Set{names.InstallationLabel: s.installation, names.TenantUIDLabel: string(uid)}.String(),
	})
	if err != nil {
		return fmt.Errorf("looking whether the host has namespaces of tenant %q: %w", i.tenant, err)
	}
	if len(left.Items) > 0 {
		return fmt.Errorf("the cache of the host's namespaces is behind: there is %q", left.Items[0].Name)
	}
	receipt := tenantEvent(i.tenant, uid, reasonDeleted, fmt.Sprintf("of the tenant's namespaces on the host cluster (%d), none is left", s.ending.Get(uid)))
	if err := s.writeEvent(ctx, receipt); err != nil {
		return err
	}
	noted := tenantEvent(i.tenant, uid, reasonDeleting, "")
	if err := s.spaces.EventsV1().Events(noted.Namespace).Delete(ctx, noted.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting what was noted of tenant %q: %w", i.tenant, err)
	}
	s.ending.Delete(uid)
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

var reasonNames = map[string]string{reasonDeleting: "workloads-deleting", reasonDeleted: "workloads-deleted"}

// writeEvent records an event, unless it has been recorded.
func (s *syncer) writeEvent(ctx context.Context, event *eventsv1.Event) error {
	_, err := s.spaces.EventsV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("recording of tenant %q: %w", event.Regarding.Name, err)
	}
	return nil
}

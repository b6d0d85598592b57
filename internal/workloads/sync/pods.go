package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// fieldManager owns what the syncer writes on the host.
const fieldManager = "tenantry-syncer"

// syncPod makes the host's pod what the space's asks for, and the space's what the host's says.
func (s *syncer) syncPod(ctx context.Context, i item) error {
	pod, all, err := sides(i, s.pods.Pods(i.namespace.String()).Get, s.hostCaches.podsOf)
	if err != nil {
		return err
	}
	s.surplus.note(i, pod, all)
	s.release(s.scheduling.note(i, all))
	mayStay := s.noteStuck(i, all)
	host, removed, err := counterpart(s, "pod", pod, all, func(orphan *corev1.Pod) error { return s.removeOrphan(ctx, i, orphan) })
	if err != nil {
		return err
	}
	placed := len(all) > 0
	switch {
	case pod == nil:
		s.backoffs.forget(i)
		s.scheduling.forget(i)
		s.statuses.Forget(i)
		s.writeBudgets.drop(i)
	case host != nil && podv1.IsPodTerminal(pod) && !podv1.IsPodTerminal(host):
		err = s.endHost(ctx, host, 1) // no quota counts it any more
	case pod.DeletionTimestamp != nil:
		err = s.end(ctx, pod, host)
	case host != nil:
		if err = s.follow(ctx, pod, host); !mayStay {
			err = errors.Join(err, s.withdraw(ctx, pod, host))
		}
	case len(pod.Spec.SchedulingGates) == 0:
		placed, err = s.begin(ctx, pod)
	}
	if !placed {
		s.release(s.scheduling.leave(i))
	}
	return errors.Join(removed, err)
}

// begin makes the host's pod, and reports whether it has a place among those of its tenant that wait for the host's
// scheduler, or waits for one.
func (s *syncer) begin(ctx context.Context, pod *corev1.Pod) (placed bool, _ error) {
	if podv1.IsPodTerminal(pod) {
		return false, nil
	}
	home, t, err := s.homeOf(tenant.Flat(pod.Namespace))
	if err != nil {
		return false, err
	}
	if pod.Spec.NodeName != "" {
		return false, s.lost(ctx, pod, home)
	}
	if errs := rulesOf(t).Check(&pod.ObjectMeta, &pod.Spec, field.NewPath("spec")); len(errs) > 0 {
		return false, s.refuse(ctx, pod, errs.ToAggregate().Error())
	}
	if s.isolated != nil {
		if why := s.isolated.refusal(); why != "" {
			return false, s.refuse(ctx, pod, why)
		}
	}
	open, err := s.openOf(pod)
	if err != nil {
		return false, err
	}
	wanted := s.translated(pod, translate.Home{Namespace: home}, open)
	if why := tooLarge(wanted, 0); why != "" {
		return false, s.refuse(ctx, pod, why)
	}
	if s.postponeRetry(pod, writeCreation, creationOf(pod, wanted)) || s.postponeRetry(pod, writeWithdrawal, string(pod.UID)) {
		return false, nil
	}
	if err := s.surplus.allow(home.Tenant); err != nil {
		return false, errors.Join(s.refuse(ctx, pod, err.Error()), err) // tried again, because no event of this pod says that they have ended
	}
	if waits, err := s.awaitClaims(ctx, pod); err != nil || waits {
		return false, err
	}
	err = s.createOnHost(ctx, pod, home, t, writesOfPod*s.storedSize(pod, wanted))
	return err == nil, err
}

// noteStuck notes whether the host has no node for a pod, and reports whether that may be there nevertheless.
func (s *syncer) noteStuck(i item, all []*corev1.Pod) bool {
	if slices.ContainsFunc(all, isStuck) {
		return s.scheduling.mayStay(i)
	}
	stays := slices.ContainsFunc(all, func(host *corev1.Pod) bool { return host.DeletionTimestamp == nil })
	for _, next := range s.scheduling.notStuck(i, stays) {
		s.backoffs.drop(itemWrite{next, writeWithdrawal})
		s.queue.Add(next)
	}
	return true
}

// withdraw takes a pod from the host for which that has no node, as it has none for others of the tenant. It is made
// again later. The host's pod goes as it is in the cache, and not if it has got a node meanwhile.
func (s *syncer) withdraw(ctx context.Context, pod, host *corev1.Pod) error {
	if !isStuck(host) {
		return nil
	}
	s.backOff(pod, writeWithdrawal, string(pod.UID), nil)
	err := s.host.CoreV1().Pods(host.Namespace).Delete(ctx, host.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &host.UID, ResourceVersion: &host.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("taking from the host a pod for which it has no node: %w", err)
	}
	return nil
}

// enter reports whether the scheduler's bound lets a pod be made. If not, it is looked at when it does.
func (s *syncer) enter(i item) bool {
	may, r := s.scheduling.enter(i)
	s.release(r)
	return may
}

// createOnHost creates the host's pod and what it needs, when it may. A pod that waits for its bytes, which are what
// the host will store, keeps its place, as others of its tenant wait for theirs after it. One that waits for copies
// makes room for those that have theirs: it has a place again when it has its copies.
func (s *syncer) createOnHost(ctx context.Context, pod *corev1.Pod, home names.Namespace, t *v1alpha1.Tenant, bytes int) error {
	i := itemOf(podItem, pod)
	if !s.scheduling.isAside(i) && !s.enter(i) {
		return nil
	}
	hostUID, err := s.ensureHome(ctx, home, t, func(why string) error { return s.refuse(ctx, pod, why) })
	if err != nil {
		return err
	}
	wait, err := s.ensureCopies(ctx, pod, home, s.copies.of(home.Host(), hostUID))
	if wait > soon {
		s.release(s.scheduling.stepAside(i))
	}
	if err != nil || wait > 0 || !s.enter(i) || s.postpone(creationBudget, i, bytes) {
		return err
	}
	tokens, err := s.mint(ctx, pod)
	if isForSpace(err) {
		why := err.Error() + "; make what is missing, or set automountServiceAccountToken: false"
		return errors.Join(s.refuse(ctx, pod, why), err) // tried again, because no event of this pod says that it is there
	}
	if err != nil {
		return err
	}
	return s.create(ctx, pod, translate.Home{Namespace: home, HostUID: hostUID}, tokens)
}

// creationOf says what is created for a pod: of another one, or a changed one, the host may think differently.
func creationOf(pod, wanted *corev1.Pod) string {
	return string(pod.UID) + wanted.Annotations[hashAnnotation] + wanted.Annotations[resourcesAnnotation]
}

// create creates the host's pod, with its tokens. Another one of its name is the predecessor's, whose end brings this
// one back, or nobody's.
func (s *syncer) create(ctx context.Context, pod *corev1.Pod, home translate.Home, tokens minted) error {
	open, err := s.openOf(pod)
	if err != nil {
		return err
	}
	services, err := s.services.Services(pod.Namespace).List(labels.Everything())
	if err != nil {
		return fmt.Errorf("reading the Services of %q: %w", pod.Namespace, err)
	}
	wanted := s.translated(pod, home, open)
	wanted.Spec.EphemeralContainers = nil // they are added when it is there
	s.options.SetVariables(wanted, pod, services)
	client := s.host.CoreV1().Pods(wanted.Namespace)
	there, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		there, err = existing(ctx, client, "pod", pod, home.Namespace)
		if errors.As(err, new(errTaken)) {
			return errors.Join(s.refuse(ctx, pod, err.Error()), err) // tried again, because nothing says that it is gone
		}
		if err != nil {
			return err
		}
	case isRefused(err):
		s.backOff(pod, writeCreation, creationOf(pod, wanted), nil)
		return errors.Join(s.refuse(ctx, pod, podNotTaken(err, pod, wanted)), err)
	case err != nil:
		return fmt.Errorf("creating the host's pod: %w", err)
	}
	if err := s.putTokens(ctx, home.Namespace, pod, there.UID, tokens); err != nil {
		return err
	}
	return s.recordMissingDNS(ctx, pod, wanted)
}

// lost deletes a pod that has run on the host and is there no more: nobody starts it again.
func (s *syncer) lost(ctx context.Context, pod *corev1.Pod, home names.Namespace) error {
	if pod.Annotations[names.HostUIDAnnotation] == "" {
		return nil // it runs elsewhere
	}
	if there, err := s.isPodOnHost(ctx, pod, home); err != nil || there {
		return err
	}
	if !s.hasLost(pod, home) {
		if err := s.losses.allow(home.Tenant, pod.UID, len(s.podIndexer.ListKeys())); err != nil {
			return err
		}
	}
	return s.deletePod(ctx, pod, 0)
}

// hasLost reports whether it is known that this host has had a pod: it was seen to go, or the pod was in the host's
// namespace that is there now. So drained and lost nodes are no matter of the guard, also while no syncer worked. After
// an old backup of the control plane, where the guard of orphans keeps namespaces, they say nothing.
func (s *syncer) hasLost(pod *corev1.Pod, home names.Namespace) bool {
	if _, seen := s.deleted.of(types.UID(pod.Annotations[names.HostUIDAnnotation])); seen {
		return true
	}
	found, err := s.hostCaches.namespace(home.Host())
	if err != nil || found == nil || s.orphans.isHalted(home.Tenant) {
		return false
	}
	of, _ := namespaceOf(found)
	return of == home && pod.Annotations[names.HostNamespaceUIDAnnotation] == string(found.UID)
}

func (s *syncer) isPodOnHost(ctx context.Context, pod *corev1.Pod, home names.Namespace) (bool, error) {
	return isOnHost(ctx, s.host.CoreV1().Pods(home.Host()), "pod", pod, home)
}

// follow takes the binding, the status and the deletion of the host's pod into the space, and changes of
// the space's pod to the host.
func (s *syncer) follow(ctx context.Context, pod, host *corev1.Pod) error {
	toBind := pod.Spec.NodeName == "" && host.Spec.NodeName != ""
	var err error
	if toBind {
		if err = s.bind(ctx, pod, host); err == nil {
			return nil // its event brings the pod back, and the status then is often the last one
		}
	}
	of, _, _ := sourceOf(host)
	open, openErr := s.openOf(pod)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	wanted := s.translated(pod, translate.Home{Namespace: of}, open)
	if !toBind {
		err = s.putStatus(ctx, pod, host, wanted)
	}
	switch {
	case host.DeletionTimestamp == nil:
	case host.Spec.NodeName == "":
		return err // it has never run, and is made again: it was withdrawn, or somebody has deleted it
	default:
		// Somebody drains its node, or the host evicts it.
		return errors.Join(err, s.deletePod(ctx, pod, graceOf(host)))
	}
	// Whatever the space says of a binding or a status: policies and quotas are by what comes now.
	return errors.Join(err, s.putGates(ctx, pod, host), s.update(ctx, pod, host, wanted), s.change(ctx, pod, host, wanted), s.ensureTokens(ctx, pod, host))
}

// change takes to the host what is changed of a pod by subresources.
func (s *syncer) change(ctx context.Context, pod, host, wanted *corev1.Pod) error {
	if podv1.IsPodTerminal(host) {
		return nil
	}
	err := s.resize(ctx, pod, host, wanted)
	if host.Annotations[hashAnnotation] == wanted.Annotations[hashAnnotation] { // ephemeral containers read annotations
		err = errors.Join(err, s.addDebuggers(ctx, pod, host, wanted))
	}
	return err
}

func (s *syncer) bind(ctx context.Context, pod, host *corev1.Pod) error {
	marks := map[string]string{names.HostUIDAnnotation: string(host.UID)}
	found, err := s.hostCaches.namespace(host.Namespace)
	if err != nil {
		return err
	}
	if found != nil {
		marks[names.HostNamespaceUIDAnnotation] = string(found.UID)
	}
	err = s.spaces.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, Annotations: marks},
		Target:     corev1.ObjectReference{Kind: "Node", Name: host.Spec.NodeName},
	}, metav1.CreateOptions{})
	if apierrors.IsConflict(err) {
		return nil // it is bound, gone or ending already, and the cache will say so
	}
	if err != nil {
		return fmt.Errorf("binding the pod: %w", err)
	}
	return nil
}

// putStatus takes the status of the host's pod into the space. wanted is what the host's is to be, or nil if that does
// not matter any more.
func (s *syncer) putStatus(ctx context.Context, pod, host, wanted *corev1.Pod) error {
	of, _, _ := sourceOf(host)
	now, because := translate.Status(host, pod, of, wanted != nil && s.isAnswered(pod, host, wanted)), string(host.UID)+host.ResourceVersion
	if wanted != nil {
		s.reportRefusals(&now, pod, host, wanted)
	}
	if equality.Semantic.DeepEqual(pod.Status, now) || s.postponeRetry(pod, writeStatus, because) || s.postponeStatus(pod, host) {
		return nil
	}
	if err := s.updateStatus(ctx, pod, now, because); err != nil {
		return fmt.Errorf("writing the status of the pod: %w", err)
	}
	return nil
}

// updateStatus writes the status of a pod in its space. If it does not become what was written, it is not written again
// at once, unless because of something else.
func (s *syncer) updateStatus(ctx context.Context, pod *corev1.Pod, wanted corev1.PodStatus, because string) error {
	if s.postponeRetry(pod, writeStatus, because) {
		return nil
	}
	changed := *pod
	changed.Status = wanted
	now, err := s.spaces.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{}) // which costs a server less than a patch
	switch {
	case apierrors.IsConflict(err):
		return nil // it is another one, or something else of it has changed, and the cache will say so
	case err != nil:
		return err
	case now.ResourceVersion == pod.ResourceVersion || equality.Semantic.DeepEqual(now.Status, wanted):
		s.backoffs.drop(itemWrite{itemOf(podItem, pod), writeStatus})
	default:
		s.backOff(pod, writeStatus, because, nil)
	}
	return nil
}

// end has a pod end on the host as it is to end in the space, and lets it go there when it has.
func (s *syncer) end(ctx context.Context, pod, host *corev1.Pod) error {
	if host == nil {
		return s.letGo(ctx, pod)
	}
	err := s.endIn(ctx, pod, host) // first, because a quota counts the pod for no longer than that
	if statusErr := s.putStatus(ctx, pod, host, nil); !apierrors.IsNotFound(statusErr) {
		err = errors.Join(err, statusErr)
	}
	return errors.Join(err, s.ensureTokens(ctx, pod, host)) // it may take an hour
}

// endIn has a pod of the host end when that of the space is to end. A pod may be deleted thousands of times, with less
// grace each time, for each of which a host stores it: more than once is a change like others, until its time has come.
func (s *syncer) endIn(ctx context.Context, pod, host *corev1.Pod) error {
	grace := min(graceOf(pod), translate.MaxGraceSeconds)
	if host.DeletionTimestamp != nil && graceOf(host) > max(1, grace) {
		left := min(pod.DeletionTimestamp.Sub(s.clock.Now()), translate.MaxGraceSeconds*time.Second)
		if left <= 0 {
			return s.endHost(ctx, host, 1)
		}
		s.queue.AddAfter(itemOf(podItem, pod), left)
		if s.postponePod(pod, writeEnd, pod, 1) { // the cache has not all of the host's
			return nil
		}
	}
	return s.endHost(ctx, host, grace)
}

// endHost has a pod of the host end within a grace period, in seconds, also if it has a longer one already.
func (s *syncer) endHost(ctx context.Context, host *corev1.Pod, grace int64) error {
	// Never 0: the host would forget the pod while its containers run.
	grace = max(1, min(grace, translate.MaxGraceSeconds))
	if host.DeletionTimestamp != nil && graceOf(host) <= grace {
		return nil
	}
	return s.deleteHost(ctx, host, &grace)
}

// letGo deletes a pod of a space for good that has run on the host.
func (s *syncer) letGo(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" || pod.Annotations[names.HostUIDAnnotation] == "" {
		return nil // it ends by itself
	}
	home, _, err := s.homeOf(tenant.Flat(pod.Namespace))
	if err != nil {
		return err
	}
	if there, err := s.isPodOnHost(ctx, pod, home); err != nil || there {
		return err
	}
	return s.deletePod(ctx, pod, 0)
}

// removeOrphan deletes a pod of the host whose own is gone, or was another one.
func (s *syncer) removeOrphan(ctx context.Context, i item, host *corev1.Pod) error {
	uid := uidOf(host)
	seen, _ := s.deleted.of(uid)
	if host.DeletionTimestamp != nil && (!seen.forced || graceOf(host) <= 1) {
		return nil
	}
	if err := mayRemove(ctx, s, s.spaces.CoreV1().Pods(i.namespace.String()), "pod", i, uid); err != nil {
		return err
	}
	if seen.forced {
		return s.endHost(ctx, host, 1)
	}
	return s.deleteHost(ctx, host, nil)
}

// deleteHost deletes a pod of the host. Without a grace period it has its own.
func (s *syncer) deleteHost(ctx context.Context, host *corev1.Pod, grace *int64) error {
	return deleteOne(ctx, s.host.CoreV1().Pods(host.Namespace), "the host's pod", host, grace)
}

// deletePod deletes a pod of a space.
func (s *syncer) deletePod(ctx context.Context, pod *corev1.Pod, grace int64) error {
	return deleteOne(ctx, s.spaces.CoreV1().Pods(pod.Namespace), "the pod", pod, &grace)
}

// graceOf returns how long, in seconds, a pod that is being deleted still may run.
func graceOf(pod *corev1.Pod) int64 { return ptr.Deref(pod.DeletionGracePeriodSeconds, 0) }

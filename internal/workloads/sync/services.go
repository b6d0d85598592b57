package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// inTheMaking is how long a host's Service may have none in a space, or another one than that, because a server
	// makes and changes it first: longer than a request can take there.
	inTheMaking = 2 * time.Minute
	// ofBalancer follows the UID of a host's Service that has had a load balancer, which has none in the making after
	// that time.
	ofBalancer = "/balancer"
	// clocksDiffer is how far the clocks of the host and of the syncer are apart at most, for what the host has dated.
	clocksDiffer = 5 * time.Minute
	// conditionOnHost is the condition of a Service in a space that the host does not take. Others do not have it.
	conditionOnHost = names.Prefix + "OnHost"
	reasonAccepted  = "Accepted"
)

// syncService makes the host's Service what the space's is. Most are made by the servers, before those of the space;
// here are made those that there were before pods ran, and that the host has lost.
func (s *syncer) syncService(ctx context.Context, i item) error {
	service, all, err := sides(i, s.services.Services(i.namespace.String()).Get, s.hostCaches.servicesOf)
	if err != nil {
		return err
	}
	host, removed, err := counterpart(s, "Service", service, all, func(orphan *corev1.Service) error { return s.removeService(ctx, i, orphan) })
	if err != nil {
		return err
	}
	switch {
	case service == nil:
		s.writeBudgets.drop(i)
		s.forgetSlices(itemFor(slicesItem, i.namespace, i.name))
	case host == nil && service.DeletionTimestamp == nil:
		err = errors.Join(s.showService(ctx, service, &corev1.Service{}), s.placeService(ctx, i, service))
	case host != nil && host.DeletionTimestamp == nil:
		err = errors.Join(s.showService(ctx, service, host), s.followService(ctx, i, service, host))
	}
	return errors.Join(removed, err)
}

// placeService creates the host's Service, with the addresses that the space's has.
func (s *syncer) placeService(ctx context.Context, i item, service *corev1.Service) error {
	home, t, err := s.homeOf(tenant.Flat(service.Namespace))
	if err != nil {
		return err
	}
	rules := rulesOf(t)
	if errs := rules.CheckService(service); len(errs) > 0 {
		return s.refuseService(ctx, service, errs.ToAggregate().Error())
	}
	if _, err = s.ensureHome(ctx, home, t, func(why string) error { return s.recordRefusal(ctx, service, why) }); err != nil {
		return err
	}
	wanted := rules.Service(service, home)
	if s.postpone(smallBudget, i, translate.ServiceBytes(wanted)) {
		return nil
	}
	client := s.host.CoreV1().Services(wanted.Namespace)
	_, err = client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsAlreadyExists(err):
		_, err = existing(ctx, client, "Service", service, home)
		if errors.As(err, new(errTaken)) {
			err = errors.Join(s.refuseService(ctx, service, err.Error()), err) // as for a pod
		}
		return err
	case isRefused(err):
		return errors.Join(s.refuseService(ctx, service, notTaken(err, home)), err)
	case err != nil:
		return fmt.Errorf("creating the host's Service: %w", err)
	}
	return s.acceptService(ctx, service)
}

// followService takes to the host what has been changed of a Service without the host's having to choose.
func (s *syncer) followService(ctx context.Context, i item, service, host *corev1.Service) error {
	of, _, _ := sourceOf(host)
	_, t, err := s.homeOf(of.Flat())
	if err != nil {
		return err
	}
	rules := rulesOf(t)
	wanted := rules.Service(service, of)
	change := host.Annotations[names.ChangeAnnotation]
	same := host.Annotations[names.HashAnnotation] == wanted.Annotations[names.HashAnnotation] && translate.GivenOf(host).Equal(translate.GivenOf(wanted)) &&
		len(host.Spec.Selector) == 0 // by which the host's controllers would make slices, too
	forgets, ends := s.forgetsBalancer(i, host)
	if same && change == "" && !forgets {
		s.making.Delete(string(host.UID))
		s.writeBudgets[routeBudget].drop(i)
		return s.acceptService(ctx, service)
	}
	if !same && change != "" {
		// A server has changed it, and is to store that in the space.
		left := s.making.left(string(host.UID)) // from the first change on, however many follow
		if left > 0 {
			s.queue.AddAfter(i, left)
			return nil
		}
	}
	if !forgets && s.postpone(smallBudget, i, translate.ServiceBytes(wanted)) { // others wait for the address
		return nil
	}
	s.making.Delete(string(host.UID))
	// The host's Service keeps what it has.
	rules.LoadBalancers = rules.LoadBalancers || host.Spec.Type == corev1.ServiceTypeLoadBalancer
	rules.NodePorts = rules.NodePorts || slices.ContainsFunc(host.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort != 0 })
	if errs := rules.CheckService(service); len(errs) > 0 {
		return s.refuseService(ctx, service, errs.ToAggregate().Error())
	}
	if wanted.Spec.Type == corev1.ServiceTypeLoadBalancer && s.postpone(routeBudget, i, 1) {
		return nil
	}
	wanted.UID, wanted.ResourceVersion = host.UID, host.ResourceVersion
	translate.KeepHosts(wanted, host)
	if ends {
		delete(wanted.Annotations, names.BalancerAnnotation)
	}
	return s.updateService(ctx, service, wanted, of)
}

// forgetsBalancer reports whether leftovers of a former load balancer are to be removed from a host's Service, and
// whether for the last time: components that have read it earlier may write them again.
func (s *syncer) forgetsBalancer(i item, host *corev1.Service) (forgets, ends bool) {
	key := string(host.UID) + ofBalancer
	lost, marked := translate.LostBalancer(host)
	if !lost {
		s.making.Delete(key)
		return false, false
	}
	left := s.making.left(key)
	if left > 0 {
		s.queue.AddAfter(i, left)
	}
	return marked || left <= 0, left <= 0
}

// updateService replaces one Service of the host, and no other one of its name.
func (s *syncer) updateService(ctx context.Context, service, wanted *corev1.Service, of names.Namespace) error {
	_, err := s.host.CoreV1().Services(wanted.Namespace).Update(ctx, wanted, metav1.UpdateOptions{FieldManager: fieldManager})
	switch {
	case isRefused(err):
		return errors.Join(s.refuseService(ctx, service, notTaken(err, of)), err)
	case err != nil:
		return fmt.Errorf("changing the host's Service: %w", err)
	}
	return s.acceptService(ctx, service)
}

// removeService deletes a Service of the host whose own is gone, or was another one. One that nobody was seen to delete
// may be in the making, unless it is older than that takes.
func (s *syncer) removeService(ctx context.Context, i item, host *corev1.Service) error {
	if host.DeletionTimestamp != nil {
		return nil
	}
	uid := uidOf(host)
	if _, seen := s.deleted.of(uid); !seen {
		if left := s.making.leftOf(string(host.UID), host.CreationTimestamp.Time); left > 0 {
			s.queue.AddAfter(i, left)
			return nil
		}
	}
	if err := mayRemove(ctx, s, s.spaces.CoreV1().Services(i.namespace.String()), "Service", i, uid); err != nil {
		return err
	}
	return deleteOne(ctx, s.host.CoreV1().Services(host.Namespace), "the host's Service", host, nil)
}

// isRefused reports whether the host does not take an object, and will not when it is asked again.
func isRefused(err error) bool {
	return errors.As(err, new(errTooLarge)) || apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

const refusedByHost = "the host cluster does not take it: "

// notTaken says why the host does not take an object, with the names of the space.
func notTaken(err error, of names.Namespace) string {
	return refusedByHost + strings.ReplaceAll(err.Error(), of.Host(), of.Name)
}

// podNotTaken says why the host does not take its pod for one of a space, or a change of it, with the names of the
// space.
func podNotTaken(err error, pod, host *corev1.Pod) string {
	of, _, _ := sourceOf(host)
	return refusedByHost + translate.Text(err.Error(), host, pod, of)
}

// detailsOf returns what an API server says of its error beside the text, which is nothing of other errors.
func detailsOf(err error) metav1.StatusDetails {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return metav1.StatusDetails{}
	}
	return *status.Status().Details
}

// refuseService says in the space why a Service is not on the host as it is there.
func (s *syncer) refuseService(ctx context.Context, service *corev1.Service, why string) error {
	return s.setOnHost(ctx, service, metav1.Condition{Type: conditionOnHost, Status: metav1.ConditionFalse, Reason: reasonRefused, Message: why})
}

// acceptService says in the space that a Service is on the host, if the opposite has been said.
func (s *syncer) acceptService(ctx context.Context, service *corev1.Service) error {
	if meta.FindStatusCondition(service.Status.Conditions, conditionOnHost) == nil {
		return nil
	}
	return s.setOnHost(ctx, service, metav1.Condition{Type: conditionOnHost, Status: metav1.ConditionTrue, Reason: reasonAccepted})
}

func (s *syncer) setOnHost(ctx context.Context, service *corev1.Service, condition metav1.Condition) error {
	conditions := append([]metav1.Condition(nil), service.Status.Conditions...)
	condition.LastTransitionTime = metav1.NewTime(s.clock.Now())
	meta.SetStatusCondition(&conditions, condition)
	if equality.Semantic.DeepEqual(conditions, service.Status.Conditions) {
		return nil
	}
	if err := patchStatus(ctx, s.spaces.CoreV1().Services(service.Namespace), service, map[string]any{"conditions": conditions}); err != nil {
		return fmt.Errorf("writing whether the Service is on the host: %w", err)
	}
	return nil
}

// maxAddresses is how many addresses of a load balancer, or of what serves an Ingress, a space is shown at most.
const maxAddresses = 32

// showService says in the space at which addresses the host's load balancer of a Service is.
func (s *syncer) showService(ctx context.Context, service, host *corev1.Service) error {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil // upstream has taken them away
	}
	var at []corev1.LoadBalancerIngress
	for _, a := range host.Status.LoadBalancer.Ingress[:min(len(host.Status.LoadBalancer.Ingress), maxAddresses)] {
		if a.IP != "" && a.IPMode == nil { // the host is older than the space
			a.IPMode = new(corev1.LoadBalancerIPModeVIP)
		}
		at = append(at, corev1.LoadBalancerIngress{IP: a.IP, Hostname: a.Hostname, IPMode: a.IPMode})
	}
	if equality.Semantic.DeepEqual(service.Status.LoadBalancer.Ingress, at) {
		return nil
	}
	if err := patchStatus(ctx, s.spaces.CoreV1().Services(service.Namespace), service, map[string]any{"loadBalancer": map[string]any{"ingress": at}}); err != nil {
		return fmt.Errorf("writing at which addresses a Service is: %w", err)
	}
	return nil
}

// patchStatus changes the status of one object of a space, if it is there, and of no other one of its name.
func patchStatus[T metav1.Object](ctx context.Context, client patcher[T], of T, status map[string]any) error {
	if _, err := patchOne(ctx, client, of.GetName(), of.GetUID(), map[string]any{"status": status}, "status"); !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}

package sync

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// maxIngresses is how many Ingresses of a tenant are on the host at most, and how many HTTPRoutes: all tenants share
// what serves them.
const maxIngresses = 100

// syncIngress makes the host's Ingress for one of a space what that asks for, if its Tenant has host names, and tells
// the space at which addresses it is served. What the Tenant may not have, or not any more, is not on the host.
func (s *syncer) syncIngress(ctx context.Context, i item) error {
	ingress, err := orNil(s.ingresses.Ingresses(i.namespace.String()).Get(i.name))
	if err != nil {
		return err
	}
	if ingress == nil {
		s.forgetIngress(i)
	}
	home, ready, err := s.readyHome(i.namespace)
	if err != nil || !ready {
		return err
	}
	there, err := s.hostCaches.ingress(home.Host(), i.name)
	if err != nil {
		return err
	}
	if ingress == nil {
		return s.removeIngress(ctx, i, home, there)
	}
	rules := s.rulesFor(i.tenant)
	why, err := s.whyNotOnHost(i, rules, ingress, there)
	if err != nil {
		return err
	}
	if why != "" {
		return s.withdrawIngress(ctx, i, home, ingress, there, why)
	}
	if !rules.HasIngresses() || there == nil && ingress.DeletionTimestamp != nil {
		return nil
	}
	s.refer(i, certificatesOf(ingress))
	return s.placeIngress(ctx, i, home, ingress, there, rules)
}

// whyNotOnHost returns why an Ingress is not on the host, or must not be there any more. It is empty if it may be
// there, and if it was never to be there.
func (s *syncer) whyNotOnHost(i item, rules translate.Rules, ingress, there *networkingv1.Ingress) (string, error) {
	if !rules.HasIngresses() {
		if there == nil {
			return "", nil
		}
		return "the Tenant has no host names any more: ask the platform's administrators for workloads.hostNames of the Tenant", nil
	}
	if there == nil {
		if has, err := s.hasRoomOf(ingressItem, i.tenant, s.hostCaches.ingresses); err != nil {
			return "", err
		} else if !has { // before anybody reads what may be much
			return fmt.Sprintf("a tenant has at most %d Ingresses on the host cluster: delete others, or have more rules in each", maxIngresses), nil
		}
	}
	return s.checked.why(i, ingress, rules, func() error {
		return rules.CheckIngress(&ingress.ObjectMeta, &ingress.Spec, field.NewPath("spec")).ToAggregate()
	}), nil
}

// hasRoomOf reports whether a tenant may have one more Ingress, or HTTPRoute, on the host.
func (s *syncer) hasRoomOf(k kind, n tenant.Name, on cache.SharedIndexInformer) (bool, error) {
	all, err := s.hostCaches.namespacesOfTenant(n)
	if err != nil {
		return false, err
	}
	var namespaces []string
	for _, namespace := range all {
		namespaces = append(namespaces, namespace.Name)
	}
	return s.room.has(kindIn{k, n.String()}, maxIngresses, on.GetIndexer(), namespaces...), nil
}

// placeIngress makes the host's Ingress what the space's is, after the certificates that it names, and the status of
// the space's what the host says.
func (s *syncer) placeIngress(ctx context.Context, i item, home names.Namespace, ingress, there *networkingv1.Ingress, rules translate.Rules) error {
	if wait, err := s.ensureNamed(ctx, i, home, s.copiesOf(home), ingress.CreationTimestamp, certificatesOf(ingress)); err != nil || wait > 0 {
		return err
	}
	wanted := rules.Ingress(ingress, home)
	if there != nil && uidOf(there) == ingress.UID {
		if err := s.showIngress(ctx, ingress, there.Status.LoadBalancer); err != nil {
			return err
		}
	}
	if there != nil && isAsPut(there, wanted, slimIngress) {
		s.writeBudgets[routeBudget].drop(i)
		return nil
	}
	if s.postpone(routeBudget, i, 1) {
		return nil
	}
	err := put(ctx, s.host.NetworkingV1().Ingresses(home.Host()), "Ingress", there, wanted, slimIngress)
	if why := messageOfRefusal(err, home); why != "" {
		err = errors.Join(err, s.recordRefusal(ctx, ingress, why))
	}
	return err
}

// messageOfRefusal returns the message for a space when the host does not take an Ingress or HTTPRoute, empty if it may
// the next time.
func messageOfRefusal(err error, home names.Namespace) string {
	switch {
	case isOfFields(err):
		return notTaken(err, home)
	case isRefused(err) || apierrors.IsBadRequest(err):
		return "a policy or webhook of the host cluster refuses it: the log of the syncer tells the platform's administrators why"
	}
	return ""
}

// isOfFields reports whether a host says which fields of an object are wrong. Its webhooks and policies do not, and may
// say which Ingress of whom has a name already.
func isOfFields(err error) bool {
	causes := detailsOf(err).Causes
	return apierrors.IsInvalid(err) && len(causes) > 0 && !slices.ContainsFunc(causes, func(c metav1.StatusCause) bool { return c.Field == "" })
}

// withdrawIngress takes an Ingress that a space still has from the host, and says why.
func (s *syncer) withdrawIngress(ctx context.Context, i item, home names.Namespace, ingress, there *networkingv1.Ingress, why string) error {
	s.writeBudgets[routeBudget].drop(i)
	s.refer(i, nil)
	told := s.recordRefusal(ctx, ingress, why)
	if there == nil {
		return told
	}
	return errors.Join(told, s.showIngress(ctx, ingress, networkingv1.IngressLoadBalancerStatus{}),
		remove(ctx, s.host.NetworkingV1().Ingresses(home.Host()), "Ingress", there, home, i.name))
}

// removeIngress deletes an Ingress of the host whose own is gone, once the space says so, too.
func (s *syncer) removeIngress(ctx context.Context, i item, home names.Namespace, there *networkingv1.Ingress) error {
	s.writeBudgets[routeBudget].drop(i)
	if there == nil {
		return nil
	}
	if err := mayRemove(ctx, s, s.spaces.NetworkingV1().Ingresses(i.namespace.String()), "Ingress", i, uidOf(there)); err != nil {
		return err
	}
	return remove(ctx, s.host.NetworkingV1().Ingresses(home.Host()), "Ingress", there, home, i.name)
}

// showIngress says in the space at which addresses an Ingress is served.
func (s *syncer) showIngress(ctx context.Context, ingress *networkingv1.Ingress, at networkingv1.IngressLoadBalancerStatus) error {
	at.Ingress = at.Ingress[:min(len(at.Ingress), maxAddresses)]
	if equality.Semantic.DeepEqual(ingress.Status.LoadBalancer, at) {
		return nil
	}
	if err := patchStatus(ctx, s.spaces.NetworkingV1().Ingresses(ingress.Namespace), ingress, map[string]any{"loadBalancer": map[string]any{"ingress": at.Ingress}}); err != nil {
		return fmt.Errorf("writing at which addresses an Ingress is served: %w", err)
	}
	return nil
}

// unfitError is why the host does not get a certificate.
type unfitError struct{ error }

// certificate returns what the host has of a Secret that Ingresses name.
func (s *syncer) certificate(n tenant.Name, secret *corev1.Secret) (map[string][]byte, error) {
	data, err := s.rulesFor(n).Certificate(secret.Data)
	if err != nil {
		return nil, unfitError{err}
	}
	return data, nil
}

// recordCertificate says of an Ingress why the host does not get a certificate that it names.
func (s *syncer) recordCertificate(ctx context.Context, i item, ref reference, why error) error {
	ingress, err := s.ingresses.Ingresses(i.namespace.String()).Get(i.name)
	if err != nil {
		return err
	}
	return s.recordRefusal(ctx, ingress, fmt.Sprintf("the host cluster does not get the Secret %q: %v", ref.name, why))
}

// recordCertificateOnAll says so of all Ingresses that name it.
func (s *syncer) recordCertificateOnAll(ctx context.Context, ref reference, why error) error {
	all, err := s.ingresses.Ingresses(ref.namespace.String()).List(labels.Everything())
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(ingress *networkingv1.Ingress) bool {
		return !slices.Contains(translate.CertificatesOf(&ingress.Spec), ref.name)
	})
	for _, ingress := range all[:min(len(all), maxIngresses)] {
		err = errors.Join(err, s.recordCertificate(ctx, itemOf(ingressItem, ingress), ref, why))
	}
	return err
}

// certificatesOf returns the Secrets that an Ingress names.
func certificatesOf(ingress *networkingv1.Ingress) []reference {
	var all []reference
	for _, name := range translate.CertificatesOf(&ingress.Spec) {
		all = append(all, reference{certificateItem, tenant.Flat(ingress.Namespace), name})
	}
	return all
}

// nameCertificates notes what those Ingresses of spaces name that are on the host: what nobody names is taken away
// there as soon as workers see it. Of others they note it when they let them in.
func (s *syncer) nameCertificates() {
	for _, obj := range s.hostCaches.ingresses.GetIndexer().List() {
		n, name, ok := sourceOf(obj.(*networkingv1.Ingress))
		if !ok {
			continue
		}
		if ingress, err := s.ingresses.Ingresses(n.Flat().String()).Get(name); err == nil {
			s.refer(itemOf(ingressItem, ingress), certificatesOf(ingress))
		}
	}
}

// ingressChanged has an Ingress of a space looked at, if its namespace is on the host.
func (s *syncer) ingressChanged(obj any) { s.enqueueIfOnHost(ingressItem, obj) }

func (s *syncer) ingressGone(obj any, seen bool) {
	s.forgetIngress(itemOf(ingressItem, obj.(*networkingv1.Ingress)))
	s.enqueueGone(ingressItem, obj, seen)
}

// forgetIngress forgets what is known of an Ingress of a space that is gone.
func (s *syncer) forgetIngress(i item) {
	s.refer(i, nil)
	s.checked.Delete(i)
}

func (s *syncer) hostIngressChanged(obj any) { s.enqueueSource(ingressItem, obj) }

// enqueueIngresses has all Ingresses of a namespace of a space looked at.
func (s *syncer) enqueueIngresses(of tenant.Flat) {
	s.enqueueIn(ingressItem, s.informers.Networking().V1().Ingresses().Informer().GetIndexer(), of)
}

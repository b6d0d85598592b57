package sync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/pod-security-admission/api"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// idleNamespace is how long a host's namespace stays without a pod, Service or claim.
	idleNamespace = time.Hour
	// boundAnnotation says on a host's namespace that its RoleBinding has been made.
	boundAnnotation = names.Prefix + "bound"
	// namespaceRole and connectRole are the ClusterRoles that the syncer, and what connects to pods, has in each of
	// the host's namespaces, by RoleBindings of these names.
	namespaceRole = "tenantry-workloads-namespace"
	connectRole   = "tenantry-workloads-connect"
)

// errNoHome is that a namespace is not there, or its tenant.
var errNoHome = errors.New("there is no such namespace")

// homeOf returns where what is in a namespace of a space is on the host.
func (s *syncer) homeOf(flat tenant.Flat) (names.Namespace, *v1alpha1.Tenant, error) {
	n, name := flat.Split()
	t, err := s.tenantNamed(n)
	namespace, namespaceErr := orNil(s.namespaces.Get(flat.String()))
	if err = errors.Join(err, namespaceErr); err == nil && (namespace == nil || t == nil) {
		err = errNoHome
	}
	if err != nil {
		return names.Namespace{}, nil, fmt.Errorf("finding where %q is on the host: %w", flat, err)
	}
	return names.Namespace{Installation: s.installation, Tenant: n, TenantUID: t.UID, Name: name, UID: namespace.UID, Salt: names.SaltOf(namespace.Annotations)}, t, nil
}

// rulesOf returns what a tenant's pods, Services and Ingresses are held to.
func rulesOf(t *v1alpha1.Tenant) translate.Rules {
	return translate.RulesOf(t.Spec.Workloads, t.Spec.Quota)
}

// ensureNamespace makes the host's namespace, if there is none, and returns its UID.
func (s *syncer) ensureNamespace(ctx context.Context, home names.Namespace, t *v1alpha1.Tenant) (types.UID, error) {
	found, err := s.hostCaches.namespace(home.Host())
	if err != nil {
		return "", err
	}
	wanted, i := s.wantedNamespace(home, t), item{kind: hostNamespaceItem, tenant: home.Tenant, name: home.Host()}
	if found == nil {
		if err := s.allowNamespace(home.Tenant); err != nil {
			return "", err
		}
		if s.postponeSmall(i, wanted, 0, writesOfNamespace) {
			return "", errNamespace("the tenant has written more to the host cluster than its rate allows; its namespace is made when its turn comes")
		}
		if found, err = s.createNamespace(ctx, wanted); err != nil {
			return "", namespaceError(err, home)
		}
	}
	switch has, ok := namespaceOf(found); {
	case !ok || has != home || names.OwnerOfNamespace(found.Labels) != names.OwnerOfNamespace(wanted.Labels):
		return "", s.giveAnotherName(ctx, home)
	case found.DeletionTimestamp != nil:
		return "", errNamespace("its namespace on the host cluster is being deleted; what is in it waits for that")
	}
	if found.Annotations[boundAnnotation] == "" {
		if err := s.bindNamespace(ctx, found); err != nil {
			return "", err
		}
	}
	if err := s.markNamespace(ctx, i, found, wanted); err != nil {
		return "", err
	}
	return found.UID, s.ensureGuards(ctx, home)
}

// ensureHome is ensureNamespace for an object of a space, which refuse tells why there is none. That is tried again: no
// event of the object says that a namespace has gone, or come.
func (s *syncer) ensureHome(ctx context.Context, home names.Namespace, t *v1alpha1.Tenant, refuse func(why string) error) (types.UID, error) {
	uid, err := s.ensureNamespace(ctx, home, t)
	if errors.As(err, new(errNamespace)) {
		err = errors.Join(refuse(err.Error()), err)
	}
	return uid, err
}

// errNamespace says why the host has no namespace for one of a space. The space sees it.
type errNamespace string

// Error implements error.
func (e errNamespace) Error() string { return string(e) }

// namespaceError returns an error of the host about a namespace: an errNamespace, whose message is for the space, if it
// is a refusal.
func namespaceError(err error, home names.Namespace) error {
	if !isRefused(err) {
		return err
	}
	return errNamespace("the host cluster does not take its namespace: " + strings.ReplaceAll(err.Error(), home.Host(), home.Name))
}

// giveAnotherName picks another name on the host if somebody else has taken the usual one: who may create namespaces
// there, such as the syncer of another owner, may have read the name while it existed. If pods or claims have been
// there, the namespace may be the right one without its marks.
func (s *syncer) giveAnotherName(ctx context.Context, home names.Namespace) error {
	if begun, err := s.hasBegun(home); err != nil || begun {
		return errors.Join(err, errNamespace("somebody else has the name of its namespace on the host cluster, in which it has pods or claims; whoever administers the host is to remove that namespace, or to give it back its labels and annotations"))
	}
	salt := map[string]any{"metadata": map[string]any{"annotations": map[string]any{names.SaltAnnotation: rand.Text()}}}
	if _, err := patchOne(ctx, s.spaces.CoreV1().Namespaces(), home.Flat().String(), home.UID, salt); err != nil {
		return fmt.Errorf("giving the namespace another name on the host: %w", err)
	}
	return errNamespace("somebody else has the name of its namespace on the host cluster; what is in it waits until it has another one")
}

// hasBegun reports whether a pod or claim in a namespace of a space has been on the host.
func (s *syncer) hasBegun(home names.Namespace) (bool, error) {
	pods, err := s.pods.Pods(home.Flat().String()).List(labels.Everything())
	if err != nil {
		return false, fmt.Errorf("reading the pods of %q: %w", home.Flat(), err)
	}
	claims, err := s.claims.PersistentVolumeClaims(home.Flat().String()).List(labels.Everything())
	if err != nil {
		return false, fmt.Errorf("reading the claims of %q: %w", home.Flat(), err)
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.Annotations[names.HostUIDAnnotation] != "" }) ||
		slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool {
			return claim.Spec.VolumeName != ""
		}), nil
}

// allowNamespace returns nil if a tenant may have one more namespace on the host.
func (s *syncer) allowNamespace(n tenant.Name) error {
	all, err := s.hostCaches.namespacesOfTenant(n)
	if err == nil && len(all) >= s.maxNamespaces {
		err = errNamespace(fmt.Sprintf("the tenant has %d namespaces on the host cluster, and may not have more (--max-namespaces-per-tenant): those that have no pod, Service or claim go after an hour", s.maxNamespaces))
	}
	return err
}

// wantedNamespace returns the host's namespace as it is to be, with the labels of the space's for selectors of
// policies.
func (s *syncer) wantedNamespace(home names.Namespace, t *v1alpha1.Tenant) *corev1.Namespace {
	rules := rulesOf(t)
	n := hostNamespace(home, rules.Level)
	if rules.LoadBalancers || s.hasBalancers(home.Flat()) { // what there is stays
		n.Labels[names.LoadBalancersLabel] = "true"
	}
	maps.Copy(n.Labels, s.owner.Labels())
	if s.options.API.IsValid() {
		n.Annotations[names.APIAnnotation] = s.options.API.String()
	}
	if namespace, err := s.namespaces.Get(home.Flat().String()); err == nil {
		maps.Copy(n.Labels, network.NamespaceLabels(namespace.Labels))
	}
	return n
}

// hasBalancers reports whether a namespace of a space has a Service with a load balancer that is on the host.
func (s *syncer) hasBalancers(flat tenant.Flat) bool {
	all, err := s.services.Services(flat.String()).List(labels.Everything())
	return err == nil && slices.ContainsFunc(all, func(service *corev1.Service) bool {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return false
		}
		there, err := s.hostCaches.servicesOf(flat, service.Name)
		return err == nil && slices.ContainsFunc(there, func(h *corev1.Service) bool { return h.Spec.Type == corev1.ServiceTypeLoadBalancer })
	})
}

// wantedFor is how long a server's wish for a host's namespace holds.
const wantedFor = 10 * time.Minute

// isWanted reports whether a server has wanted the host's namespace for one of a space lately.
func (s *syncer) isWanted(namespace *corev1.Namespace) bool {
	at, err := time.Parse(time.RFC3339Nano, namespace.Annotations[names.WantedAnnotation])
	return err == nil && s.clock.Since(at).Abs() < wantedFor
}

// syncWanted makes the host's namespace that a server wants.
func (s *syncer) syncWanted(ctx context.Context, i item) error {
	namespace, err := orNil(s.namespaces.Get(i.namespace.String()))
	if err != nil || namespace == nil || namespace.DeletionTimestamp != nil || !s.isWanted(namespace) {
		return err
	}
	home, t, err := s.homeOf(i.namespace)
	if err != nil {
		return err
	}
	_, err = s.ensureNamespace(ctx, home, t)
	return err
}

// hostNamespace returns the host's namespace as it is to be.
func hostNamespace(home names.Namespace, level translate.Level) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: home.Host(), Labels: home.Labels(), Annotations: home.Marks()}}
	n.Labels[api.EnforceLevelLabel] = string(level.Or())
	return n
}

func (s *syncer) createNamespace(ctx context.Context, wanted *corev1.Namespace) (*corev1.Namespace, error) {
	made, err := s.host.CoreV1().Namespaces().Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = s.host.CoreV1().Namespaces().Get(ctx, wanted.Name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("creating the host's namespace %q: %w", wanted.Name, err)
	}
	return made, nil
}

// bindNamespace gives the syncer, and what connects to pods, their rights in a namespace.
func (s *syncer) bindNamespace(ctx context.Context, namespace *corev1.Namespace) error {
	connecting := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.owner.Namespace, Name: s.owner.Connect()}}
	if s.connects {
		connecting = append(connecting, s.subjects...)
	}
	for role, subjects := range map[string][]rbacv1.Subject{namespaceRole: s.subjects, connectRole: connecting} {
		binding := &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role, Labels: map[string]string{names.InstallationLabel: s.installation}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   subjects,
		}
		_, err := s.host.RbacV1().RoleBindings(namespace.Name).Create(ctx, binding, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("binding %s in the host's namespace %q: %w", role, namespace.Name, err)
		}
	}
	return s.patchNamespace(ctx, namespace, map[string]any{"annotations": map[string]any{boundAnnotation: "true"}})
}

// markNamespace makes the labels of a namespace what they are to be, and the address of the API: the level of its pods
// may change, and so may those of the space's namespace, which wait if there are many. Labels of others stay.
func (s *syncer) markNamespace(ctx context.Context, i item, found, wanted *corev1.Namespace) error {
	labels, change := map[string]any{}, map[string]any{}
	for key, value := range wanted.Labels {
		if has, ok := found.Labels[key]; !ok || has != value {
			labels[key] = value
		}
	}
	for key := range found.Labels {
		if _, ok := wanted.Labels[key]; !ok && (strings.HasPrefix(key, network.LabelPrefix) || key == names.LoadBalancersLabel) {
			labels[key] = nil
		}
	}
	ours := maps.Clone(labels)
	maps.DeleteFunc(ours, func(key string, _ any) bool { return strings.HasPrefix(key, network.LabelPrefix) })
	if len(ours) < len(labels) && s.postponeSmall(i, wanted, 0, 1) {
		labels = ours // what keeps its pods within bounds does not wait
	}
	if len(labels) > 0 {
		change["labels"] = labels
	}
	if api := wanted.Annotations[names.APIAnnotation]; api != found.Annotations[names.APIAnnotation] {
		change["annotations"] = map[string]any{names.APIAnnotation: api}
	}
	if len(change) == 0 {
		return nil
	}
	return s.patchNamespace(ctx, found, change)
}

// patchNamespace changes the metadata of one namespace of the host, and of no other one of its name.
func (s *syncer) patchNamespace(ctx context.Context, of *corev1.Namespace, change map[string]any) error {
	if _, err := patchOne(ctx, s.host.CoreV1().Namespaces(), of.Name, of.UID, map[string]any{"metadata": change}); err != nil {
		return fmt.Errorf("changing the host's namespace %q: %w", of.Name, err)
	}
	return nil
}

// syncHostNamespace deletes a host's namespace whose own is gone, or that has been idle for an hour.
func (s *syncer) syncHostNamespace(ctx context.Context, i item) error {
	found, err := s.hostCaches.namespace(i.name)
	if err != nil || found == nil {
		s.idle.Delete(i.name)
		return err
	}
	of, ok := namespaceOf(found)
	if ok && found.DeletionTimestamp != nil {
		s.idle.Delete(i.name)
		return s.ending.note(ctx, of)
	}
	if !ok {
		return fmt.Errorf("the host's namespace %q has the label of this installation and not the marks of its name; whoever administers the host is to remove it", i.name)
	}
	home, t, err := s.homeOf(of.Flat())
	if err != nil && !errors.Is(err, errNoHome) {
		return err
	}
	if err != nil || home != of {
		s.idle.Delete(i.name)
		return s.removeNamespace(ctx, found, of)
	}
	if err := s.markNamespace(ctx, i, found, s.wantedNamespace(home, t)); err != nil {
		return err
	}
	if isReady(found) {
		if err := s.ensureGuards(ctx, home); err != nil {
			return err
		}
	}
	if s.isUsed(of, i.name) {
		s.idle.Delete(i.name)
		return nil
	}
	if left := s.idle.left(i.name); left > 0 {
		s.queue.AddAfter(i, left)
		return nil
	}
	if err := s.ending.note(ctx, of); err != nil {
		return err
	}
	return s.deleteNamespace(ctx, found)
}

// isUsed reports whether there is a pod in a namespace of a space, or a pod, Service or claim in the host's.
func (s *syncer) isUsed(of names.Namespace, host string) bool {
	h := s.hostCaches
	return count(s.podIndexer, of.Flat().String())+count(h.pods.GetIndexer(), host)+count(h.services.GetIndexer(), host)+count(h.claims.GetIndexer(), host) > 0
}

// removeNamespace deletes a host's namespace whose own is gone, once the space says so, too.
func (s *syncer) removeNamespace(ctx context.Context, found *corev1.Namespace, of names.Namespace) error {
	live, err := orNil(s.spaces.CoreV1().Namespaces().Get(ctx, of.Flat().String(), metav1.GetOptions{}))
	if err != nil {
		return fmt.Errorf("looking whether a namespace is gone: %w", err)
	}
	if live != nil && live.UID == of.UID && names.SaltOf(live.Annotations) == of.Salt {
		if err := confirmGone(ctx, s.liveTenants, "Tenant", string(of.Tenant), of.TenantUID); err != nil {
			return err
		}
	}
	if err := s.ending.note(ctx, of); err != nil {
		return err
	}
	if err := s.mayRemoveNamespace(found, of); err != nil {
		s.ending.keep(of, found.Name, err)
		return err
	}
	return s.deleteNamespace(ctx, found)
}

// mayRemoveNamespace returns nil if somebody was seen to delete a namespace of a space or its Tenant or, if not, the
// host's has nothing stored, and not too many others go.
func (s *syncer) mayRemoveNamespace(found *corev1.Namespace, of names.Namespace) error {
	_, seen := s.deleted.of(of.UID)
	if _, tenantSeen := s.deleted.of(of.TenantUID); seen || tenantSeen {
		return nil
	}
	if stored := count(s.hostCaches.claims.GetIndexer(), found.Name); stored > 0 {
		return fmt.Errorf("the host's namespace %q is of one that is not in its space, and that nobody was seen to delete: "+
			"claims in it (%d) have stored something, so it stays, until whoever administers the host deletes it", found.Name, stored)
	}
	return s.orphans.allow(of.Tenant, of.UID, s.hostCaches.objects())
}

// hostNamespaceGone has the receipt of a tenant written, if it was the last one. Whoever has deleted it, what was in it
// is gone.
func (s *syncer) hostNamespaceGone(obj any, _ bool) {
	gone := obj.(*corev1.Namespace)
	s.hostNamespaceChanged(gone)
	s.ending.kept.Delete(gone.Name)
	s.copies.forget(gone.Name, gone.UID)
	if of, ok := namespaceOf(gone); ok {
		s.ending.enqueue(of.Tenant, of.TenantUID)
	}
}

// deleteNamespace deletes a host's namespace, of which endings know.
func (s *syncer) deleteNamespace(ctx context.Context, found *corev1.Namespace) error {
	if err := deleteOne(ctx, s.host.CoreV1().Namespaces(), fmt.Sprintf("the host's namespace %q", found.Name), found, nil); err != nil {
		return err
	}
	s.ending.kept.Delete(found.Name)
	return nil
}

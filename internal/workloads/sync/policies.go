package sync

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
)

// syncPolicy writes the host's policy first and the labels of pods after it: a newly governed pod is open for that
// time, and not closed by a policy that is not there yet.
func (s *syncer) syncPolicy(ctx context.Context, i item) error {
	policy, err := orNil(s.policies.NetworkPolicies(i.namespace.String()).Get(i.name))
	if err != nil {
		return err
	}
	if policy == nil {
		s.governed.Delete(i)
	}
	home, ready, err := s.readyHome(i.namespace)
	if err != nil || !ready {
		return err
	}
	waits, err := s.ensurePolicy(ctx, home, i, policy)
	if waits {
		return nil
	}
	if (err == nil || isRefused(err)) && (policy == nil || !s.governed.noteEnqueued(policy)) {
		s.enqueueIn(podItem, s.podIndexer, i.namespace)
	}
	return err
}

// readyHome returns where what is in a namespace of a space is on the host, and whether the syncer writes there now:
// what it does not write comes again with the namespace.
func (s *syncer) readyHome(flat tenant.Flat) (home names.Namespace, ready bool, err error) {
	if home, _, err = s.homeOf(flat); err != nil {
		return home, false, nil // what was there goes with the host's namespace
	}
	namespace, err := s.hostCaches.namespace(home.Host())
	if err != nil || namespace == nil || !isReady(namespace) {
		return home, false, err
	}
	has, ok := namespaceOf(namespace)
	return home, ok && has == home, nil
}

// isReady reports whether the syncer has its rights in a namespace of the host.
func isReady(namespace *corev1.Namespace) bool {
	return namespace.Annotations[boundAnnotation] != "" && namespace.DeletionTimestamp == nil
}

// ensurePolicy makes or deletes the host's policy for one of a space. One that there cannot be on the host allows
// nothing, and is an event in the space. If it is to wait, because of many bytes of policies, it is looked at when its
// turn comes.
func (s *syncer) ensurePolicy(ctx context.Context, home names.Namespace, i item, policy *networkingv1.NetworkPolicy) (waits bool, err error) {
	if policy == nil {
		s.writeBudgets.drop(i)
		return false, s.removePolicy(ctx, home, i)
	}
	wanted, err := network.Policy(policy, home, s.ranges.current(), s.through(home.Tenant)...)
	if err == nil {
		err = s.hasRoom(home, wanted.Name)
	}
	if err != nil {
		return false, errors.Join(s.recordRefusal(ctx, policy, err.Error()), s.removePolicy(ctx, home, i))
	}
	there, err := s.ownPolicy(wanted)
	if err != nil {
		return false, err
	}
	if (there == nil || !isAsPut(there, wanted, slimPolicy)) && s.postponeSmall(i, wanted, 0, 1) {
		return true, nil
	}
	return false, s.putPolicy(ctx, there, wanted)
}

// hasRoom returns an error if a namespace of the host has as many policies as it may have, and not this one.
func (s *syncer) hasRoom(home names.Namespace, name string) error {
	there, err := s.hostCaches.policy(home.Host(), name)
	if err != nil || there != nil || s.room.has(kindIn{policyItem, home.Host()}, network.MaxPolicies+len(network.Names), s.hostCaches.policies.GetIndexer(), home.Host()) {
		return err
	}
	return fmt.Errorf("a namespace has at most %d network policies on the host cluster: delete others; until then this one allows nothing", network.MaxPolicies)
}

// currentReachable returns what pods reach, and whether servers reach them.
func (s *syncer) currentReachable() network.Reachable {
	reachable := s.reachable
	reachable.Calls = !s.ranges.isStrange()
	return reachable
}

// ensureGuards makes the policies that a namespace of the host has in any case. No pod is made before they are there.
func (s *syncer) ensureGuards(ctx context.Context, home names.Namespace) error {
	for _, wanted := range network.Guards(home, s.ranges.current(), s.currentReachable(), s.through(home.Tenant)...) {
		there, err := s.ownPolicy(wanted)
		if err != nil {
			return err
		}
		if err := s.putPolicy(ctx, there, wanted); err != nil {
			return err
		}
	}
	return nil
}

// through returns the peers through which the outside comes to a tenant's pods.
func (s *syncer) through(n tenant.Name) []networkingv1.NetworkPolicyPeer {
	if !s.rulesFor(n).HasIngresses() {
		return nil
	}
	return network.IngressControllers()
}

// ownPolicy makes a policy one for the owner's namespaces alone, and returns the host's as the cache has it, or nil.
func (s *syncer) ownPolicy(wanted *networkingv1.NetworkPolicy) (there *networkingv1.NetworkPolicy, err error) {
	network.Own(wanted, s.owner)
	return s.hostCaches.policy(wanted.Namespace, wanted.Name)
}

// putPolicy creates a policy, or makes the one that there is what it is to be.
func (s *syncer) putPolicy(ctx context.Context, there, wanted *networkingv1.NetworkPolicy) error {
	return put(ctx, s.host.NetworkingV1().NetworkPolicies(wanted.Namespace), "policy", there, wanted, slimPolicy)
}

// removePolicy deletes the host's policy for one that a space does not have any more.
func (s *syncer) removePolicy(ctx context.Context, home names.Namespace, i item) error {
	there, err := s.hostCaches.policy(home.Host(), names.Copy(i.name))
	if err != nil {
		return err
	}
	return remove(ctx, s.host.NetworkingV1().NetworkPolicies(home.Host()), "policy", there, home, i.name)
}

// openOf returns in which directions no policy of its space governs a pod. Where there are more policies than a host
// gets, it is none: that some of them allow something would be by chance.
func (s *syncer) openOf(pod *corev1.Pod) (network.Open, error) {
	policies, err := s.policies.NetworkPolicies(pod.Namespace).List(labels.Everything())
	if err != nil {
		return network.Open{}, fmt.Errorf("reading the policies of %q: %w", pod.Namespace, err)
	}
	if len(policies) > network.MaxPolicies {
		return network.Open{}, nil
	}
	governed := make([]*network.Governed, len(policies))
	for i := range policies {
		governed[i] = s.governed.of(policies[i])
	}
	return network.OpenOf(pod, governed), nil
}

// policyChanged has a policy of a space looked at, if there are pods for it.
func (s *syncer) policyChanged(obj any) { s.enqueueIfOnHost(policyItem, obj) }

// policyGone forgets what a policy has governed, also of a namespace that is not on the host: its pods have been looked
// at.
func (s *syncer) policyGone(obj any, _ bool) {
	s.governed.Delete(itemOf(policyItem, obj.(*networkingv1.NetworkPolicy)))
	s.policyChanged(obj)
}

// hostPolicyChanged has what a policy of the host is made for looked at: somebody may have changed or deleted it.
func (s *syncer) hostPolicyChanged(obj any) {
	policy := obj.(*networkingv1.NetworkPolicy)
	n, complete := names.Of(policy.Labels, policy.Annotations)
	if !complete || n.Host() != policy.Namespace {
		return
	}
	if name := policy.Annotations[names.NameAnnotation]; name != "" {
		s.queue.Add(itemFor(policyItem, n.Flat(), name))
		return
	}
	s.queue.Add(item{kind: hostNamespaceItem, tenant: n.Tenant, name: policy.Namespace})
}

// enqueuePolicies has all policies of a namespace of a space looked at.
func (s *syncer) enqueuePolicies(of tenant.Flat) {
	s.enqueueIn(policyItem, s.informers.Networking().V1().NetworkPolicies().Informer().GetIndexer(), of)
}

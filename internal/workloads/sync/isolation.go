package sync

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/pod-security-admission/api"
	"k8s.io/utils/clock"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/workloads/canary"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/network"
)

const (
	// defaultTestPeriod is how often it is tested whether the host enforces policies.
	defaultTestPeriod = 10 * time.Minute
	// retryTest is after how long a test is repeated by which pods may not run.
	retryTest = 10 * time.Second
	// testTimeout is how long a test may take: images may have to be pulled, and there are two families of addresses, and
	// packets.
	testTimeout = 3*time.Minute + 3*canary.Patience
	// testPoll is how often the canaries are looked at.
	testPoll = 500 * time.Millisecond
	// provenFor is how long a test counts if those after it say nothing.
	provenFor = time.Hour
)

// Messages for a space while its pods may not run.
const (
	beingTested = "it is being tested whether the host cluster keeps tenants' pods apart on its network; the pod waits for that"
	unenforced  = "the host cluster does not enforce network policies, so nothing would keep tenants' pods apart: whoever administers it is to install a network plugin that " +
		"does, or to accept that with --network-isolation=Unenforced"
	unchecked = "the host cluster does not check in whose name pods send by UDP over IPv6, which needs no rights, so policies do not keep tenants' pods apart: whoever administers it is to install a " +
		"network plugin that drops what pods send from other addresses (Calico and Cilium do), to give pods no addresses of IPv6, or to accept that with --network-isolation=Unenforced"
	untested = "it cannot be seen whether the host cluster keeps tenants' pods apart on its network; the log of the syncer says why. Whoever administers it is to repair that, " +
		"or to accept it with --network-isolation=Unenforced"
)

// isolation is what is known of whether the host enforces policies.
type isolation struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// why no pod may run, empty if they may.
	why string
	// proven is when the last test has shown that policies are enforced.
	proven time.Time
}

// refusal returns why no pod may run, empty if they may.
func (i *isolation) refusal() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.why
}

// note notes the result of a test, and reports whether something else holds now.
func (i *isolation) note(err error) (changed bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.why
	switch {
	case err == nil:
		i.why, i.proven = "", i.clock.Now()
	case errors.Is(err, canary.ErrUnenforced):
		i.why = unenforced
	case errors.Is(err, canary.ErrUnchecked):
		i.why = unchecked
	case errors.As(err, new(errOutside)):
		i.why = err.Error()
	case before != "" || i.clock.Since(i.proven) > provenFor:
		i.why = untested
	}
	return i.why != before
}

// testIsolation tests the host again and again until ctx ends. Pods that wait are looked at when something changes.
// Those that run go on: what has been enforced may be so again.
func (s *syncer) testIsolation(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for ctx.Err() == nil {
		err := s.test(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			logger.Error(err, "Testing whether the host cluster keeps tenants' pods apart")
		}
		if s.isolated.note(err) {
			logger.Info("Whether tenants' pods may run has changed", "why not", s.wayOut(s.isolated.refusal()))
			s.enqueueWaiting()
		}
		next := s.testPeriod
		if err != nil {
			next = min(next, retryTest)
		}
		_ = signal.Pause(ctx, next)
	}
}

// enqueueWaiting has the pods looked at that are not on the host.
func (s *syncer) enqueueWaiting() {
	for _, obj := range s.podIndexer.List() {
		pod := obj.(*corev1.Pod)
		if pod.Spec.NodeName == "" {
			s.enqueueObject(podItem, pod)
		}
	}
}

// test runs the canaries once. It returns nil if the host enforces policies, canary.ErrUnenforced if it does not,
// canary.ErrUnchecked if pods can pass them in others' names, and errOutside if a pod has an address that policies
// would take for outside of it.
func (s *syncer) test(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	namespace := names.Canaries(s.installation)
	if err := s.ensureCanaries(ctx, namespace); err != nil {
		return err
	}
	defer s.deleteCanaries(context.WithoutCancel(ctx), namespace)
	word := rand.Text()
	listener, err := s.runCanary(ctx, network.CanaryListener(namespace, s.installation, s.image, word), func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
	})
	if err != nil {
		return err
	}
	address, err := netip.ParseAddr(listener.Status.PodIP)
	if err != nil {
		return fmt.Errorf("reading the address of a canary: %w", err)
	}
	var ipv6 netip.Addr
	if all := addressesOf(listener); slices.ContainsFunc(all, netip.Addr.Is6) {
		ipv6 = all[slices.IndexFunc(all, netip.Addr.Is6)]
	}
	dialer, err := s.runCanary(ctx, network.CanaryDialer(namespace, s.installation, s.image, word, address, ipv6, s.dns.canaryAddress()), func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Terminated != nil
	})
	if err != nil {
		return err
	}
	switch changed, err := s.ranges.find(ctx); { // the node of a canary may be new
	case err != nil:
		return err
	case changed:
		s.enqueueHostNamespaces()
	}
	if err := s.ranges.allInside(listener, dialer); err != nil {
		return err
	}
	switch code := dialer.Status.ContainerStatuses[0].State.Terminated.ExitCode; code {
	case canary.Enforced:
		s.dns.note(ctx, false)
		return nil
	case canary.Hidden: // policies are enforced
		s.dns.note(ctx, true)
		return nil
	case canary.Unenforced:
		return canary.ErrUnenforced
	case canary.Unchecked:
		return canary.ErrUnchecked
	case canary.Unconnected:
		return canary.ErrUnconnected
	default:
		return errors.New(s.wayOut(fmt.Sprintf("a canary has ended with %d: --workloads-image %q is not that of this version of Tenantry, or does not run on the host", code, s.image)))
	}
}

// ensureCanaries makes the namespace of the canaries with its policies, and deletes those of a test before.
func (s *syncer) ensureCanaries(ctx context.Context, name string) error {
	marks := map[string]string{names.InstallationLabel: s.installation, api.EnforceLevelLabel: string(api.LevelRestricted)}
	maps.Copy(marks, s.owner.Labels())
	found, err := s.createNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: marks}})
	if err != nil {
		return err
	}
	if found.Labels[names.InstallationLabel] != s.installation || names.OwnerOfNamespace(found.Labels) != names.OwnerOfNamespace(marks) {
		return fmt.Errorf("the host's namespace %q is not of this syncer; whoever administers the host is to remove it", name)
	}
	if found.Annotations[boundAnnotation] == "" {
		if err := s.bindNamespace(ctx, found); err != nil {
			return err
		}
	}
	s.deleteCanaries(ctx, name)
	for _, wanted := range network.CanaryPolicies(name, s.installation, s.reachable) {
		if err := s.putCanaryPolicy(ctx, wanted); err != nil {
			return err
		}
	}
	return nil
}

// putCanaryPolicy makes a policy of the canaries what it is to be: somebody may have changed it.
func (s *syncer) putCanaryPolicy(ctx context.Context, wanted *networkingv1.NetworkPolicy) error {
	client := s.host.NetworkingV1().NetworkPolicies(wanted.Namespace)
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		_, err = client.Update(ctx, wanted, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("writing the policy %q of the canaries: %w", wanted.Name, err)
	}
	return nil
}

// runCanary makes a canary, and returns it once it is as done says.
func (s *syncer) runCanary(ctx context.Context, wanted *corev1.Pod, done func(*corev1.Pod) bool) (*corev1.Pod, error) {
	client := s.host.CoreV1().Pods(wanted.Namespace)
	var uid types.UID
	var last *corev1.Pod
	err := wait.PollUntilContextCancel(ctx, testPoll, true, func(ctx context.Context) (bool, error) {
		if uid == "" {
			made, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: fieldManager})
			if apierrors.IsAlreadyExists(err) {
				return false, nil // that of the test before, which goes
			}
			if err != nil {
				return false, fmt.Errorf("creating the canary %q: %w", wanted.Name, err)
			}
			uid = made.UID
		}
		now, err := client.Get(ctx, wanted.Name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading the canary %q: %w", wanted.Name, err)
		}
		last = now
		if now.UID != uid || now.DeletionTimestamp != nil {
			return false, fmt.Errorf("somebody has deleted the canary %q", wanted.Name)
		}
		return done(now), nil
	})
	if wait.Interrupted(err) && last != nil {
		return nil, fmt.Errorf("the canary %q is %s on the host cluster, see kubectl -n %s describe pod %s: %w", wanted.Name, last.Status.Phase, wanted.Namespace, wanted.Name, err)
	}
	return last, err
}

// deleteCanaries deletes the pods. What fails is tried again before the next test.
func (s *syncer) deleteCanaries(ctx context.Context, namespace string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, name := range network.CanaryNames {
		if err := s.host.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			klog.FromContext(ctx).V(2).Info("Deleting a canary failed", "name", name, "err", err)
		}
	}
}

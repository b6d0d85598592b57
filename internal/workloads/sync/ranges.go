package sync

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/workloads/network"
)

const (
	// rangesPeriod is how often the ranges of the host's Services are read.
	rangesPeriod = 10 * time.Minute
	// maxSeenNetworks is how many networks may be inside because pods have addresses there: each is an exception of
	// policies. With more of them, no pod begins.
	maxSeenNetworks = 64
)

// errOutside means that pods of the host have addresses outside all known cluster ranges. Its message is for all
// spaces.
type errOutside string

// Error implements error.
func (e errOutside) Error() string { return string(e) }

func (s *syncer) errOutside(what string) error {
	return errOutside(s.wayOut(what + ", so policies would take other tenants' pods for what is outside of the cluster: whoever administers Tenantry is to name " +
		"all ranges of the host's pods, Services and nodes with --network-isolation-cluster-cidrs"))
}

// newHostNodes returns an informer of the host's nodes, of which it keeps the addresses, and what the system space has
// of them.
func newHostNodes(client kubernetes.Interface) cache.SharedIndexInformer {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(func(obj any) (any, error) {
		if node, ok := obj.(*corev1.Node); ok {
			return &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion, Labels: labelsOf(node)},
				Spec:       corev1.NodeSpec{PodCIDR: node.Spec.PodCIDR, PodCIDRs: node.Spec.PodCIDRs},
				Status:     corev1.NodeStatus{Addresses: node.Status.Addresses, Conditions: shownNode(node).Status.Conditions},
			}, nil
		}
		return obj, nil
	}))
	return factory.Core().V1().Nodes().Informer()
}

// currentRanges returns the ranges that are not outside of the host.
func (s *syncer) currentRanges() network.Ranges {
	s.rangesMu.RLock()
	defer s.rangesMu.RUnlock()
	return s.ranges
}

// currentReachable returns what pods reach, and whether servers reach them.
func (s *syncer) currentReachable() network.Reachable {
	s.rangesMu.RLock()
	defer s.rangesMu.RUnlock()
	reachable := s.reachable
	reachable.Calls = len(s.strange) == 0
	return reachable
}

// watchRanges has nodes tell of ranges, and returns when these are known.
func (s *syncer) watchRanges(ctx context.Context) error {
	_, err := s.hostNodes.AddEventHandler(handler{
		changed: func(any) { s.askRanges.Raise() },
		updated: func(before, now any) {
			a, b := before.(*corev1.Node), now.(*corev1.Node)
			if !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) {
				s.askRanges.Raise()
			}
		},
		gone: func(any, bool) { s.askRanges.Raise() },
	})
	if err != nil {
		return fmt.Errorf("watching the host's nodes: %w", err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), s.hostNodes.HasSynced) {
		return ctx.Err()
	}
	if err := s.findRanges(ctx); err != nil {
		return err
	}
	go func() {
		ticker := time.NewTicker(rangesPeriod)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.askRanges:
			case <-ticker.C:
			}
			if err := s.findRanges(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Looking for the ranges of addresses of the host cluster; those that were known stay")
				time.AfterFunc(retryTest, s.askRanges.Raise)
			}
		}
	}()
	return nil
}

// addressesOf returns the addresses of a pod on the host.
func addressesOf(host *corev1.Pod) []netip.Addr {
	var all []netip.Addr
	for _, ip := range append([]corev1.PodIP{{IP: host.Status.PodIP}}, host.Status.PodIPs...) {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// seeAddresses has the ranges looked for if a pod of a space has an address on the host outside of them.
func (s *syncer) seeAddresses(host *corev1.Pod) {
	if _, _, ok := s.hostCaches.ours(host); !ok {
		return
	}
	s.rangesMu.RLock()
	defer s.rangesMu.RUnlock()
	if len(outside(s.ranges, host)) > 0 && len(s.seenNetworks) < maxSeenNetworks {
		s.askRanges.Raise()
	}
}

// outside returns the addresses of a pod of the host that are not in some ranges.
func outside(ranges network.Ranges, host *corev1.Pod) []netip.Addr {
	return slices.DeleteFunc(addressesOf(host), ranges.Contains)
}

// seeNetworks adds to what is inside the networks of pods' addresses that no reported range contains. They stay:
// tomorrow another pod may have such an address. The caller holds the lock.
func (s *syncer) seeNetworks(ctx context.Context, reported network.Ranges) {
	for _, obj := range s.hostCaches.pods.GetIndexer().List() {
		host := obj.(*corev1.Pod)
		if _, _, ok := s.hostCaches.ours(host); !ok {
			continue // somebody else's, or a canary, which is to show that a range is missing
		}
		for _, address := range outside(reported, host) {
			around := network.Around(address)
			if slices.Contains(s.seenNetworks, around) || len(s.seenNetworks) >= maxSeenNetworks {
				continue
			}
			s.seenNetworks = append(s.seenNetworks, around)
			klog.FromContext(ctx).Error(nil, s.wayOut("A pod on the host cluster has an address outside all known ranges; its network counts as inside from now on. Name all ranges of pods with --network-isolation-cluster-cidrs"),
				"pod", klog.KObj(host), "address", address, "network", around)
		}
	}
}

// allInside returns an error if a canary's address is outside all known ranges, or if pods have addresses in more
// networks than maxSeenNetworks.
func (s *syncer) allInside(canaries ...*corev1.Pod) error {
	s.rangesMu.RLock()
	defer s.rangesMu.RUnlock()
	for _, pod := range canaries {
		if out := outside(s.reported, pod); len(out) > 0 {
			return s.errOutside(fmt.Sprintf("pods of the host cluster have addresses such as %s, which are in no range that its nodes, its ServiceCIDRs or --network-isolation-cluster-cidrs tell", out[0]))
		}
	}
	for _, obj := range s.hostCaches.pods.GetIndexer().List() {
		host := obj.(*corev1.Pod)
		if _, _, ok := s.hostCaches.ours(host); !ok || len(outside(s.ranges, host)) == 0 {
			continue
		}
		return s.errOutside(fmt.Sprintf("pods of the host cluster have addresses in more than %d networks outside all known ranges", maxSeenNetworks))
	}
	return nil
}

// findRanges asks the host for its ranges. If they have changed, all policies are looked at.
func (s *syncer) findRanges(ctx context.Context) error {
	found, err := s.serviceRanges(ctx)
	if err != nil {
		return err
	}
	s.rangesMu.Lock()             // before nodes are read: who reads them later has the last word
	ofPods := slices.Clone(found) // and of Services, which lead to them
	for _, obj := range s.hostNodes.GetIndexer().List() {
		node := obj.(*corev1.Node)
		ofPods = append(ofPods, podRangesOf(node)...)
		found = append(found, rangesOf(node)...)
	}
	s.reported = network.NewRanges(s.clusterRanges, found)
	s.seeNetworks(ctx, s.reported)
	now := network.NewRanges(s.clusterRanges, slices.Concat(found, s.seenNetworks))
	strange := s.strangeTo(slices.Concat(ofPods, s.seenNetworks))
	same := s.ranges.Equal(now) && slices.Equal(s.strange, strange)
	s.ranges, s.strange = now, strange
	s.rangesMu.Unlock()
	if same {
		return nil
	}
	klog.FromContext(ctx).Info("These ranges of addresses are not outside of the host cluster", "ranges", now.String())
	if len(strange) > 0 && s.owner.Servers() != nil {
		klog.FromContext(ctx).Error(nil, s.wayOut("Pods or Services of the host cluster have public addresses, so its servers do not call webhooks of tenants in pods: by their addresses, one tenant's would reach another's. "+
			"Name these ranges with --network-isolation-cluster-cidrs"), "ranges", strange)
	}
	s.enqueueHostNamespaces()
	return nil
}

// strangeTo returns those of some ranges that servers do not take for inside: the operator tells them those that are
// configured.
func (s *syncer) strangeTo(ofPods []netip.Prefix) []netip.Prefix {
	known := network.NewRanges(slices.Concat(network.Private(), s.clusterRanges), nil)
	ofPods = slices.DeleteFunc(ofPods, known.ContainsAll)
	slices.SortFunc(ofPods, netip.Prefix.Compare)
	return slices.Compact(ofPods)
}

// serviceRanges returns the ranges of the host's Services, none if it is too old to tell them.
func (s *syncer) serviceRanges(ctx context.Context) ([]netip.Prefix, error) {
	list, err := s.host.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the ranges of the host's Services: %w", err)
	}
	var found []netip.Prefix
	for i := range list.Items {
		parsed, err := network.Parse(list.Items[i].Spec.CIDRs)
		if err != nil {
			return nil, fmt.Errorf("reading the host's ServiceCIDR %q: %w", list.Items[i].Name, err)
		}
		found = append(found, parsed...)
	}
	return found, nil
}

// rangesOf returns the addresses of a node, and the ranges of its pods. Names of a node are none.
func rangesOf(node *corev1.Node) []netip.Prefix {
	var texts []string
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			texts = append(texts, address.Address)
		}
	}
	return append(podRangesOf(node), parsed(texts)...)
}

// podRangesOf returns the ranges of a node's pods.
func podRangesOf(node *corev1.Node) []netip.Prefix {
	return parsed(append([]string{node.Spec.PodCIDR}, node.Spec.PodCIDRs...))
}

// parsed returns those of some texts that are ranges or addresses.
func parsed(texts []string) []netip.Prefix {
	var found []netip.Prefix
	for _, text := range texts {
		if parsed, err := network.Parse([]string{text}); err == nil {
			found = append(found, parsed...)
		}
	}
	return found
}

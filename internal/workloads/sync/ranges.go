package sync

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/process/signal"
	"github.com/tenantry/tenantry/internal/workloads/names"
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

func (r *hostRanges) errOutside(what string) error {
	return errOutside(wayOut(r.owner, what+", so policies would take other tenants' pods for what is outside of the cluster: whoever administers Tenantry is to name "+
		"all ranges of the host's pods, Services and nodes with --network-isolation-cluster-cidrs"))
}

// hostRanges are the ranges of addresses that are not outside of the host: those of its pods, Services and nodes.
type hostRanges struct {
	host  kubernetes.Interface
	owner names.Owner
	nodes cache.SharedIndexInformer
	// caches have the host's pods.
	caches *hostCaches
	// configured are those that somebody says are the host's.
	configured []netip.Prefix
	// ask has the host asked once more.
	ask signal.Flag

	mu     sync.RWMutex
	ranges network.Ranges
	// reported are the ranges without seen, which are inside because pods of spaces have addresses there: at most
	// maxSeenNetworks.
	reported network.Ranges
	seen     []netip.Prefix
	// strange are networks of the host's pods and Services that its servers do not take for inside. While there are
	// some, they do not call webhooks in pods.
	strange []netip.Prefix
}

func newHostRanges(c clients, nodes cache.SharedIndexInformer, onHost *hostCaches, configured []netip.Prefix) *hostRanges {
	return &hostRanges{host: c.host, owner: c.owner, nodes: nodes, caches: onHost, configured: configured, ask: signal.NewFlag()}
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

// current returns the ranges that are not outside of the host.
func (r *hostRanges) current() network.Ranges {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.ranges
}

// isStrange reports whether there are networks of pods that the host's servers do not take for inside.
func (r *hostRanges) isStrange() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.strange) > 0
}

// watch has nodes tell of ranges, and returns when these are known. changed is called when they have changed.
func (r *hostRanges) watch(ctx context.Context, changed func()) error {
	_, err := r.nodes.AddEventHandler(handler{
		changed: func(any) { r.ask.Raise() },
		updated: func(before, now any) {
			a, b := before.(*corev1.Node), now.(*corev1.Node)
			if !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) {
				r.ask.Raise()
			}
		},
		gone: func(any, bool) { r.ask.Raise() },
	})
	if err != nil {
		return fmt.Errorf("watching the host's nodes: %w", err)
	}
	if !cache.WaitForCacheSync(ctx.Done(), r.nodes.HasSynced) {
		return ctx.Err()
	}
	if _, err := r.find(ctx); err != nil {
		return err
	}
	go r.follow(ctx, changed)
	return nil
}

// follow looks for the ranges from time to time, and when somebody asks, until ctx ends.
func (r *hostRanges) follow(ctx context.Context, changed func()) {
	ticker := time.NewTicker(rangesPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.ask:
		case <-ticker.C:
		}
		switch others, err := r.find(ctx); {
		case others:
			changed()
		case err != nil && ctx.Err() == nil:
			klog.FromContext(ctx).Error(err, "Looking for the ranges of addresses of the host cluster; those that were known stay")
			time.AfterFunc(retryTest, r.ask.Raise)
		}
	}
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

// see has the ranges looked for if a pod of a space has an address on the host outside of them.
func (r *hostRanges) see(host *corev1.Pod) {
	if _, _, ok := r.caches.ours(host); !ok {
		return
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(outside(r.ranges, host)) > 0 && len(r.seen) < maxSeenNetworks {
		r.ask.Raise()
	}
}

// outside returns the addresses of a pod of the host that are not in some ranges.
func outside(ranges network.Ranges, host *corev1.Pod) []netip.Addr {
	return slices.DeleteFunc(addressesOf(host), ranges.Contains)
}

// seeNetworks adds to what is inside the networks of pods' addresses that no reported range contains. They stay:
// tomorrow another pod may have such an address. The caller holds the lock.
func (r *hostRanges) seeNetworks(ctx context.Context, reported network.Ranges) {
	for _, obj := range r.caches.pods.GetIndexer().List() {
		host := obj.(*corev1.Pod)
		if _, _, ok := r.caches.ours(host); !ok {
			continue // somebody else's, or a canary, which is to show that a range is missing
		}
		for _, address := range outside(reported, host) {
			around := network.Around(address)
			if slices.Contains(r.seen, around) || len(r.seen) >= maxSeenNetworks {
				continue
			}
			r.seen = append(r.seen, around)
			klog.FromContext(ctx).Error(nil, wayOut(r.owner, "A pod on the host cluster has an address outside all known ranges; its network counts as inside from now on. Name all ranges of pods with --network-isolation-cluster-cidrs"),
				"pod", klog.KObj(host), "address", address, "network", around)
		}
	}
}

// allInside returns an error if a canary's address is outside all known ranges, or if pods have addresses in more
// networks than maxSeenNetworks.
func (r *hostRanges) allInside(canaries ...*corev1.Pod) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, pod := range canaries {
		if out := outside(r.reported, pod); len(out) > 0 {
			return r.errOutside(fmt.Sprintf("pods of the host cluster have addresses such as %s, which are in no range that its nodes, its ServiceCIDRs or --network-isolation-cluster-cidrs tell", out[0]))
		}
	}
	for _, obj := range r.caches.pods.GetIndexer().List() {
		host := obj.(*corev1.Pod)
		if _, _, ok := r.caches.ours(host); !ok || len(outside(r.ranges, host)) == 0 {
			continue
		}
		return r.errOutside(fmt.Sprintf("pods of the host cluster have addresses in more than %d networks outside all known ranges", maxSeenNetworks))
	}
	return nil
}

// find asks the host for its ranges, and reports whether they have changed. Policies are of them.
func (r *hostRanges) find(ctx context.Context) (changed bool, err error) {
	found, err := r.serviceRanges(ctx)
	if err != nil {
		return false, err
	}
	r.mu.Lock()                   // before nodes are read: who reads them later has the last word
	ofPods := slices.Clone(found) // and of Services, which lead to them
	for _, obj := range r.nodes.GetIndexer().List() {
		node := obj.(*corev1.Node)
		ofPods = append(ofPods, podRangesOf(node)...)
		found = append(found, rangesOf(node)...)
	}
	r.reported = network.NewRanges(r.configured, found)
	r.seeNetworks(ctx, r.reported)
	now := network.NewRanges(r.configured, slices.Concat(found, r.seen))
	strange := r.strangeTo(slices.Concat(ofPods, r.seen))
	same := r.ranges.Equal(now) && slices.Equal(r.strange, strange)
	r.ranges, r.strange = now, strange
	r.mu.Unlock()
	if same {
		return false, nil
	}
	klog.FromContext(ctx).Info("These ranges of addresses are not outside of the host cluster", "ranges", now.String())
	if len(strange) > 0 && r.owner.Servers() != nil {
		klog.FromContext(ctx).Error(nil, wayOut(r.owner, "Pods or Services of the host cluster have public addresses, so its servers do not call webhooks of tenants in pods: by their addresses, one tenant's would reach another's. "+
			"Name these ranges with --network-isolation-cluster-cidrs"), "ranges", strange)
	}
	return true, nil
}

// strangeTo returns those of some ranges that servers do not take for inside: the operator tells them those that are
// configured.
func (r *hostRanges) strangeTo(ofPods []netip.Prefix) []netip.Prefix {
	known := network.NewRanges(slices.Concat(network.Private(), r.configured), nil)
	ofPods = slices.DeleteFunc(ofPods, known.ContainsAll)
	slices.SortFunc(ofPods, netip.Prefix.Compare)
	return slices.Compact(ofPods)
}

// serviceRanges returns the ranges of the host's Services, none if it is too old to tell them.
func (r *hostRanges) serviceRanges(ctx context.Context) ([]netip.Prefix, error) {
	list, err := r.host.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
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

package sync

import (
	"context"
	"fmt"
	"net/netip"
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

// rangesPeriod is how often the ranges of the host's Services are read.
const rangesPeriod = 10 * time.Minute

// newHostNodes returns an informer of the host's nodes, of which it keeps the addresses, and what the system space has of them.
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

// watchRanges has nodes tell of ranges, and returns when these are known.
func (s *syncer) watchRanges(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := s.hostNodes.AddEventHandler(handler{
		changed: func(any) { signal() },
		updated: func(before, now any) {
			a, b := before.(*corev1.Node), now.(*corev1.Node)
			if !equality.Semantic.DeepEqual(a.Spec, b.Spec) || !equality.Semantic.DeepEqual(a.Status.Addresses, b.Status.Addresses) {
				signal()
			}
		},
		gone: func(any, bool) { signal() },
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
			case <-changed:
			case <-ticker.C:
			}
			if err := s.findRanges(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Looking for the ranges of addresses of the host cluster; those that were known stay")
			}
		}
	}()
	return nil
}

// findRanges asks the host for its ranges. If they have changed, all policies are looked at.
func (s *syncer) findRanges(ctx context.Context) error {
	found, err := s.serviceRanges(ctx)
	if err != nil {
		return err
	}
	for _, obj := range s.hostNodes.GetIndexer().List() {
		found = append(found, rangesOf(obj.(*corev1.Node))...)
	}
	now := network.NewRanges(s.clusterRanges, found)
	s.rangesMu.Lock()
	same := s.ranges.Equal(now)
	s.ranges = now
	s.rangesMu.Unlock()
	if !same {
		klog.FromContext(ctx).Info("These ranges of addresses are not outside of the host cluster", "ranges", now.String())
		s.enqueueHostNamespaces()
	}
	return nil
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
	texts := append([]string{node.Spec.PodCIDR}, node.Spec.PodCIDRs...)
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			texts = append(texts, address.Address)
		}
	}
	var found []netip.Prefix
	for _, text := range texts {
		if parsed, err := network.Parse([]string{text}); err == nil {
			found = append(found, parsed...)
		}
	}
	return found
}

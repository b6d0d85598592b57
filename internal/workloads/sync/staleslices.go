package sync

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// The slices of a Service are written in the turn of their tenant, and a tenant chooses how long that takes. The host
// may have given the address of a pod that has ended to a pod of somebody else by then. So other workers, which do
// nothing else, take such addresses out of slices, whatever their Services, and what else is to be written.

const (
	// stalePeriod is how long an address that its pod has no more stays in slices at least, and twice that at most.
	// Most have been written without it by then.
	stalePeriod = 750 * time.Millisecond
	// staleWorkers are how many tenants' slices are looked at beside each other, and staleRequests how many requests
	// are made for one of them at once.
	staleWorkers  = 4
	staleRequests = 16
	// staleBytes and staleAtOnce are slicedBytes and slicedAtOnce for slices that are written without what is stale: at
	// once as many as when 300 pods of 15 Services are replaced. Beyond them, slices are deleted, and made again in the
	// turn of their tenant.
	staleBytes  = 64 << 10
	staleAtOnce = 16 << 20
)

// endpointID is what is remembered of an endpoint: a hash of whose address it is.
type endpointID uint64

var endpointSeed = maphash.MakeSeed()

func endpointIDOf(pod types.UID, address string) endpointID {
	return endpointID(maphash.Comparable(endpointSeed, [2]string{string(pod), address}))
}

// endpointIDs returns those of an endpoint of a slice.
func endpointIDs(e discoveryv1.Endpoint) (all []endpointID) {
	var pod types.UID
	if e.TargetRef != nil {
		pod = e.TargetRef.UID
	}
	for _, address := range e.Addresses {
		all = append(all, endpointIDOf(pod, address))
	}
	return all
}

// addresses are those that pods have.
type addresses map[endpointID]bool

// addressesIn returns those of the pods in a namespace of the host.
func (h *hostCaches) addressesIn(namespace string) addresses {
	pods, _ := objects.Indexed[*corev1.Pod](h.pods.GetIndexer(), cache.NamespaceIndex, namespace) // there is this index
	all := make(addresses, len(pods))
	for _, pod := range pods {
		if !translate.OwnsAddresses(pod) {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			all[endpointIDOf(pod.UID, ip.IP)] = true
		}
	}
	return all
}

func (a addresses) lack(id endpointID) bool { return !a[id] }

// enqueueStale has the slices in a namespace of the host looked at for addresses that no pod of theirs has any more.
func (s *syncer) enqueueStale(namespace string) {
	if of, err := s.hostCaches.namespace(namespace); err == nil && of != nil {
		if n, ok := namespaceOf(of); ok {
			s.stale.AddAfter(item{staleItem, n.Tenant, n.Flat(), namespace}, stalePeriod)
		}
	}
}

// removeStale takes addresses that no pod of theirs has any more out of the slices of a namespace of the host.
func (s *syncer) removeStale(ctx context.Context, i item) error {
	all, _ := objects.Indexed[*hostSlice](s.hostCaches.slices.GetIndexer(), cache.NamespaceIndex, i.name) // there is this index
	has, now := s.hostCaches.addressesIn(i.name), addresses{}
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelManagedBy] == sliceManager && slice.DeletionTimestamp == nil {
			for _, id := range slice.endpoints {
				if has.lack(id) {
					now[id] = true
				}
			}
		}
	}
	before := s.staleEndpoints.Set(i, now)
	if len(now) > 0 {
		s.stale.AddAfter(i, stalePeriod)
	} else {
		s.staleEndpoints.Delete(i)
	}
	all = byEndpoint(all, func(id endpointID) bool { return now[id] && before[id] })
	failures := make([]error, len(all))
	workqueue.ParallelizeUntil(ctx, staleRequests, len(all), func(n int) { failures[n] = s.removeStaleOf(ctx, i.tenant, all[n], has) })
	return errors.Join(append(failures, ctx.Err())...)
}

// byEndpoint returns the slices that have some endpoints, one endpoint after another: each is gone when its slices are
// written.
func byEndpoint(all []*hostSlice, is func(endpointID) bool) []*hostSlice {
	of := map[*hostSlice]endpointID{}
	for _, slice := range all {
		for _, id := range slice.endpoints {
			if first, known := of[slice]; is(id) && (!known || id < first) {
				of[slice] = id
			}
		}
	}
	return slices.SortedFunc(maps.Keys(of), func(a, b *hostSlice) int { return cmp.Compare(of[a], of[b]) })
}

// removeStaleOf writes a slice without the endpoints whose addresses no pod has or, where a tenant has had many of
// these, deletes it.
func (s *syncer) removeStaleOf(ctx context.Context, n tenant.Name, of *hostSlice, has addresses) error {
	slice, err := of.whole()
	if err != nil {
		return err
	}
	client := s.host.DiscoveryV1().EndpointSlices(of.Namespace)
	slice.Endpoints = slices.DeleteFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return slices.ContainsFunc(endpointIDs(e), has.lack) })
	if s.staleBytes.Take(s.clock.Now(), n, max(leastCopy, storedBytes(slice, 0))) > 0 {
		defer s.enqueueSlicesOf(of)
		return s.deleteSlice(ctx, client, slice)
	}
	written, err := client.Update(ctx, slice, metav1.UpdateOptions{FieldManager: fieldManager})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case isRefused(err): // such as by a policy of the host: it would be so for ever
		return s.deleteSlice(ctx, client, slice)
	case err != nil:
		return fmt.Errorf("writing the slice %s/%s without addresses that no pod has: %w", slice.Namespace, slice.Name, err)
	}
	s.sliceTracker.Update(written)
	return nil
}

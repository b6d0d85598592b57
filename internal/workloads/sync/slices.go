package sync

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// sliceManager is who makes the slices, as their label says: the host's controllers leave those of others alone.
	// The policy of config/workloads names it.
	sliceManager = "syncer.workloads.tenantry.io"
	// endpointsPerSlice is how many endpoints a slice has at most, as those of the host's controller.
	endpointsPerSlice = 100
	// maxSlicedPorts is how many ports a Service may have whose slices are made: as in its space.
	maxSlicedPorts = 100
	// writtenSlices is how many slices of a Service are written before its pods are looked at again.
	writtenSlices = 100
	// maxSliceBytes is what all slices of a tenant take on the host: those of 500 Services of 300 pods.
	maxSliceBytes = 32 << 20
	// leastSlice is as how many bytes of that a slice counts at least: each is a request when its pods end, and they
	// are 2,000 at most.
	leastSlice = 16 << 10
	// behindPeriod is for how long the cache is waited for that does not have slices as they were written. It never
	// will if the host has answered after it has told of their end.
	behindPeriod = 30 * time.Second
	// noRoomPeriod is after what time it is looked whether there is room for slices by then.
	noRoomPeriod = time.Minute
)

// leftBy are those of the host's controllers that make slices of a Service with a selector, or of its Endpoints when it
// has none any more.
var leftBy = map[string]bool{"endpointslice-controller.k8s.io": true, "endpointslicemirroring-controller.k8s.io": true}

// syncSlices makes the slices of a host's Service lead to the pods that the space's selects. The host's Service selects
// none: the host's own controllers would make those of all tenants at one rate, however many one of them asks for.
func (s *syncer) syncSlices(ctx context.Context, i item) error {
	s.batches.begin(i)
	service, all, err := sides(i, s.services.Services(i.namespace.String()).Get, s.hostCaches.servicesOf)
	if err != nil {
		return err
	}
	host, _, err := counterpart(s, "Service", service, all, func(*corev1.Service) error { return nil }) // syncService removes others
	if err != nil || host == nil || host.DeletionTimestamp != nil {
		s.forgetSlices(i) // the host takes them away with their Service
		return err
	}
	if n := len(service.Spec.Ports); n > maxSlicedPorts {
		return s.recordRefusal(ctx, service, fmt.Sprintf("it has %d ports, and a Service of which the host cluster is to know the pods has at most %d; make several Services", n, maxSlicedPorts))
	}
	pods, err := s.endpointsOf(service, host)
	if err != nil {
		return err
	}
	if s.postpone(comparisonBudget, i, comparisons(len(pods), len(service.Spec.Ports))) {
		return nil
	}
	s.batches.note(i)
	wanted, skipped, err := s.wantedSlices(ctx, service, host, pods)
	next := min(len(wanted), writtenSlices)
	switch {
	case err != nil:
	case len(wanted) == 0:
		s.writeBudgets[sliceBudget].drop(i)
	case s.tooManyBytes(i.tenant, host, wanted[:next]):
		s.writeBudgets[sliceBudget].drop(i)
		s.queue.AddAfter(i, noRoomPeriod) // nothing says when there is room
		err = s.recordRefusal(ctx, service, fmt.Sprintf("the EndpointSlices of the tenant's Services take more than %d bytes on the host cluster; "+
			"have fewer Services of the same pods, or fewer ports", maxSliceBytes))
	case s.postpone(sliceBudget, i, bytesOf(wanted[:next])):
	default:
		if err = s.writeSlices(ctx, service, host, wanted[:next]); err == nil && next < len(wanted) {
			s.enqueueSlices(i)
		}
	}
	return errors.Join(skipped, err)
}

// tooManyBytes reports whether the slices of a tenant would take more on the host than they may. How many there are is
// a product of what quotas bound: pods whose ports differ have a slice each, with all ports of each Service.
func (s *syncer) tooManyBytes(n tenant.Name, host *corev1.Service, wanted []sliceWrite) bool {
	more := 0
	for _, w := range wanted {
		if !w.deletes {
			more += max(leastSlice, w.slice.Size())
		}
		if there, err := cached[hostSlice](s.hostCaches.slices, host.Namespace+"/"+w.slice.Name); err == nil && there != nil {
			more -= max(leastSlice, there.stored)
		}
	}
	return more > 0 && s.hostCaches.sliceBytes(n)+more > maxSliceBytes
}

// forgetSlices forgets what is counted for the slices of a Service that is gone.
func (s *syncer) forgetSlices(i item) {
	s.writeBudgets.drop(i)
	s.batches.forget(i)
}

// comparisons returns what it costs to compare so many pods, each with so many ports, which upstream sorts for each
// pod.
func comparisons(pods, ports int) int { return 1 + pods*(1+ports*bits.Len(uint(ports))) }

// endpointsOf returns the host's pods that a Service selects in its space, as upstream is to see them: who selects
// them, and what their ports are called, is said in the space; where they are and whether they are ready, by the host
// alone. A pod that a space does not have, and that nobody was seen to delete, as after an old backup, is led to for as
// long as it stays.
func (s *syncer) endpointsOf(service, host *corev1.Service) ([]*corev1.Pod, error) {
	if !leads(service) {
		return nil, nil
	}
	all, err := objects.Indexed[*corev1.Pod](s.hostCaches.pods.GetIndexer(), cache.NamespaceIndex, host.Namespace)
	if err != nil {
		return nil, err
	}
	of, _, _ := sourceOf(host)
	selector := labels.ValidatedSetSelector(service.Spec.Selector)
	var pods []*corev1.Pod
	for _, there := range all {
		if !translate.OwnsAddresses(there) {
			continue
		}
		pod, err := orNil(s.pods.Pods(service.Namespace).Get(there.Name))
		if err != nil {
			return nil, err
		}
		if pod == nil || pod.UID != uidOf(there) {
			if _, seen := s.deleted.of(uidOf(there)); seen {
				continue
			}
			pod = there
		}
		if selector.Matches(labels.Set(pod.Labels)) && of.Has(there, there.Name) {
			pods = append(pods, endpointOf(pod, there))
		}
	}
	return pods, nil
}

// endpointOf returns what upstream is to see of a host's pod for one of a space.
func endpointOf(pod, there *corev1.Pod) *corev1.Pod {
	endpoint := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: there.Name, Namespace: there.Namespace, UID: there.UID, DeletionTimestamp: there.DeletionTimestamp},
		Spec: corev1.PodSpec{
			NodeName: there.Spec.NodeName, Hostname: pod.Spec.Hostname, Subdomain: pod.Spec.Subdomain,
			Containers: pod.Spec.Containers, InitContainers: pod.Spec.InitContainers,
		},
		Status: there.Status,
	}
	if endpoint.DeletionTimestamp == nil {
		endpoint.DeletionTimestamp = pod.DeletionTimestamp
	}
	return endpoint
}

// leads reports whether a Service leads to pods.
func leads(service *corev1.Service) bool {
	return len(service.Spec.Selector) > 0 && service.Spec.Type != corev1.ServiceTypeExternalName
}

// wantedSlices returns what is to be written so that the slices of a host's Service lead to some pods, and why some are
// skipped. What the host's controllers have made goes last, and when they make no more.
func (s *syncer) wantedSlices(ctx context.Context, service, host *corev1.Service, pods []*corev1.Pod) (wanted []sliceWrite, skipped, err error) {
	ours, left, err := s.hostCaches.slicesOf(host)
	if err != nil {
		return nil, nil, err
	}
	if of := host.Namespace + "/" + host.Name; !s.sliceTracker.StaleSlices(host, ours) {
		s.behind.Delete(of)
	} else if left := s.behind.left(of); left <= 0 {
		s.sliceTracker.DeleteService(host.Namespace, host.Name)
		s.behind.Delete(of)
	} else {
		s.queue.AddAfter(itemOf(slicesItem, service), left) // after failures it would come later
		return nil, nil, fmt.Errorf("%w: it has other slices of the host's Service %s/%s than were written", errBehind, host.Namespace, host.Name)
	}
	recorded := &recorder{there: ours}
	if leads(service) {
		of, _, _ := sourceOf(host)
		asItIs := translate.Rules{}.Service(service, of)
		asItIs.UID = host.UID
		reconciler := endpointslice.NewReconciler(recorded, corelisters.NewNodeLister(s.hostNodes.GetIndexer()), endpointsPerSlice,
			endpointsliceutil.NewEndpointSliceTracker(), nil, nil, sliceManager, endpointslice.WithPreferSameTrafficDistributionEnabled(true))
		skipped = reconciler.Reconcile(klog.FromContext(ctx).V(4), asItIs, pods, ours, time.Time{})
	} else {
		left = append(left, ours...)
	}
	if skipped == nil && len(host.Spec.Selector) == 0 {
		for _, slice := range left {
			recorded.writes = append(recorded.writes, sliceWrite{slice, true})
		}
	}
	return recorded.writes, skipped, nil
}

// writeSlices writes slices of a Service.
func (s *syncer) writeSlices(ctx context.Context, service, host *corev1.Service, all []sliceWrite) error {
	client := s.host.DiscoveryV1().EndpointSlices(host.Namespace)
	for _, w := range all {
		var written *discoveryv1.EndpointSlice
		var err error
		switch {
		case w.deletes:
			err = s.removeSlice(ctx, client, host, w.slice)
		case w.slice.Name == "":
			written, err = client.Create(ctx, w.slice, metav1.CreateOptions{FieldManager: fieldManager})
		default:
			written, err = client.Update(ctx, w.slice, metav1.UpdateOptions{FieldManager: fieldManager})
		}
		if isRefused(err) {
			of, _, _ := sourceOf(host)
			err = errors.Join(err, s.recordRefusal(ctx, service, notTaken(err, of)))
		}
		if err != nil {
			return fmt.Errorf("writing slices of the host's Service %s/%s: %w", host.Namespace, host.Name, err)
		}
		if written != nil {
			s.sliceTracker.Update(written)
		}
	}
	return nil
}

// removeSlice deletes a slice. With one of the host's controllers go the Endpoints of its Service, of which the host
// would make another.
func (s *syncer) removeSlice(ctx context.Context, client deleter, host *corev1.Service, slice *discoveryv1.EndpointSlice) error {
	if slice.Labels[discoveryv1.LabelManagedBy] != sliceManager {
		if err := s.host.CoreV1().Endpoints(host.Namespace).Delete(ctx, host.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting its Endpoints: %w", err)
		}
		return deleteOne(ctx, client, "a slice of the host's controllers", slice, nil)
	}
	return s.deleteSlice(ctx, client, slice)
}

// deleteSlice deletes one that is ours.
func (s *syncer) deleteSlice(ctx context.Context, client deleter, slice *discoveryv1.EndpointSlice) error {
	if err := deleteOne(ctx, client, "a slice", slice, nil); err != nil {
		return err
	}
	s.sliceTracker.ExpectDeletion(slice)
	return nil
}

// sliceWrite is a slice that is to be written, or deleted. One without a name is to be made.
type sliceWrite struct {
	slice   *discoveryv1.EndpointSlice
	deletes bool
}

// bytesOf returns how many bytes a host stores for some slices. Deletions are small.
func bytesOf(all []sliceWrite) (n int) {
	for _, w := range all {
		bytes := leastCopy
		if !w.deletes {
			bytes = max(bytes, storedBytes(w.slice, 0))
		}
		n += bytes
	}
	return n
}

// recorder notes what upstream would write: it is written when its turn comes. Nothing else is asked of it.
type recorder struct {
	kubernetes.Interface
	discoveryclient.DiscoveryV1Interface
	discoveryclient.EndpointSliceInterface
	there  []*discoveryv1.EndpointSlice
	writes []sliceWrite
}

// DiscoveryV1 implements kubernetes.Interface.
func (r *recorder) DiscoveryV1() discoveryclient.DiscoveryV1Interface { return r }

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (r *recorder) EndpointSlices(string) discoveryclient.EndpointSliceInterface { return r }

// Create implements discoveryclient.EndpointSliceInterface.
func (r *recorder) Create(_ context.Context, slice *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	r.writes = append(r.writes, sliceWrite{slice: slice})
	return slice, nil
}

// Update implements discoveryclient.EndpointSliceInterface.
func (r *recorder) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	return r.Create(ctx, slice, metav1.CreateOptions{})
}

// Delete implements discoveryclient.EndpointSliceInterface.
func (r *recorder) Delete(_ context.Context, name string, _ metav1.DeleteOptions) error {
	for _, slice := range r.there {
		if slice.Name == name {
			r.writes = append(r.writes, sliceWrite{slice, true})
		}
	}
	return nil
}

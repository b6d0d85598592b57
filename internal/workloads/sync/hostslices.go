package sync

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// hostSlice is a slice of the host as the cache has it: as compressed bytes, which are a tenth of what it takes
// otherwise. A tenant chooses how many of its Services have the same pods.
type hostSlice struct {
	metav1.ObjectMeta
	written []byte
	// stored is how many bytes it has.
	stored    int
	endpoints []endpointID
}

// packers are those that compress slices: each takes more than a slice.
var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // there is this level
	return w
}}

// slimSlice returns what the cache has of a slice.
func slimSlice(slice *discoveryv1.EndpointSlice) (*hostSlice, error) {
	slice.ManagedFields = nil
	written, err := slice.Marshal()
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&packed)
	_, err = w.Write(written)
	err = errors.Join(err, w.Close())
	var endpoints []endpointID
	for _, e := range slice.Endpoints {
		endpoints = append(endpoints, endpointIDs(e)...)
	}
	return &hostSlice{metav1.ObjectMeta{
		Name: slice.Name, Namespace: slice.Namespace, UID: slice.UID, ResourceVersion: slice.ResourceVersion, Generation: slice.Generation,
		Labels: slice.Labels, DeletionTimestamp: slice.DeletionTimestamp,
	}, bytes.Clone(packed.Bytes()), len(written), endpoints}, err
}

// whole returns the slice that slimSlice was given.
func (s *hostSlice) whole() (*discoveryv1.EndpointSlice, error) {
	slice := &discoveryv1.EndpointSlice{}
	written, err := io.ReadAll(flate.NewReader(bytes.NewReader(s.written)))
	if err == nil {
		err = slice.Unmarshal(written)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the slice %s/%s of a cache: %w", s.Namespace, s.Name, err)
	}
	return slice, nil
}

// sliceBytes returns as how many bytes the slices of a tenant count.
func (h *hostCaches) sliceBytes(n tenant.Name) (bytes int) {
	namespaces, _ := objects.Indexed[*corev1.Namespace](h.namespaces.GetIndexer(), byTenant, string(n)) // there is this index
	for _, namespace := range namespaces {
		all, _ := objects.Indexed[*hostSlice](h.slices.GetIndexer(), cache.NamespaceIndex, namespace.Name)
		for _, slice := range all {
			bytes += max(leastSlice, slice.stored)
		}
	}
	return bytes
}

func sliceService(obj any) ([]string, error) {
	slice := obj.(*hostSlice)
	return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
}

// slicesOf returns the slices of a host's Service: ours, and those that the host's controllers have left.
func (h *hostCaches) slicesOf(service *corev1.Service) (ours, left []*discoveryv1.EndpointSlice, err error) {
	all, err := objects.Indexed[*hostSlice](h.slices.GetIndexer(), byService, service.Namespace+"/"+service.Name)
	if err != nil {
		return nil, nil, err
	}
	for _, of := range all {
		slice, err := of.whole()
		if err != nil {
			return nil, nil, err
		}
		switch manager := slice.Labels[discoveryv1.LabelManagedBy]; {
		case slice.DeletionTimestamp != nil:
		case manager == sliceManager:
			ours = append(ours, slice)
		case leftBy[manager]:
			left = append(left, slice)
		}
	}
	return ours, left, nil
}

// hostSliceChanged has the slices of a Service looked at, unless the syncer itself has written this one so.
func (s *syncer) hostSliceChanged(obj any) {
	slice := obj.(*hostSlice)
	s.enqueueStale(slice.Namespace)
	if s.sliceTracker.ShouldSync(&discoveryv1.EndpointSlice{ObjectMeta: slice.ObjectMeta}) {
		s.enqueueSlicesOf(slice)
	}
}

// hostSliceUpdated is hostSliceChanged where both states are known: the generation does not say that somebody has
// changed the labels.
func (s *syncer) hostSliceUpdated(before, obj any) {
	if was := before.(*hostSlice); !maps.Equal(was.Labels, obj.(*hostSlice).Labels) {
		s.enqueueSlicesOf(was)
		s.enqueueSlicesOf(obj.(*hostSlice))
		return
	}
	s.hostSliceChanged(obj)
}

func (s *syncer) hostSliceGone(obj any, _ bool) {
	slice := obj.(*hostSlice)
	of := &discoveryv1.EndpointSlice{ObjectMeta: slice.ObjectMeta}
	if !s.sliceTracker.Has(of) || !s.sliceTracker.HandleDeletion(of) { // somebody else has deleted it, or a syncer before
		s.enqueueSlicesOf(slice)
	}
}

// enqueueSlicesOf has the slices looked at of the Service that one says to be of. What is in a namespace that is not
// known yet is looked at with it.
func (s *syncer) enqueueSlicesOf(slice *hostSlice) {
	namespace, err := s.hostCaches.namespace(slice.Namespace)
	if err != nil || namespace == nil {
		return
	}
	if of, ok := namespaceOf(namespace); ok {
		s.enqueueSlices(itemFor(slicesItem, of.Flat(), slice.Labels[discoveryv1.LabelServiceName]))
	}
}

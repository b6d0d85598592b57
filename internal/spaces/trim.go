package spaces

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/process/intern"
	"github.com/tenantry/tenantry/internal/tenant"
)

// rootCAConfigMap is the config map that the root CA publisher compares with the
// certificates it publishes.
const rootCAConfigMap = "kube-root-ca.crt"

// trim drops from a cached object the fields that no consumer reads, and shares values that
// are equal for all tenants. An idle tenant has some 14 objects in the view, nearly all of
// them equal to those of every other tenant except for the name.
//
// The last-applied annotation stays: controllers write whole objects back.
func trim(obj runtime.Object, accessor metav1.Object) {
	accessor.SetManagedFields(nil)
	accessor.SetSelfLink("")
	annotations := accessor.GetAnnotations()
	delete(annotations, tenant.Annotation)
	accessor.SetAnnotations(sharedMap(annotations))
	accessor.SetLabels(sharedMap(accessor.GetLabels()))
	if accessor.GetNamespace() != "" && accessor.GetGenerateName() == "" {
		accessor.SetName(intern.String(accessor.GetName()))
	}
	switch obj := obj.(type) {
	case *corev1.Namespace:
		if slices.Equal(obj.Spec.Finalizers, kubernetesFinalizer) {
			obj.Spec.Finalizers = kubernetesFinalizer
		}
	case *corev1.ResourceQuota:
		obj.Spec.Hard = sharedResources(obj.Spec.Hard)
		obj.Status.Hard = sharedResources(obj.Status.Hard)
		obj.Status.Used = sharedResources(obj.Status.Used)
	case *corev1.ConfigMap:
		trimConfigMap(obj)
	case *corev1.Secret:
		trimSecret(obj)
	}
}

var kubernetesFinalizer = slices.Clip([]corev1.FinalizerName{corev1.FinalizerKubernetes})

func trimConfigMap(c *corev1.ConfigMap) {
	if c.Name == rootCAConfigMap {
		c.Data = sharedMap(c.Data)
		return
	}
	c.Data, c.BinaryData = nil, nil
	c.Annotations = withoutLastApplied(c.Annotations)
}

// trimSecret keeps the contents of service account tokens, which authentication
// compares with the token of the request.
func trimSecret(s *corev1.Secret) {
	if s.Type == corev1.SecretTypeServiceAccountToken {
		return
	}
	s.Data, s.StringData = nil, nil
	s.Annotations = withoutLastApplied(s.Annotations)
}

// withoutLastApplied drops the annotation that repeats the contents.
func withoutLastApplied(annotations map[string]string) map[string]string {
	if _, ok := annotations[corev1.LastAppliedConfigAnnotation]; !ok {
		return annotations
	}
	annotations = maps.Clone(annotations) // may be shared
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}

// The tables of shared values have a fixed size. A new value replaces the one that occupies
// its slot, so frequent values are nearly always there, and a rare one costs nothing once
// its object is gone.
const sharedSlots = 4096

var (
	seed        = maphash.MakeSeed()
	sharedMaps  [sharedSlots]atomic.Pointer[map[string]string]
	sharedLists [sharedSlots]atomic.Pointer[corev1.ResourceList]
)

// sharedMap returns a map equal to m: nil for an empty one, and the same map for all equal
// maps of one entry. Cached objects are read-only, so sharing is safe.
func sharedMap(m map[string]string) map[string]string {
	switch len(m) {
	case 0:
		return nil
	case 1:
	default:
		return m
	}
	var slot *atomic.Pointer[map[string]string]
	for key, value := range m {
		var h maphash.Hash
		h.SetSeed(seed)
		h.WriteString(key)
		h.WriteString(value)
		slot = &sharedMaps[h.Sum64()%sharedSlots]
	}
	if p := slot.Load(); p != nil && maps.Equal(*p, m) {
		return *p
	}
	slot.Store(&m)
	return m
}

// sharedResources returns the same list for all equal lists: idle tenants have the same
// default quota and the same usage.
func sharedResources(list corev1.ResourceList) corev1.ResourceList {
	if len(list) == 0 {
		return list
	}
	sum := uint64(0)
	for name, quantity := range list {
		sum += maphash.Comparable(seed, resourceAmount{name, quantity.Value()})
	}
	slot := &sharedLists[sum%sharedSlots]
	if p := slot.Load(); p != nil && equality.Semantic.DeepEqual(*p, list) {
		return *p
	}
	slot.Store(&list)
	return list
}

type resourceAmount struct {
	name  corev1.ResourceName
	value int64
}

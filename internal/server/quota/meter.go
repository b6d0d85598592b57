package quota

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// meter says what objects of one resource use, by upstream's evaluator of the
// resource and their size.
type meter struct {
	quota.Evaluator
}

// meters are a registry of meters. It knows every resource and keeps none but
// upstream's: what tenants define comes and goes.
type meters map[schema.GroupResource]meter

var _ quota.Registry = meters{}

func newMeters(evaluators []quota.Evaluator) meters {
	m := make(meters, len(evaluators))
	for _, evaluator := range evaluators {
		m[evaluator.GroupResource()] = meter{evaluator}
	}
	return m
}

// Get implements quota.Registry.
func (m meters) Get(resource schema.GroupResource) quota.Evaluator { return m.of(resource) }

func (m meters) of(resource schema.GroupResource) meter {
	if known, ok := m[resource]; ok {
		return known
	}
	return meter{generic.NewObjectCountEvaluator(resource, nil, "")}
}

// Add implements quota.Registry.
func (meters) Add(quota.Evaluator) {}

// Remove implements quota.Registry.
func (meters) Remove(quota.Evaluator) {}

// List implements quota.Registry.
func (meters) List() []quota.Evaluator { return nil }

// MatchingResources implements quota.Evaluator.
func (m meter) MatchingResources(names []corev1.ResourceName) []corev1.ResourceName {
	matching := m.Evaluator.MatchingResources(names)
	if slices.Contains(names, v1alpha1.ResourceStoredBytes) && !slices.Contains(matching, v1alpha1.ResourceStoredBytes) {
		matching = append(matching, v1alpha1.ResourceStoredBytes)
	}
	return matching
}

// The evaluator of admission gets readings, of changes that have been found to use
// more.

// Handles implements quota.Evaluator.
func (meter) Handles(admission.Attributes) bool { return true }

// Constraints implements quota.Evaluator.
func (meter) Constraints([]corev1.ResourceName, runtime.Object) error { return nil }

// MatchingScopes implements quota.Evaluator: a tenant's quota has none.
func (meter) MatchingScopes(runtime.Object, []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	return nil, nil
}

// Matches implements quota.Evaluator.
func (m meter) Matches(q *corev1.ResourceQuota, _ runtime.Object) (bool, error) {
	return len(m.MatchingResources(quota.ResourceNames(q.Status.Hard))) > 0, nil
}

// Usage implements quota.Evaluator.
func (meter) Usage(obj runtime.Object) (corev1.ResourceList, error) {
	r, ok := obj.(*reading)
	if !ok {
		return nil, fmt.Errorf("unexpected object %T", obj)
	}
	return r.usage, nil
}

// read returns what an object of the space of n uses of the named resources.
func (m meter) read(n tenant.Name, obj runtime.Object, names []corev1.ResourceName, size func(runtime.Object) (int64, error)) (corev1.ResourceList, error) {
	if obj == nil {
		return corev1.ResourceList{}, nil
	}
	flat, err := flatten(n, obj)
	if err != nil {
		return nil, err
	}
	usage, err := m.Evaluator.Usage(flat)
	if err != nil {
		return nil, err
	}
	usage = quota.Mask(usage, names)
	if slices.Contains(names, v1alpha1.ResourceStoredBytes) {
		bytes, err := size(obj)
		if err != nil {
			return nil, err
		}
		usage[v1alpha1.ResourceStoredBytes] = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	return usage, nil
}

// flatten returns a copy of obj as upstream's evaluators may see it: in its
// flattened namespace, because some look for what belongs to it there, and as if it
// were not being deleted. Upstream counts a pod no longer once its time is up; here
// nothing is free before it is gone, because nothing would tell that it is.
func flatten(n tenant.Name, obj runtime.Object) (runtime.Object, error) {
	flat := objects.ShallowCopy(Asked(obj))
	accessor, err := meta.Accessor(flat)
	if err != nil {
		return nil, err
	}
	if namespace := accessor.GetNamespace(); namespace != "" {
		accessor.SetNamespace(tenant.Flatten(n, namespace).String())
	}
	accessor.SetDeletionTimestamp(nil)
	return flat, nil
}

// reading is an object of which only is known what it uses.
type reading struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	usage corev1.ResourceList
}

// newReading returns a reading for the evaluator, to which an object exists that
// has a version.
func newReading(name string, usage corev1.ResourceList) *reading {
	return &reading{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, usage: usage}
}

// DeepCopyObject implements runtime.Object.
func (r *reading) DeepCopyObject() runtime.Object {
	copied := *r
	copied.ObjectMeta = *r.ObjectMeta.DeepCopy()
	copied.usage = r.usage.DeepCopy()
	return &copied
}

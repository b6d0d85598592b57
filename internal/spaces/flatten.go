package spaces

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tenantry/tenantry/internal/tenant"
)

// flattenAll brings obj, or the items of the list obj, into the flattened view,
// in place. Anything that is neither (a Status) stays as it is.
func flattenAll(obj runtime.Object) error {
	if meta.IsListType(obj) {
		return meta.EachListItem(obj, flatten)
	}
	return flatten(obj)
}

// flatten brings one object into the flattened view, in place, and drops fields that no
// consumer of the view reads.
func flatten(obj runtime.Object) error {
	accessor, ok := obj.(metav1.Object)
	if !ok {
		return nil
	}
	owner, err := ownerOf(accessor)
	if err != nil {
		return err
	}
	tenant.FlattenObject(owner, accessor)
	flattenReferences(obj, owner)
	trim(obj, accessor)
	return nil
}

// ownerOf returns the tenant of an object as the server sent it.
func ownerOf(obj metav1.Object) (tenant.Name, error) {
	name, ok := obj.GetAnnotations()[tenant.Annotation]
	if !ok {
		return tenant.System, nil
	}
	owner, err := tenant.Parse(name)
	if err != nil {
		return "", fmt.Errorf("flattening %s/%s: %w", obj.GetNamespace(), obj.GetName(), err)
	}
	return owner, nil
}

// flattenReferences flattens the namespaces inside an object that a controller
// computes from its view and compares with the stored ones.
func flattenReferences(obj runtime.Object, owner tenant.Name) {
	if cronJob, ok := obj.(*batchv1.CronJob); ok {
		inNamespace(cronJob.Status.Active, cronJob.Namespace)
	}
	if owner == tenant.System {
		return
	}
	switch obj := obj.(type) {
	case *corev1.Endpoints:
		for i := range obj.Subsets {
			flattenAddresses(obj.Subsets[i].Addresses, owner)
			flattenAddresses(obj.Subsets[i].NotReadyAddresses, owner)
		}
	case *discoveryv1.EndpointSlice:
		for i := range obj.Endpoints {
			flattenReference(obj.Endpoints[i].TargetRef, owner)
		}
	}
}

// inNamespace sets the namespace of references. By those to its active Jobs, the controller
// gets and deletes Jobs for a CronJob. Its users write them in the status, but its Jobs are in
// its own namespace.
func inNamespace(references []corev1.ObjectReference, namespace string) {
	for i := range references {
		references[i].Namespace = namespace
	}
}

func flattenAddresses(addresses []corev1.EndpointAddress, owner tenant.Name) {
	for i := range addresses {
		flattenReference(addresses[i].TargetRef, owner)
	}
}

func flattenReference(ref *corev1.ObjectReference, owner tenant.Name) {
	if ref != nil && !strings.Contains(ref.Namespace, tenant.FlatSeparator) {
		ref.Namespace = tenant.Flatten(owner, ref.Namespace).String()
	}
}

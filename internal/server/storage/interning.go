package storage

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/process/intern"
)

// rootCAConfigMap is the config map with the cluster's certificate authorities,
// about one kilobyte, that every namespace of every space has.
const rootCAConfigMap = "kube-root-ca.crt"

// interningCodec makes the objects that enter the watch cache share equal strings. An idle
// tenant has some 15 objects, nearly all of them equal to those of every other tenant
// except for the tenant.
//
// Only strings are shared, because they are immutable. With a shared map, a write to one
// tenant's object would change another's.
type interningCodec struct {
	runtime.Codec
}

// Decode implements runtime.Decoder. Watches decode without an object to decode into, and
// their objects stay in the cache; others last for one request.
func (c interningCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if err == nil && into == nil {
		internStrings(obj)
	}
	return obj, kind, err
}

func internStrings(obj runtime.Object) {
	accessor, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return
	}
	object, ok := accessor.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return
	}
	object.Namespace = intern.String(object.Namespace)
	if object.GenerateName == "" {
		object.Name = intern.String(object.Name)
	}
	intern.Map(object.Annotations)
	intern.Map(object.Labels)
	for i := range object.ManagedFields {
		entry := &object.ManagedFields[i]
		entry.Manager = intern.String(entry.Manager)
		entry.APIVersion = intern.String(entry.APIVersion)
		entry.FieldsType = intern.String(entry.FieldsType)
		entry.Subresource = intern.String(entry.Subresource)
		entry.Operation = metav1.ManagedFieldsOperationType(intern.String(string(entry.Operation)))
	}
	if config, ok := obj.(*core.ConfigMap); ok && config.Name == rootCAConfigMap {
		intern.Map(config.Data)
	}
}

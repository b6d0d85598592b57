package storage

import (
	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// foreignCodec keeps the custom resources of other spaces away from the
// definitions of this one. A range of etcd may hold both, and an object that
// was stored by another definition need not even decode by ours.
type foreignCodec struct {
	runtime.Codec
	only tenant.Name
}

const annotationPath = `metadata.annotations.multi-tenancy\.k8s\.io/tenant`

// Decode implements runtime.Decoder. Of a foreign object it returns just enough
// to be left out: name, namespace and tenant.
func (c foreignCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	owner := tenant.System
	if annotation := gjson.GetBytes(data, annotationPath); annotation.Exists() {
		owner = tenant.Name(annotation.String())
	}
	if owner == c.only {
		return c.Codec.Decode(data, defaults, into)
	}
	object, ok := into.(*unstructured.Unstructured)
	if !ok {
		object = &unstructured.Unstructured{}
	}
	gvk := object.GroupVersionKind()
	object.SetUnstructuredContent(map[string]any{})
	object.SetGroupVersionKind(gvk)
	object.SetName(gjson.GetBytes(data, "metadata.name").String())
	object.SetNamespace(gjson.GetBytes(data, "metadata.namespace").String())
	if owner != tenant.System {
		object.SetAnnotations(map[string]string{tenant.Annotation: string(owner)})
	}
	return object, &gvk, nil
}

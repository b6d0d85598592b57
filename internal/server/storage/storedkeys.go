package storage

import (
	"io"
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/objects"
	"github.com/tenantry/tenantry/internal/tenant"
)

// keysCodec gives the keys that only the server and its publisher write the names that etcd
// has them by: the former ones. A server of an earlier version, beside this one or after it, would
// take what it finds without them for objects of the system space. Above etcd there are the
// present names alone; what a client writes by a former one is not stored.
type keysCodec struct {
	runtime.Codec
}

// present and former are the names of a key.
const present, former = 0, 1

var (
	storedAnnotations = [][2]string{names(tenant.Annotation), names(tenant.PublishedFromAnnotation)}
	storedLabels      = [][2]string{names(tenant.PublishedCopyLabel), names(tenant.PublishedDefinitionLabel)}
)

func names(key string) [2]string { return [2]string{present: key, former: tenant.Former(key)} }

// Decode implements runtime.Decoder.
func (c keysCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, kind, err := c.Codec.Decode(data, defaults, into)
	if err != nil {
		return obj, kind, err
	}
	presentNames(obj)
	return obj, kind, nil
}

// presentNames gives the keys of a stored object their present names.
func presentNames(obj runtime.Object) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return
	}
	if annotations := object.GetAnnotations(); rename(annotations, storedAnnotations, former, present) {
		object.SetAnnotations(annotations)
	}
	if labels := object.GetLabels(); rename(labels, storedLabels, former, present) {
		object.SetLabels(labels)
	}
}

// Encode implements runtime.Encoder. The object may be one of the cache, and stays as it is.
func (c keysCodec) Encode(obj runtime.Object, w io.Writer) error {
	if object, err := meta.Accessor(obj); err == nil {
		annotations, labels := maps.Clone(object.GetAnnotations()), maps.Clone(object.GetLabels())
		annotated := rename(annotations, storedAnnotations, present, former)
		if labelled := rename(labels, storedLabels, present, former); annotated || labelled {
			obj = objects.ShallowCopy(obj)
			stored, err := meta.Accessor(obj)
			if err != nil {
				return err
			}
			stored.SetAnnotations(annotations)
			stored.SetLabels(labels)
		}
	}
	return c.Codec.Encode(obj, w)
}

// rename changes the names of keys in m, and reports whether it has changed m. What has the
// other name already is not the server's, and is dropped.
func rename(m map[string]string, keys [][2]string, from, to int) (changed bool) {
	for _, key := range keys {
		if _, ok := m[key[to]]; ok {
			delete(m, key[to])
			changed = true
		}
		if value, ok := m[key[from]]; ok {
			delete(m, key[from])
			m[key[to]] = value
			changed = true
		}
	}
	return changed
}

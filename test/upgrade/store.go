package main

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tenantry/tenantry/internal/tenant"
)

// where is where an object is.
type where struct{ space, namespace, name string }

// store is what a server shows: the objects by resource and place.
type store map[schema.GroupVersionResource]map[where]*unstructured.Unstructured

func (s store) resources() []schema.GroupVersionResource { return slices.Collect(maps.Keys(s)) }

func (s store) len() int {
	n := 0
	for _, objects := range s {
		n += len(objects)
	}
	return n
}

// without returns s without some resources.
func (s store) without(skip func(resource string) bool) store {
	kept := maps.Clone(s)
	maps.DeleteFunc(kept, func(r schema.GroupVersionResource, _ map[where]*unstructured.Unstructured) bool {
		return skip(r.Resource)
	})
	return kept
}

// same reports whether nothing has been written meanwhile.
func (s store) same(other store) bool {
	return maps.EqualFunc(s, other, func(a, b map[where]*unstructured.Unstructured) bool {
		return maps.EqualFunc(a, b, func(a, b *unstructured.Unstructured) bool {
			return a.GetResourceVersion() == b.GetResourceVersion()
		})
	})
}

// compare returns what was written since, and what is not there or is different though
// nobody has written it.
func (s store) compare(found store) (changed, missing []string) {
	for resource, objects := range s {
		for at, before := range objects {
			id := fmt.Sprintf("%s in %q: %s/%s", resource.GroupResource(), at.space, at.namespace, at.name)
			after, ok := found[resource][at]
			switch {
			case expires(resource.Resource):
			case !ok:
				missing = append(missing, id+" is not there")
			case after.GetUID() != before.GetUID():
				missing = append(missing, id+" is another object")
			case after.GetResourceVersion() != before.GetResourceVersion():
				changed = append(changed, id)
			case isDefault(before): // the space shows what this version has
			case !keeps(renamed(before).Object, after.Object):
				missing = append(missing, fmt.Sprintf("%s is different: %v, was %v", id, after.Object, before.Object))
			}
		}
	}
	return changed, missing
}

// renamed returns an object with the keys of the server's own as they are called now.
func renamed(object *unstructured.Unstructured) *unstructured.Unstructured {
	object = object.DeepCopy()
	annotations, labels := object.GetAnnotations(), object.GetLabels()
	for _, key := range []string{tenant.Annotation, tenant.PublishedFromAnnotation} {
		rename(annotations, key)
	}
	for _, key := range []string{tenant.PublishedCopyLabel, tenant.PublishedDefinitionLabel} {
		rename(labels, key)
	}
	object.SetAnnotations(annotations)
	object.SetLabels(labels)
	return object
}

func rename(m map[string]string, key string) {
	if value, ok := m[tenant.Former(key)]; ok {
		delete(m, tenant.Former(key))
		m[key] = value
	}
}

// keeps reports whether a value has kept all that it had. A version may have new fields
// with defaults.
func keeps(before, after any) bool {
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		for name := range b {
			ok = ok && keeps(b[name], a[name])
		}
		return ok
	case []any:
		a, ok := after.([]any)
		return ok && slices.EqualFunc(b, a, keeps)
	default:
		return reflect.DeepEqual(before, after)
	}
}

// isDefault reports whether an object is a ClusterRole that every space has without storing it. Its rules grow with
// versions.
func isDefault(object *unstructured.Unstructured) bool {
	return object.GetKind() == "ClusterRole" && object.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults"
}

// expires reports whether objects of a resource go by themselves.
func expires(resource string) bool { return resource == "events" || resource == "leases" }

package storage

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// isZero reports whether a Get that ignores missing objects found none.
func isZero(obj runtime.Object) bool {
	accessor, err := meta.Accessor(obj)
	return err == nil && accessor.GetResourceVersion() == ""
}

// runtimeZero sets out to zero and returns err, unless a missing object is no error.
func runtimeZero(out runtime.Object, ignoreNotFound bool, err error) error {
	value := reflect.ValueOf(out).Elem()
	value.Set(reflect.Zero(value.Type()))
	if ignoreNotFound {
		return nil
	}
	return err
}

package spacepolicy

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
)

// The most elements of a list, and entries of a map, in an object of a built-in resource in
// a space. When all of them are invalid, upstream compares each error with all others, in
// code that does not end with its request: a few thousand take seconds.
const (
	maxElements = 10_000
	maxEntries  = 20_000
)

// CheckElements refuses objects with longer lists and maps than that. It is called before
// upstream validates, and again when webhooks and policies of the tenant have changed the
// object.
func CheckElements(a admission.Attributes) error {
	if _, custom := a.GetObject().(*unstructured.Unstructured); custom || a.GetObject() == nil {
		return nil
	}
	if length := longest(reflect.ValueOf(a.GetObject())); length > 0 {
		return admission.NewForbidden(a, fmt.Errorf("it has %d elements in one list or map; a space takes objects with at most %d in a list and %d in a map",
			length, maxElements, maxEntries))
	}
	return nil
}

// longest returns the length of a list or map that is too long, zero if there is none.
func longest(v reflect.Value) int {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return longest(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if length := longest(v.Field(i)); length > 0 {
				return length
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 0 // data
		}
		if v.Len() > maxElements {
			return v.Len()
		}
		for i := range v.Len() {
			if length := longest(v.Index(i)); length > 0 {
				return length
			}
		}
	case reflect.Map:
		if v.Len() > maxEntries {
			return v.Len()
		}
		for values := v.MapRange(); values.Next(); {
			if length := longest(values.Value()); length > 0 {
				return length
			}
		}
	}
	return 0
}

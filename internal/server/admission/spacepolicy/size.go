package spacepolicy

import (
	"reflect"
	"time"
)

// ReplicaBytes returns about how many bytes of memory one replica of a StatefulSet takes, in
// any version: a copy of the template, and for each claim one of its own with the labels of
// the selector.
func ReplicaBytes[Template, Claim, Selector any](template Template, claims []Claim, selector Selector) int {
	return sizeOf(reflect.ValueOf(template)) + sizeOf(reflect.ValueOf(claims)) + len(claims)*sizeOf(reflect.ValueOf(selector))
}

// sizeOf returns about how many bytes of memory a value takes, with what it points to.
func sizeOf(v reflect.Value) int {
	return int(v.Type().Size()) + sizeBehind(v)
}

func sizeBehind(v reflect.Value) (size int) {
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return sizeOf(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			size += sizeOf(v.Index(i))
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			size += sizeOf(i.Key()) + sizeOf(i.Value())
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() { // points to what all of its zone share
			return 0
		}
		for i := range v.NumField() {
			size += sizeBehind(v.Field(i))
		}
	}
	return size
}

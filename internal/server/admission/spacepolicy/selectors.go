package spacepolicy

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
)

// The limits of a label selector. Controllers compare all those of a namespace that may match
// with each pod that changes, in handlers that serve all spaces.
const (
	// maxRequirements are its labels and expressions.
	maxRequirements = 32
	// maxSelectorValues are those of all its expressions.
	maxSelectorValues = 100
	// maxSelectorBytes is how long its keys and values are at most: a label has no longer ones, but the API does not look
	// at those of all selectors. Controllers write a selector that they cannot read into events.
	maxSelectorBytes = content.DNS1123SubdomainMaxLength + len("/") + content.LabelValueMaxLength
)

// requirementsOf returns the requirements of the selector that has the most.
func requirementsOf(_ schema.GroupResource, obj runtime.Object) (most int) {
	switch o := obj.(type) {
	case *core.Service:
		return len(o.Spec.Selector)
	case *core.ReplicationController:
		most = len(o.Spec.Selector)
	}
	eachSelector(reflect.ValueOf(obj), func(s *metav1.LabelSelector) {
		most = max(most, len(s.MatchLabels)+len(s.MatchExpressions))
	})
	return most
}

// valuesOf returns the values of the selector that has the most.
func valuesOf(_ schema.GroupResource, obj runtime.Object) (most int) {
	eachSelector(reflect.ValueOf(obj), func(s *metav1.LabelSelector) {
		values := 0
		for i := range s.MatchExpressions {
			values += len(s.MatchExpressions[i].Values)
		}
		most = max(most, values)
	})
	return most
}

// selectorBytesOf returns how long the longest key or value of a selector is.
func selectorBytesOf(_ schema.GroupResource, obj runtime.Object) (most int) {
	eachSelector(reflect.ValueOf(obj), func(s *metav1.LabelSelector) {
		for key, value := range s.MatchLabels {
			most = max(most, len(key), len(value))
		}
		for i := range s.MatchExpressions {
			most = max(most, len(s.MatchExpressions[i].Key), len(s.MatchExpressions[i].Operator))
			for _, value := range s.MatchExpressions[i].Values {
				most = max(most, len(value))
			}
		}
	})
	return most
}

// eachSelector calls f for each selector in a value of a built-in type.
func eachSelector(v reflect.Value, f func(*metav1.LabelSelector)) {
	if !v.IsValid() || !holdSelectors(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if selector, ok := v.Interface().(*metav1.LabelSelector); ok && selector != nil {
			f(selector)
			return
		}
		eachSelector(v.Elem(), f)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachSelector(v.Index(i), f)
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			eachSelector(i.Value(), f)
		}
	case reflect.Struct:
		if selector, ok := v.Interface().(metav1.LabelSelector); ok {
			f(&selector)
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachSelector(v.Field(i), f)
			}
		}
	}
}

// known are the types of which holdSelectors has been asked.
var known sync.Map

// holdSelectors reports whether values of a type can hold label selectors.
func holdSelectors(t reflect.Type) bool {
	holds, ok := known.Load(t)
	if !ok {
		holds = reachSelectors(t, map[reflect.Type]bool{})
		known.Store(t, holds)
	}
	return holds.(bool)
}

func reachSelectors(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == reflect.TypeFor[metav1.LabelSelector]() {
		return true
	}
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return reachSelectors(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() && reachSelectors(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

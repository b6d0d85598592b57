package bounds

import (
	"reflect"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

var quantityType = reflect.TypeFor[resource.Quantity]()

// isQuantity reports whether some built-in type has quantities in a field of this name,
// whatever its case: annotations are read without regard to it.
func isQuantity(name string) bool {
	_, ok := quantityNames()[strings.ToLower(name)]
	return ok
}

// quantityNames are the names of fields with quantities, or with lists or maps of them.
var quantityNames = sync.OnceValue(func() map[string]struct{} {
	names := make(map[string]struct{})
	seen := make(map[reflect.Type]bool)
	for _, t := range scheme.Scheme.AllKnownTypes() {
		addQuantityNames(t, seen, names)
	}
	addQuantityNames(reflect.TypeFor[v1alpha1.Tenant](), seen, names)
	// In annotations.
	addQuantityNames(reflect.TypeFor[autoscalingv1.MetricSpec](), seen, names)
	addQuantityNames(reflect.TypeFor[autoscalingv1.MetricStatus](), seen, names)
	return names
})

func addQuantityNames(t reflect.Type, seen map[reflect.Type]bool, names map[string]struct{}) {
	if t = elementOf(t); t.Kind() != reflect.Struct || t == quantityType || seen[t] {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		field := t.Field(i)
		if elementOf(field.Type) == quantityType {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names[strings.ToLower(name)] = struct{}{}
		}
		addQuantityNames(field.Type, seen, names)
	}
}

// elementOf returns what a type refers to, or has as elements.
func elementOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

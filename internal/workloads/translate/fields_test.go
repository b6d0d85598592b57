package translate

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestFields fails for every field of a PodSpec, ServiceSpec, PersistentVolumeClaimSpec, IngressSpec or HTTPRouteSpec,
// and of every type below it that reaches a host, about which nobody has decided, and for what is decided about fields
// that are not there.
func TestFields(t *testing.T) {
	reached := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(of reflect.Type) {
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			visit(of.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if reached[of] || values[of] {
			return
		}
		reached[of] = true
		table, known := fields[of]
		if !known {
			t.Errorf("the table does not have the type %s", of)
			return
		}
		names := map[string]bool{}
		for i := range of.NumField() {
			f := of.Field(i)
			names[f.Name] = true
			treated, known := table[f.Name]
			if !known {
				t.Errorf("the table does not have the field %s of %s", f.Name, of)
			}
			if treated == same || treated == changed {
				visit(f.Type)
			}
		}
		for name := range table {
			if !names[name] {
				t.Errorf("the table has the field %s of %s, which is not there", name, of)
			}
		}
	}
	visit(reflect.TypeFor[corev1.PodSpec]())
	visit(reflect.TypeFor[corev1.ServiceSpec]())
	visit(reflect.TypeFor[corev1.PersistentVolumeClaimSpec]())
	visit(reflect.TypeFor[networkingv1.IngressSpec]())
	visit(reflect.TypeFor[gatewayv1.HTTPRouteSpec]())
	for of := range fields {
		if !reached[of] {
			t.Errorf("the table has the type %s, which no pod, Service, claim, Ingress or HTTPRoute has", of)
		}
	}
}

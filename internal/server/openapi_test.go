package server

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestOpenAPIOfTenant checks that metadata.tenant is a field of objects: kubectl refuses what it has printed otherwise.
func TestOpenAPIOfTenant(t *testing.T) {
	for range 2 { // not in what upstream keeps
		metadata := openAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })[metav1.ObjectMeta{}.OpenAPIModelName()]
		for _, field := range []string{"name", "tenant"} {
			if !metadata.Schema.Properties[field].Type.Contains("string") {
				t.Errorf("metadata.%s is %v", field, metadata.Schema.Properties[field].Type)
			}
		}
	}
}

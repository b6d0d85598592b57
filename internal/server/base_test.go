package server

import (
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestOpenAPIDefinitions checks that what the definitions of our types refer to is defined,
// by us or by Kubernetes.
func TestOpenAPIDefinitions(t *testing.T) {
	ref := func(path string) spec.Ref { return spec.MustCreateRef(path) }
	definitions := openAPIDefinitions(ref)
	for name, definition := range v1alpha1.GetOpenAPIDefinitions(ref) {
		for _, dependency := range definition.Dependencies {
			if _, ok := definitions[dependency]; !ok {
				t.Errorf("%s refers to %s, which is not defined", name, dependency)
			}
		}
	}
}

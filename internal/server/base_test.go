package server

import (
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// TestOpenAPIDefinitions checks that what the definitions of our types refer to is defined,
// by us or by Kubernetes.
func TestOpenAPIDefinitions(t *testing.T) {
	definitions := openAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })
	for name, definition := range definitions {
		for _, dependency := range definition.Dependencies {
			if _, ok := definitions[dependency]; !ok {
				t.Errorf("%s refers to %s, which is not defined", name, dependency)
			}
		}
	}
}

package definition

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

// definitions returns the manifests of the definitions, by file.
func definitions(t *testing.T) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../../config/crd/tenantry.io_*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no definitions were found: %v", err)
	}
	manifests := map[string][]byte{}
	for _, path := range paths {
		if manifests[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return manifests
}

// TestAHostTakesTheDefinitions says that a Kubernetes cluster accepts the definitions,
// whose rules may not cost more than it allows.
func TestAHostTakesTheDefinitions(t *testing.T) {
	for name, manifest := range definitions(t) {
		t.Run(name, func(t *testing.T) {
			var external apiextensionsv1.CustomResourceDefinition
			if err := yaml.UnmarshalStrict(manifest, &external); err != nil {
				t.Fatal(err)
			}
			apiextensionsv1.SetDefaults_CustomResourceDefinition(&external)
			apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
			var internal apiextensions.CustomResourceDefinition
			if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&external, &internal, nil); err != nil {
				t.Fatal(err)
			}
			internal.Status.StoredVersions = []string{external.Spec.Versions[0].Name}
			for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), &internal) {
				t.Error(err)
			}
		})
	}
}

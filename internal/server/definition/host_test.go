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

// TestAHostTakesTheDefinitions says that a Kubernetes cluster accepts the definitions,
// whose rules may not cost more than it allows.
func TestAHostTakesTheDefinitions(t *testing.T) {
	manifests, err := filepath.Glob("../../../../config/crd/tenantry.io_*.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no definitions were found: %v", err)
	}
	for _, path := range manifests {
		t.Run(filepath.Base(path), func(t *testing.T) {
			manifest, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
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

package definition

import (
	"context"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/config/crd"
)

// definitions are those that a host cluster may be given.
var definitions = map[string][]byte{
	"tenants": crd.Tenants, "published objects": crd.PublishedObjects, "access policies": crd.TenantAccessPolicies,
	"syncs of Keystone": crd.KeystoneSyncs, "users": crd.Users,
	"control planes": crd.ControlPlanes,
}

// TestAHostTakesTheDefinitions says that a Kubernetes cluster accepts the definitions,
// whose rules may not cost more than it allows.
func TestAHostTakesTheDefinitions(t *testing.T) {
	for name, manifest := range definitions {
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

package samples

import (
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/tenantry/tenantry/api/config/v1alpha1"
	"github.com/tenantry/tenantry/api/v1alpha1"
)

// TestSamples checks that the samples have no field that the types lack.
func TestSamples(t *testing.T) {
	for file, object := range map[string]any{
		"tenant.yaml":               &v1alpha1.Tenant{},
		"tenant_full.yaml":          &v1alpha1.Tenant{},
		"tenant_access_policy.yaml": &v1alpha1.TenantAccessPolicy{},
		"keystone_sync.yaml":        &v1alpha1.KeystoneSync{},
		"user.yaml":                 &v1alpha1.User{},
		"controlplane.yaml":         &v1alpha1.ControlPlane{},
		"host_tenant.yaml":          &v1alpha1.Tenant{},
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, file := range []string{"manager_configuration.yaml", "../manager/manager_configuration.yaml"} {
		if _, err := configv1alpha1.LoadManagerConfiguration(file); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

package v1alpha1

import (
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// +kubebuilder:object:root=true

// TenantLimitsConfiguration says what the operator of a host cluster may ask for in Tenants of
// a control plane, in a file that --host-tenant-limits-config names.
type TenantLimitsConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// limits are the most that a Tenant may have. What is left out has its default.
	// +optional
	Limits v1alpha1.TenantLimits `json:"limits,omitempty"`
}

// LoadTenantLimits reads a TenantLimitsConfiguration, JSON or YAML. An unknown field is an
// error. Without a path there are no limits.
func LoadTenantLimits(path string) (*v1alpha1.TenantLimits, error) {
	if path == "" {
		return nil, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the limits of a host's Tenants: %w", err)
	}
	c := &TenantLimitsConfiguration{}
	if err := readStrict(content, c); err != nil {
		return nil, fmt.Errorf("reading the limits of a host's Tenants %q: %w", path, err)
	}
	if c.APIVersion != GroupVersion.String() || c.Kind != "TenantLimitsConfiguration" {
		return nil, fmt.Errorf("the limits of a host's Tenants %q: apiVersion %q, kind %q: want %q, %q",
			path, c.APIVersion, c.Kind, GroupVersion, "TenantLimitsConfiguration")
	}
	return &c.Limits, nil
}

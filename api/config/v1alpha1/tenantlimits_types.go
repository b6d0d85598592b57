package v1alpha1

import (
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

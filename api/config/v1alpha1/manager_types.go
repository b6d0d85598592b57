package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package.
var GroupVersion = schema.GroupVersion{Group: "config.tenantry.io", Version: "v1alpha1"}

// +kubebuilder:object:root=true

// ManagerConfiguration configures the manager.
type ManagerConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// defaultQuota is the hard limits of the mandatory ResourceQuota of Tenants
	// that name none.
	// +optional
	DefaultQuota corev1.ResourceList `json:"defaultQuota,omitempty"`
	// concurrency is the number of Tenants reconciled at once, 1000 at most. Defaults to 16.
	// +optional
	Concurrency int `json:"concurrency,omitempty"`
	// publishable are the built-in resources of which objects can be published to
	// all spaces, as "resource" or "resource.group". Defaults to policies, RBAC,
	// configuration, classes, definitions and webhooks. Namespaces always can.
	// +optional
	Publishable []string `json:"publishable,omitempty"`
}

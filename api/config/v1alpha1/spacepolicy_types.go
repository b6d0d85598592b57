package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// +kubebuilder:object:root=true

// SpacePolicyConfiguration configures the admission plugin SpacePolicy, in a file
// that --admission-control-config-file names.
type SpacePolicyConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// nodePlacement is how far pods of tenants whose Tenant does not say may choose
	// their nodes. Defaults to mode Disabled.
	// +optional
	NodePlacement v1alpha1.NodePlacement `json:"nodePlacement,omitempty"`
	// daemonSets is what becomes of DaemonSets of tenants whose Tenant does not say.
	// Defaults to mode Refused.
	// +optional
	DaemonSets v1alpha1.DaemonSets `json:"daemonSets,omitempty"`
	// podTemplates are where custom resources have pod templates. Those of the
	// built-in resources are known.
	// +optional
	PodTemplates []PodTemplates `json:"podTemplates,omitempty"`
}

// PodTemplates are the pod templates in a custom resource.
type PodTemplates struct {
	// group of the custom resource.
	Group string `json:"group"`
	// resource is the plural name of the custom resource.
	Resource string `json:"resource"`
	// paths of the templates in an object, with dots, such as "spec.template".
	Paths []string `json:"paths"`
}

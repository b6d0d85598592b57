package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// HostFinalizer holds a Tenant on a host cluster until its space is gone.
	HostFinalizer = "tenantry.io/control-plane"
	// HostTenantAnnotation is on Tenants in a control plane that are of a host cluster, with
	// the UID of the Tenant there. The operator sets it on those that it makes. On others an
	// administrator of the control plane sets it, who thereby lets the host have the Tenant.
	HostTenantAnnotation = "tenantry.io/host-tenant"
	// AbandonAnnotation lets, with the value "true", a Tenant on a host cluster be deleted
	// whose ControlPlane is gone. What is left of its space nobody looks at.
	AbandonAnnotation = "tenantry.io/abandon"

	// ConditionMirrored is true while the Tenant of the control plane is as that on the host.
	ConditionMirrored = "Mirrored"
	// ConditionKubeconfig is true while the Secret that spec.kubeconfigSecret asks for is there.
	ConditionKubeconfig = "KubeconfigReady"

	// ReasonMirrored and the others are the reasons of the conditions on a host.
	ReasonMirrored                = "Mirrored"
	ReasonNameReserved            = "NameReserved"
	ReasonNoControlPlane          = "NoControlPlane"
	ReasonControlPlaneMissing     = "ControlPlaneMissing"
	ReasonControlPlaneUnreachable = "ControlPlaneUnreachable"
	ReasonNotAdopted              = "NotAdopted"
	ReasonIssued                  = "Issued"
)

// ControlPlaneReference names a ControlPlane of the same host cluster.
type ControlPlaneReference struct {
	// namespace of the ControlPlane.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// name of the ControlPlane.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// String returns NAMESPACE/NAME.
func (r ControlPlaneReference) String() string { return r.Namespace + "/" + r.Name }

// KubeconfigSecret is a user of a tenant, for whom there is to be a kubeconfig.
type KubeconfigSecret struct {
	// user is the name of the user. Defaults to "admin", who has every right in the space
	// unless spec.admins says otherwise.
	// +optional
	// +kubebuilder:default=admin
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system:') && !self.startsWith('keystone:')",message="names that begin with system: or keystone: are the platform's, and no certificate of a tenant's user has one"
	// +kubebuilder:validation:XValidation:rule="self == self.trim() && !self.matches('[[:cntrl:]]')",message="nobody has a name with blanks around it or control characters: remove them"
	User string `json:"user,omitempty"`
	// groups of the user.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.all(g, g == g.trim() && !g.matches('[[:cntrl:]]'))",message="nobody has a group with blanks around it or control characters: remove them"
	// +kubebuilder:validation:XValidation:rule="self.all(g, !g.startsWith('system:') && !g.startsWith('tenant:') && !g.startsWith('keystone:'))",message="groups that begin with system:, tenant: or keystone: are the platform's, and no certificate of a tenant's user has one"
	Groups []string `json:"groups,omitempty"`
	// validity is for how long the certificate in the kubeconfig is good, such as 720h. It is
	// renewed after a third of that. Defaults to 1440h, 60 days, which is the most; the least
	// is 1h.
	// +optional
	// +kubebuilder:default="1440h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1h') && duration(self) <= duration('1440h')",message="validity must be from 1h to 1440h"
	Validity metav1.Duration `json:"validity,omitzero"`
}

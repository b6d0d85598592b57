package v1alpha1

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

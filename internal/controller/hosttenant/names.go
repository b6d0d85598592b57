package hosttenant

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// fieldManager owns what this controller writes, on the host and in control planes.
	fieldManager = "tenantry-host-tenant"

	// spaceAnnotation is on Secrets with kubeconfigs and has the UID of the Tenant in the control plane:
	// what was issued for an earlier one of its name is refused.
	spaceAnnotation = "tenantry.io/kubeconfig-of-uid"

	// User is the operator in control planes, of UserGroup.
	User, UserGroup = v1alpha1.HostOperator, "system:masters"
)

// secretName is that of the Secret with a Tenant's kubeconfig. No Secret of a ControlPlane ends
// like it.
func secretName(t *v1alpha1.Tenant) string { return t.Name + "-kubeconfig" }

// refOf returns the ControlPlane that a Tenant is in or names, nil for the default.
func refOf(t *v1alpha1.Tenant) *v1alpha1.ControlPlaneReference {
	if t.Status.ControlPlaneRef != nil {
		return t.Status.ControlPlaneRef
	}
	return t.Spec.ControlPlaneRef
}

func keyOf(ref v1alpha1.ControlPlaneReference) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// isReserved reports whether a name is that of a space that no host may have.
func isReserved(name string) bool { return tenant.Name(name) == tenant.System }

package controlplane

import (
	"k8s.io/apimachinery/pkg/labels"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	// FieldManager owns what the operator writes.
	FieldManager = "tenantry-operator"

	// ofLabel says which ControlPlane an object was made for.
	ofLabel       = "tenantry.io/control-plane"
	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = "app.kubernetes.io/instance"
	partLabel     = "app.kubernetes.io/component"
	managedLabel  = "app.kubernetes.io/managed-by"
	versionLabel  = "app.kubernetes.io/version"

	component = "control-plane"
)

// managed selects what the operator has made.
var managed = labels.SelectorFromSet(labels.Set{managedLabel: FieldManager})

// Names of what is made for a ControlPlane. The Service and the StatefulSet have its own.

func authoritiesName(cp *v1alpha1.ControlPlane) string { return cp.Name + "-authorities" }
func keysName(cp *v1alpha1.ControlPlane) string        { return cp.Name + "-keys" }
func servingName(cp *v1alpha1.ControlPlane) string     { return cp.Name + "-serving" }
func adminName(cp *v1alpha1.ControlPlane) string       { return cp.Name + "-admin" }
func membersName(cp *v1alpha1.ControlPlane) string     { return cp.Name + "-members" }

// labelsOf are the labels of what is made for a ControlPlane.
func labelsOf(cp *v1alpha1.ControlPlane) map[string]string {
	all := selectorOf(cp)
	all[managedLabel], all[ofLabel] = FieldManager, cp.Name
	return all
}

// selectorOf selects the pods of a ControlPlane. It can never be changed.
func selectorOf(cp *v1alpha1.ControlPlane) map[string]string {
	return map[string]string{nameLabel: "tenantry", instanceLabel: cp.Name, partLabel: component}
}

// owner lets the host delete an object with its ControlPlane.
func owner(cp *v1alpha1.ControlPlane) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ControlPlane").WithName(cp.Name).WithUID(cp.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

package controlplane

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// FieldManager owns what the operator writes.
	FieldManager = "tenantry-operator"

	// ofLabel says which ControlPlane an object was made for.
	ofLabel = "tenantry.io/control-plane"
	// TenantLabel is, beside it, on Secrets with kubeconfigs of a Tenant's users, and has the name
	// of the Tenant.
	TenantLabel = "tenantry.io/kubeconfig-of"

	nameLabel     = "app.kubernetes.io/name"
	instanceLabel = names.InstanceLabel
	partLabel     = names.ComponentLabel
	managedLabel  = "app.kubernetes.io/managed-by"
	versionLabel  = "app.kubernetes.io/version"

	// serversPart, managersPart and syncerPart are the components of a ControlPlane that have pods.
	serversPart  = names.ServersComponent
	managersPart = "manager"
	syncerPart   = "syncer"

	// etcdAuthorityAnnotation of pods makes new ones when etcd has other authorities, which
	// servers read once.
	etcdAuthorityAnnotation = "tenantry.io/etcd-authority"
	// configurationAnnotation of pods makes new ones when there is other configuration that
	// processes read once.
	configurationAnnotation = "tenantry.io/configuration"
)

// managed selects what the operator has made.
var managed = labels.SelectorFromSet(labels.Set{managedLabel: FieldManager})

// forControlPlanes selects what is for a ControlPlane, whoever has made it.
var forControlPlanes = func() labels.Selector {
	has, err := labels.NewRequirement(ofLabel, selection.Exists, nil)
	utilruntime.Must(err)
	return labels.NewSelector().Add(*has)
}()

// Names of what is made for a ControlPlane. The Service and the servers have its own.

func authoritiesName(cp *v1alpha1.ControlPlane) string { return cp.Name + "-authorities" }
func keysName(cp *v1alpha1.ControlPlane) string        { return cp.Name + "-keys" }
func servingName(cp *v1alpha1.ControlPlane) string     { return cp.Name + "-serving" }
func adminName(cp *v1alpha1.ControlPlane) string       { return cp.Name + "-admin" }
func membersName(cp *v1alpha1.ControlPlane) string     { return cp.Name + "-members" }
func managerName(cp *v1alpha1.ControlPlane) string     { return cp.Name + "-manager" }
func syncerName(cp *v1alpha1.ControlPlane) string      { return cp.Name + "-syncer" }
func etcdName(cp *v1alpha1.ControlPlane) string        { return cp.Name + "-etcd" }

func configurationName(cp *v1alpha1.ControlPlane) string { return cp.Name + "-configuration" }

// labelsOf are the labels of the servers of a ControlPlane, and of what is made for all of it.
func labelsOf(cp *v1alpha1.ControlPlane) map[string]string { return labelsOfPart(cp, serversPart) }

// labelsOfPart are the labels of what is made for a part of a ControlPlane.
func labelsOfPart(cp *v1alpha1.ControlPlane, part string) map[string]string {
	all := selectorOfPart(cp, part)
	all[managedLabel], all[ofLabel] = FieldManager, cp.Name
	return all
}

// selectorOf selects the servers of a ControlPlane.
func selectorOf(cp *v1alpha1.ControlPlane) map[string]string { return selectorOfPart(cp, serversPart) }

// selectorOfPart selects the pods of a part of a ControlPlane. It can never be changed.
func selectorOfPart(cp *v1alpha1.ControlPlane, part string) map[string]string {
	return map[string]string{nameLabel: "tenantry", instanceLabel: cp.Name, partLabel: part}
}

// owner lets the host delete an object with its ControlPlane.
func owner(cp *v1alpha1.ControlPlane) *applymetav1.OwnerReferenceApplyConfiguration {
	return applymetav1.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("ControlPlane").WithName(cp.Name).WithUID(cp.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}

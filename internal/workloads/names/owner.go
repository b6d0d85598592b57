package names

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Labels of the host's namespaces for spaces of a ControlPlane that runs on that host. The policy of config/workloads
// keeps the ServiceAccounts of a ControlPlane to those of its own; what has neither label is of a Tenantry that runs
// elsewhere.
const (
	ControlPlaneNamespaceLabel = Prefix + "control-plane-namespace"
	ControlPlaneLabel          = Prefix + "control-plane"
)

// accountDomain ends the names of the ServiceAccounts of ControlPlanes. The policy holds for all that are called so, in
// whichever namespace; so nobody else's may be.
const accountDomain = ".tenantry.io"

// Owner is whose the ServiceAccounts are by which something acts on a host.
type Owner struct {
	// Namespace is that of the ServiceAccounts.
	Namespace string
	// ControlPlane is the one that the operator has made them for, in that namespace. It is empty for those of
	// config/workloads.
	ControlPlane string
}

// OwnerOf returns whose syncer a ServiceAccount is, and whether it is one: one of Platform, or that of a ControlPlane.
func OwnerOf(namespace, account string) (Owner, bool) {
	if o := (Owner{namespace, strings.TrimSuffix(account, ".syncer"+accountDomain)}); o.ControlPlane != "" && o.Syncer() == account && !strings.Contains(o.ControlPlane, ".") {
		return o, true
	}
	return Owner{Namespace: namespace}, namespace == Platform
}

// Syncer returns the name of the ServiceAccount that makes what is on the host.
func (o Owner) Syncer() string { return o.account("syncer") }

// Connect returns the name of the ServiceAccount that connects to pods, which the servers have.
func (o Owner) Connect() string { return o.account("connect") }

func (o Owner) account(part string) string {
	if o.ControlPlane == "" {
		return part
	}
	return o.ControlPlane + "." + part + accountDomain
}

// Labels returns those of the host's namespaces that are the owner's. There may be none.
func (o Owner) Labels() map[string]string {
	if o.ControlPlane == "" {
		return nil
	}
	return map[string]string{ControlPlaneNamespaceLabel: o.Namespace, ControlPlaneLabel: o.ControlPlane}
}

// OwnerOfNamespace returns whose a namespace of the host with some labels is. It is the zero value for what is of a
// Tenantry that runs elsewhere.
func OwnerOfNamespace(labels map[string]string) Owner {
	return Owner{Namespace: labels[ControlPlaneNamespaceLabel], ControlPlane: labels[ControlPlaneLabel]}
}

// Selector returns a selector of the host's namespaces that are the owner's. Nobody sets one of the two labels alone.
func (o Owner) Selector() *metav1.LabelSelector {
	if o.ControlPlane == "" {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: ControlPlaneLabel, Operator: metav1.LabelSelectorOpDoesNotExist}}}
	}
	return &metav1.LabelSelector{MatchLabels: o.Labels()}
}

// Lease returns the namespace and the name of the Lease by which there is one syncer of an installation on a host.
func (o Owner) Lease(installation string) (namespace, name string) {
	if o.ControlPlane == "" {
		return o.Namespace, "tenantry-syncer-" + installation
	}
	return o.Namespace, o.Syncer()
}

// Labels of the pods of servers that the operator has made.
const (
	InstanceLabel    = "app.kubernetes.io/instance"
	ComponentLabel   = "app.kubernetes.io/component"
	ServersComponent = "control-plane"
)

// Servers returns the labels of the pods, in the owner's namespace, that answer requests to the API. There are none if
// it runs elsewhere.
func (o Owner) Servers() map[string]string {
	if o.ControlPlane == "" {
		return nil
	}
	return map[string]string{InstanceLabel: o.ControlPlane, ComponentLabel: ServersComponent}
}

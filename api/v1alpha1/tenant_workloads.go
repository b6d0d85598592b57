package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// PodSecurityLevel is a level of the Pod Security Standards.
// +enum
type PodSecurityLevel string

const (
	// PodSecurityPrivileged lets containers be privileged.
	PodSecurityPrivileged PodSecurityLevel = "privileged"
	// PodSecurityBaseline prevents known ways out of a container.
	PodSecurityBaseline PodSecurityLevel = "baseline"
	// PodSecurityRestricted asks for what is known to harden a pod.
	PodSecurityRestricted PodSecurityLevel = "restricted"
)

// NodePortMode says whether Services may have ports of a host cluster's nodes.
// +enum
type NodePortMode string

const (
	// NodePortsRefused refuses Services of type NodePort.
	NodePortsRefused NodePortMode = "Refused"
	// NodePortsAllowed lets them have ports that the host cluster chooses, or has free.
	NodePortsAllowed NodePortMode = "Allowed"
)

// LoadBalancerMode says whether Services may have load balancers of a host cluster.
// +enum
type LoadBalancerMode string

const (
	// LoadBalancersRefused refuses Services of type LoadBalancer.
	LoadBalancersRefused LoadBalancerMode = "Refused"
	// LoadBalancersAllowed lets them have load balancers that the host cluster makes.
	LoadBalancersAllowed LoadBalancerMode = "Allowed"
)

// Workloads is what the pods, Services, Ingresses and HTTPRoutes of a tenant may on the host cluster that runs them.
type Workloads struct {
	// podSecurity is the level of the Pod Security Standards that pods, and templates of
	// pods, are held to. Defaults to baseline. No level allows what reaches the host's nodes
	// themselves: their files, network, processes and ports. Privileged containers do, in
	// their own ways. A change does not end what runs.
	// +optional
	// +kubebuilder:validation:Enum=privileged;baseline;restricted
	PodSecurity PodSecurityLevel `json:"podSecurity,omitempty"`
	// nodePorts is whether Services may be of type NodePort, with ports of the host's nodes. Defaults to
	// Refused. Quotas count them as services.nodeports. A change does not end what there is.
	// +optional
	// +kubebuilder:validation:Enum=Refused;Allowed
	NodePorts NodePortMode `json:"nodePorts,omitempty"`
	// loadBalancers is whether Services may be of type LoadBalancer. Defaults to Refused. They have ports of the
	// host's nodes only if nodePorts is Allowed, so that load balancers that lead to such ports need both. Quotas
	// count them as services.loadbalancers. A change does not end what there is.
	// +optional
	// +kubebuilder:validation:Enum=Refused;Allowed
	LoadBalancers LoadBalancerMode `json:"loadBalancers,omitempty"`
	// loadBalancerAnnotations are keys of annotations that Services of type LoadBalancer have on the host, too, with
	// whatever values. By some of them whoever writes a Service takes an address, a name or a certificate of others.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('workloads.tenantry.io/'))",message="annotations below workloads.tenantry.io/ are the platform's"
	LoadBalancerAnnotations []string `json:"loadBalancerAnnotations,omitempty"`
	// hostNames are those that Ingresses and HTTPRoutes may name: one, such as shop.example.com, or
	// *.acme.example.com for all names with one label more, and, of an Ingress, for itself. Without any, no Ingress
	// and no HTTPRoute of the space is on the host. One there that names what is not here any more goes.
	// Controllers decide between Tenants with the same names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	HostNames []string `json:"hostNames,omitempty"`
	// ingressClasses are the IngressClasses of the host that Ingresses may name. One that names none has the class
	// here, if there is just one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	IngressClasses []string `json:"ingressClasses,omitempty"`
	// ingressAnnotations are keys of annotations that Ingresses have on the host, too, with whatever values. By
	// some of them whoever writes an Ingress has all that the controller can do or read, such as snippets of its
	// configuration, Secrets of other namespaces, or addresses to which it connects.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'kubernetes.io/ingress.class' && !k.startsWith('workloads.tenantry.io/'))",message="classes are in ingressClasses, and annotations below workloads.tenantry.io/ are the platform's"
	IngressAnnotations []string `json:"ingressAnnotations,omitempty"`
	// gateways are the Gateways of the host, as NAMESPACE/NAME there, that HTTPRoutes may name in parentRefs. Without
	// any, no HTTPRoute of the space is on the host. One there that names none of these any more goes. Which of their
	// listeners let in routes of spaces, and for which names, these Gateways say themselves.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Gateways []string `json:"gateways,omitempty"`
}

// HasHostName reports whether a host name is among those that are granted, as in hostNames of Workloads. One that can be
// none, such as one in capitals, or with a label of more than 63 letters, is not.
func HasHostName(granted []string, name string) bool {
	labels := strings.Split(strings.TrimPrefix(name, "*."), ".")
	if len(name) > validation.DNS1123SubdomainMaxLength || slices.ContainsFunc(labels, func(l string) bool { return len(validation.IsDNS1123Label(l)) > 0 }) {
		return false
	}
	_, domain, _ := strings.Cut(name, ".")
	return slices.Contains(granted, name) || domain != "" && slices.Contains(granted, "*."+domain)
}

// lists says what of names, classes and annotations that a Tenant asks for is beyond these, empty if nothing is.
func (w *Workloads) lists(wanted *Workloads) string {
	if wanted == nil {
		return ""
	}
	var most Workloads
	if w != nil {
		most = *w
	}
	for _, name := range wanted.HostNames {
		if !HasHostName(most.HostNames, name) {
			return fmt.Sprintf("Ingresses and HTTPRoutes of Tenants of this host may not name %q", name)
		}
	}
	for _, list := range []struct {
		what         string
		wanted, most []string
	}{
		{"classes that Ingresses", wanted.IngressClasses, most.IngressClasses}, {"annotations that Ingresses", wanted.IngressAnnotations, most.IngressAnnotations},
		{"annotations that load balancers", wanted.LoadBalancerAnnotations, most.LoadBalancerAnnotations}, {"Gateways that HTTPRoutes", wanted.Gateways, most.Gateways},
	} {
		for _, key := range list.wanted {
			if !slices.Contains(list.most, key) {
				return fmt.Sprintf("%q is not one of the %s of Tenants of this host may have", key, list.what)
			}
		}
	}
	return ""
}

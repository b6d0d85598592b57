package controlplane

import (
	"context"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applynetworkingv1 "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const (
	portName      = "https"
	servicePort   = 443
	containerPort = 6443
)

// ensureServices makes the Service for clients and the one that gives pods their names, and
// finds out how clients reach the former.
func (r *Reconciler) ensureServices(ctx context.Context, w *work) error {
	if w.cp.Spec.Storage.Etcd == nil { // a StatefulSet has one
		members := service(w.cp, membersName(w.cp))
		members.Spec.WithClusterIP(corev1.ClusterIPNone).WithPublishNotReadyAddresses(true)
		if err := r.apply(ctx, w.cp, members, &corev1.Service{}); err != nil {
			return err
		}
	}
	clients := service(w.cp, w.cp.Name)
	clients.Spec.WithType(corev1.ServiceType(w.cp.Spec.Expose.Type)).WithIPFamilyPolicy(corev1.IPFamilyPolicyPreferDualStack)
	if err := r.apply(ctx, w.cp, clients, &corev1.Service{}); err != nil {
		return err
	}
	w.hosts, w.endpoint = hosts(w.cp, clients), endpoint(w.cp, clients)
	w.address = ptr.Deref(clients.Spec.ClusterIP, "")
	return nil
}

func service(cp *v1alpha1.ControlPlane, name string) *applycorev1.ServiceApplyConfiguration {
	return applycorev1.Service(name, cp.Namespace).WithLabels(labelsOf(cp)).WithOwnerReferences(owner(cp)).
		WithSpec(applycorev1.ServiceSpec().WithSelector(selectorOf(cp)).WithPorts(applycorev1.ServicePort().
			WithName(portName).WithProtocol(corev1.ProtocolTCP).WithPort(servicePort).WithTargetPort(intstr.FromString(portName))))
}

// hosts returns by which names and addresses clients reach the servers.
func hosts(cp *v1alpha1.ControlPlane, applied *applycorev1.ServiceApplyConfiguration) []string {
	inCluster := cp.Name + "." + cp.Namespace
	all := []string{cp.Name, inCluster, inCluster + ".svc", inCluster + ".svc.cluster.local"}
	all = append(all, applied.Spec.ClusterIPs...)
	all = append(all, cp.Spec.Expose.Names...)
	return append(all, balancers(applied)...)
}

// balancers returns the addresses and names of load balancers.
func balancers(applied *applycorev1.ServiceApplyConfiguration) []string {
	if applied.Status == nil || applied.Status.LoadBalancer == nil {
		return nil
	}
	var all []string
	for _, ingress := range applied.Status.LoadBalancer.Ingress {
		for _, host := range []*string{ingress.Hostname, ingress.IP} {
			if host != nil && *host != "" {
				all = append(all, *host)
			}
		}
	}
	return all
}

// endpoint returns the URL for clients, empty as long as the host has no address for it.
func endpoint(cp *v1alpha1.ControlPlane, applied *applycorev1.ServiceApplyConfiguration) string {
	candidates := slices.Clone(cp.Spec.Expose.Names)
	port := int32(servicePort)
	switch cp.Spec.Expose.Type {
	case v1alpha1.ExposeNodePort:
		if port = nodePort(applied); port == 0 {
			return ""
		}
	case v1alpha1.ExposeLoadBalancer:
		candidates = append(candidates, balancers(applied)...)
	default:
		candidates = append(candidates, serviceHost(cp))
	}
	if len(candidates) == 0 {
		return ""
	}
	host := net.JoinHostPort(candidates[0], strconv.Itoa(int(port)))
	return "https://" + host
}

func nodePort(applied *applycorev1.ServiceApplyConfiguration) int32 {
	for _, port := range applied.Spec.Ports {
		if port.NodePort != nil {
			return *port.NodePort
		}
	}
	return 0
}

// ensureNetworkPolicy lets clients reach the one port.
func (r *Reconciler) ensureNetworkPolicy(ctx context.Context, w *work) error {
	return r.applyNetworkPolicy(ctx, w.cp, w.cp.Name, serversPart,
		applynetworkingv1.NetworkPolicyIngressRule().WithPorts(
			applynetworkingv1.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromString(portName))))
}

// applyNetworkPolicy lets in what rules say. The pods call webhooks and issuers of tokens
// wherever they are, but not the metadata services of the machines that they run on.
func (r *Reconciler) applyNetworkPolicy(ctx context.Context, cp *v1alpha1.ControlPlane, name, part string,
	rules ...*applynetworkingv1.NetworkPolicyIngressRuleApplyConfiguration,
) error {
	policy := applynetworkingv1.NetworkPolicy(name, cp.Namespace).WithLabels(labelsOfPart(cp, part)).WithOwnerReferences(owner(cp)).
		WithSpec(applynetworkingv1.NetworkPolicySpec().
			WithPodSelector(applymetav1.LabelSelector().WithMatchLabels(selectorOfPart(cp, part))).
			WithPolicyTypes(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress).
			WithIngress(rules...).
			WithEgress(applynetworkingv1.NetworkPolicyEgressRule().WithTo(
				applynetworkingv1.NetworkPolicyPeer().WithIPBlock(applynetworkingv1.IPBlock().WithCIDR("0.0.0.0/0").WithExcept("169.254.0.0/16")),
				applynetworkingv1.NetworkPolicyPeer().WithIPBlock(applynetworkingv1.IPBlock().WithCIDR("::/0").WithExcept("fe80::/10", "fd00:ec2::254/128")))))
	return r.apply(ctx, cp, policy, &networkingv1.NetworkPolicy{})
}

package network

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// The canaries are two pods in a namespace of their own: one listens on three ports, one connects. A policy of the one
// that listens lets in what comes to two of them, and a policy of the one that connects lets out what goes to two of
// them. So one connection must work, and each of the others is stopped by one policy alone. Packets by UDP come in from
// everywhere, at a port of their own: one that is sent in another's name is to be stopped by the network, and by no
// policy.
const (
	canaryLabel    = names.Prefix + "canary"
	canaryListener = "listener"
	canaryDialer   = "dialer"
)

const (
	portOpen int32 = 8080 + iota
	portNoIngress
	portNoEgress
	portPackets
)

// canaryPriorityClass is the PriorityClass of the host that the canaries have. They come before pods of spaces, with
// which a tenant could fill the nodes otherwise until nobody knows whether the host enforces policies.
const canaryPriorityClass = "tenantry-workloads-canaries"

// CanaryNames are the names of the canaries.
var CanaryNames = []string{canaryListener, canaryDialer}

// canaryPorts are the ports on which the one listens, the one that is reached first.
var canaryPorts = []int32{portOpen, portNoIngress, portNoEgress}

// CanaryPolicies returns the policies of the canaries in a namespace of the host. The one that connects reaches DNS as
// well.
func CanaryPolicies(namespace, installation string, reachable Reachable) []*networkingv1.NetworkPolicy {
	policy := func(name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
		spec.PodSelector = *canary(name)
		return &networkingv1.NetworkPolicy{ObjectMeta: canaryMeta(namespace, installation, name), Spec: spec}
	}
	return []*networkingv1.NetworkPolicy{
		policy(canaryListener, networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{
				From: []networkingv1.NetworkPolicyPeer{{PodSelector: canary(canaryDialer)}}, Ports: ports(corev1.ProtocolTCP, portOpen, portNoEgress),
			}, {
				From:  []networkingv1.NetworkPolicyPeer{{PodSelector: canary(canaryDialer)}, {IPBlock: &networkingv1.IPBlock{CIDR: "::/0"}}},
				Ports: ports(corev1.ProtocolUDP, portPackets),
			}},
		}),
		policy(canaryDialer, networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{
				To: []networkingv1.NetworkPolicyPeer{{PodSelector: canary(canaryListener)}}, Ports: slices.Concat(ports(corev1.ProtocolTCP, portOpen, portNoIngress), ports(corev1.ProtocolUDP, portPackets)),
			}, reachable.dns()},
		}),
	}
}

func canary(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{canaryLabel: name}}
}

func canaryMeta(namespace, installation, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{canaryLabel: name, names.InstallationLabel: installation}}
}

func ports(protocol corev1.Protocol, of ...int32) []networkingv1.NetworkPolicyPort {
	var all []networkingv1.NetworkPolicyPort
	for _, port := range of {
		all = append(all, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(port))})
	}
	return all
}

// CanaryListener returns the pod that listens. image is Tenantry's, word what the packets of the other one begin with.
// The port that is reached is the last one to be opened: that none of the others is then is not because it is not there
// yet.
func CanaryListener(namespace, installation, image, word string) *corev1.Pod {
	args := []string{"canary", "listen", "--word", word, "--packets", ":" + strconv.Itoa(int(portPackets))}
	for _, port := range slices.Backward(canaryPorts) {
		args = append(args, ":"+strconv.Itoa(int(port)))
	}
	return canaryPod(namespace, installation, canaryListener, image, args)
}

// CanaryDialer returns the pod that connects to the one that listens, and ends with one of the exit codes. If that has
// an address of IPv6 as well, which is not the zero value then, it connects there, too, and sends packets in others'
// names. If there is an address of DNS, it asks there as well.
func CanaryDialer(namespace, installation, image, word string, listener, ipv6 netip.Addr, dns string) *corev1.Pod {
	args := []string{"canary", "dial", "--word", word}
	if dns != "" {
		args = append(args, "--dns", net.JoinHostPort(dns, "53"))
	}
	if ipv6.IsValid() {
		args = append(args, "--ipv6", netip.AddrPortFrom(ipv6, uint16(portPackets)).String())
	}
	for _, port := range canaryPorts {
		args = append(args, netip.AddrPortFrom(listener, uint16(port)).String()) // ours
	}
	return canaryPod(namespace, installation, canaryDialer, image, args)
}

func canaryPod(namespace, installation, name, image string, args []string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: canaryMeta(namespace, installation, name),
		Spec: corev1.PodSpec{
			PriorityClassName: canaryPriorityClass,
			RestartPolicy:     corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			TerminationGracePeriodSeconds: new(int64(1)), ActiveDeadlineSeconds: new(int64(600)), DNSPolicy: corev1.DNSDefault,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "canary", Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"/tenantry"}, Args: args,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

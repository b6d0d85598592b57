package network

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// The names of the policies that each namespace of the host has. Copies of tenants' begin with tn-, or tnx-.
const (
	guardName       = "tenantry-guard"
	openIngressName = "tenantry-open-ingress"
	openEgressName  = "tenantry-open-egress"
)

// Names are the names of the policies that each namespace of the host has.
var Names = []string{guardName, openIngressName, openEgressName}

// dnsComponent is the component of the pods that answer the names of spaces.
const dnsComponent = "workloads-dns"

// dnsPorts are those on which these pods answer: who is not root has none below 1024.
var dnsPorts = []int32{53, 1053}

// Reachable is what pods of all tenants reach, whatever their policies say.
type Reachable struct {
	// Namespace is the host's namespace with the pods that answer DNS.
	Namespace string
	// Addresses are ranges of Tenantry's API, or of whatever else is for all tenants.
	Addresses []netip.Prefix
	// API is where the API of all spaces is, the zero value if pods do not reach it.
	API netip.AddrPort
	// Owner is whose namespaces they are. If the servers are pods of the host, these are behind API.
	Owner names.Owner
	// Calls is that these servers reach pods of tenants, for webhooks. They keep each tenant's to its own Services as
	// far as they know which addresses are inside.
	Calls bool
}

// IngressLabel is on namespaces of the host whose pods serve Ingresses. Whoever administers the host sets it; the
// policy of config/workloads keeps syncers from it.
const IngressLabel = "tenantry.io/ingress-controller"

// IngressControllers are the peers through which the outside comes to a tenant that has Ingresses.
func IngressControllers() []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{IngressLabel: "true"}}}}
}

// Guards returns the policies that a namespace of the host has, whatever policies are in the space. through are peers
// through which the outside comes.
func Guards(home names.Namespace, ranges Ranges, reachable Reachable, through ...networkingv1.NetworkPolicyPeer) []*networkingv1.NetworkPolicy {
	all := append([]networkingv1.NetworkPolicyPeer{sameTenant(home)}, ranges.outside()...)
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	return []*networkingv1.NetworkPolicy{
		platform(home, guardName, networkingv1.NetworkPolicySpec{PolicyTypes: both, Ingress: reachable.calls(), Egress: reachable.rules()}),
		platform(home, openIngressName, networkingv1.NetworkPolicySpec{
			PodSelector: selects(OpenIngressLabel), PolicyTypes: both[:1], Ingress: []networkingv1.NetworkPolicyIngressRule{{From: slices.Concat(all, through)}},
		}),
		platform(home, openEgressName, networkingv1.NetworkPolicySpec{
			PodSelector: selects(OpenEgressLabel), PolicyTypes: both[1:], Egress: []networkingv1.NetworkPolicyEgressRule{{To: all}},
		}),
	}
}

func platform(home names.Namespace, name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: home.Host(), Labels: map[string]string{names.InstallationLabel: home.Installation}, Annotations: home.Marks(),
		},
		Spec: spec,
	}
}

func selects(label string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{label: open}}
}

// dns returns the rule of DNS.
func (r Reachable) dns() networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.Namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{names.ComponentLabel: dnsComponent}},
	}}, Ports: slices.Concat(ports(corev1.ProtocolUDP, dnsPorts...), ports(corev1.ProtocolTCP, dnsPorts...))}
}

// api returns the rules of the API: for hosts that compare the address of a Service, and for those that compare what is
// behind it. The servers' own policy says which of their ports is reached.
func (r Reachable) api() []networkingv1.NetworkPolicyEgressRule {
	if !r.API.IsValid() {
		return nil
	}
	addr := r.API.Addr()
	rules := []networkingv1.NetworkPolicyEgressRule{{
		To:    []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(addr, addr.BitLen()).String()}}},
		Ports: ports(corev1.ProtocolTCP, int32(r.API.Port())),
	}}
	if servers := r.servers(); servers != nil {
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: servers})
	}
	return rules
}

// servers returns the peers that are the servers, none if these are not pods of the host.
func (r Reachable) servers() []networkingv1.NetworkPolicyPeer {
	servers := r.Owner.Servers()
	if servers == nil {
		return nil
	}
	return []networkingv1.NetworkPolicyPeer{{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.Owner.Namespace}},
		PodSelector:       &metav1.LabelSelector{MatchLabels: servers},
	}}
}

// calls returns the rules by which the servers call webhooks. They are of the guard, which holds whatever policies a
// tenant has: in a cluster, these do not shut out the API server, either.
func (r Reachable) calls() []networkingv1.NetworkPolicyIngressRule {
	servers := r.servers()
	if servers == nil || !r.Calls { // no peers would be everybody
		return nil
	}
	return []networkingv1.NetworkPolicyIngressRule{{From: servers}}
}

// rules returns the rules of what is reachable.
func (r Reachable) rules() []networkingv1.NetworkPolicyEgressRule {
	rules := []networkingv1.NetworkPolicyEgressRule{r.dns()}
	rules = append(rules, r.api()...)
	var addresses []networkingv1.NetworkPolicyPeer
	for _, p := range merge(r.Addresses) {
		addresses = append(addresses, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: p.String()}})
	}
	if len(addresses) > 0 { // no peers would be everybody
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{To: addresses})
	}
	return rules
}

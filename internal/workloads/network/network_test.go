package network

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/tenantry/tenantry/internal/offlimits"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// on is where something is on a host: a pod in a namespace of a space, or an address.
type on struct {
	home    names.Namespace
	labels  map[string]string // of the pod, in its space
	address string
}

func in(tenant, namespace string, labels map[string]string) on {
	return on{home: names.Namespace{Installation: "i", Tenant: "t", TenantUID: types.UID("uid-" + tenant), Name: namespace, UID: types.UID(namespace + "-" + tenant)}, labels: labels}
}

var (
	app     = map[string]string{"app": "web"}
	web     = in("acme", "shop", app)
	sibling = in("acme", "shop", map[string]string{"app": "db"})
	cousin  = in("acme", "data", app)
	foreign = in("globex", "shop", app)
	system  = on{address: "10.244.7.7"} // a pod of the host, by its address
	node    = on{address: "192.168.1.4"}
	service = on{address: "10.96.0.1"}
	cloud   = on{address: "169.254.169.254"}
	outside = on{address: "93.184.216.34"}
	other   = on{address: "203.0.113.9"}
	six     = on{address: "2606:2800::1"}
	inside6 = on{address: "fd00:10::7"}
	link6   = on{address: "fe80::1"}
	all     = map[string]on{"sibling": sibling, "cousin": cousin, "foreign": foreign, "system": system, "node": node, "service": service, "cloud": cloud,
		"outside": outside, "other": other, "six": six, "inside6": inside6, "link6": link6}
)

// hostNamespaceLabels are those of a pod's namespace on the host.
func hostNamespaceLabels(of on) labels.Set {
	set := labels.Set{corev1.LabelMetadataName: of.home.Host()}
	for key, value := range of.home.Labels() {
		set[key] = value
	}
	for key, value := range NamespaceLabels(map[string]string{corev1.LabelMetadataName: of.home.Name, "team": of.home.Name}) {
		set[key] = value
	}
	return set
}

// admits reports whether a host lets a pod be reached by, or reach, another one: as Kubernetes says, and not as this
// package does.
func admits(t *testing.T, policies []*networkingv1.NetworkPolicy, of on, open Open, direction networkingv1.PolicyType, peer on, port int32) bool {
	t.Helper()
	podLabels := labels.Set{names.InstallationLabel: "i"}
	for key, value := range of.labels {
		podLabels[key] = value
	}
	open.Label(podLabels)
	isolated := false
	for _, policy := range policies {
		if policy.Namespace != of.home.Host() || !matches(t, &policy.Spec.PodSelector, podLabels) {
			continue
		}
		for _, d := range policy.Spec.PolicyTypes {
			isolated = isolated || d == direction
		}
		if direction == networkingv1.PolicyTypeIngress {
			for _, rule := range policy.Spec.Ingress {
				if admitsRule(t, policy.Namespace, rule.From, rule.Ports, peer, port) {
					return true
				}
			}
		} else {
			for _, rule := range policy.Spec.Egress {
				if admitsRule(t, policy.Namespace, rule.To, rule.Ports, peer, port) {
					return true
				}
			}
		}
	}
	return !isolated
}

func admitsRule(t *testing.T, namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, peer on, port int32) bool {
	t.Helper()
	hasPort := len(ports) == 0
	for _, p := range ports {
		hasPort = hasPort || p.Port == nil || p.Port.IntVal == port || p.EndPort != nil && p.Port.IntVal <= port && port <= *p.EndPort
	}
	if !hasPort {
		return false
	}
	if len(peers) == 0 {
		return true
	}
	for _, p := range peers {
		switch {
		case p.IPBlock != nil:
			if peer.address == "" {
				peer.address = "10.244.1.1" // pods have addresses, too, and many hosts compare them
			}
			address := netip.MustParseAddr(peer.address)
			hit := netip.MustParsePrefix(p.IPBlock.CIDR).Contains(address)
			for _, except := range p.IPBlock.Except {
				strict := netip.MustParsePrefix(except)
				if !netip.MustParsePrefix(p.IPBlock.CIDR).Contains(strict.Addr()) || strict.Bits() <= netip.MustParsePrefix(p.IPBlock.CIDR).Bits() {
					t.Errorf("a host refuses %s except %s", p.IPBlock.CIDR, except)
				}
				hit = hit && !strict.Contains(address)
			}
			if hit {
				return true
			}
		case peer.home.Name == "": // an address
		case p.NamespaceSelector == nil && peer.home.Host() != namespace:
		case p.NamespaceSelector != nil && !matches(t, p.NamespaceSelector, hostNamespaceLabels(peer)):
		default:
			podLabels := labels.Set{names.InstallationLabel: "i"}
			for key, value := range peer.labels {
				podLabels[key] = value
			}
			if p.PodSelector == nil || matches(t, p.PodSelector, podLabels) {
				return true
			}
		}
	}
	return false
}

func matches(t *testing.T, s *metav1.LabelSelector, set labels.Set) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(set)
}

func governed(policies []*networkingv1.NetworkPolicy) (all []*Governed) {
	for _, policy := range policies {
		all = append(all, GovernedBy(policy))
	}
	return all
}

// reached returns whom a pod of the space reaches, and is reached by, with so many policies of the space.
func reached(t *testing.T, policies []*networkingv1.NetworkPolicy, direction networkingv1.PolicyType) string {
	t.Helper()
	ranges := NewRanges(nil, nil)
	host := Guards(web.home, ranges, Reachable{Namespace: "tenantry-workloads"})
	for _, policy := range policies {
		made, err := Policy(policy, web.home, ranges)
		if err != nil {
			t.Fatal(err)
		}
		host = append(host, made)
	}
	open := OpenOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: web.labels}}, governed(policies))
	var found []string
	for _, name := range []string{"sibling", "cousin", "foreign", "system", "node", "service", "cloud", "outside", "other", "six", "inside6", "link6"} {
		if admits(t, host, web, open, direction, all[name], 80) {
			found = append(found, name)
		}
	}
	return strings.Join(found, " ")
}

func selector(pairs ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for i := 0; i < len(pairs); i += 2 {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}}
}

func block(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func blocks(n int) (all []networkingv1.NetworkPolicyPeer) {
	for i := range n {
		all = append(all, block(fmt.Sprintf("8.%d.%d.0/24", i/256, i%256)))
	}
	return all
}

// TestReached checks whom a pod reaches, and is reached by, for whatever peers a tenant writes: never another tenant's
// pod, nor what is the host's.
func TestReached(t *testing.T) {
	type peers = []networkingv1.NetworkPolicyPeer
	const open = "sibling cousin outside other six"
	for name, tc := range map[string]struct {
		none  bool // no policy at all
		rules []peers
		want  string
	}{
		"no policy":                       {none: true, want: open},
		"no rule":                         {want: ""},
		"a rule without peers":            {rules: []peers{nil}, want: open},
		"a rule with no peer in its list": {rules: []peers{{}}, want: open},
		"a peer that says nothing":        {rules: []peers{{{}}}, want: ""},
		"all pods of the namespace":       {rules: []peers{{{PodSelector: selector()}}}, want: "sibling"},
		"pods of the namespace":           {rules: []peers{{{PodSelector: selector("app", "db")}}}, want: "sibling"},
		"no pod of the namespace":         {rules: []peers{{{PodSelector: selector("app", "other")}}}, want: ""},
		"all namespaces":                  {rules: []peers{{{NamespaceSelector: selector()}}}, want: "sibling cousin"},
		"a namespace by its name":         {rules: []peers{{{NamespaceSelector: selector(corev1.LabelMetadataName, "data")}}}, want: "cousin"},
		"a namespace by the name on the host": {
			rules: []peers{{{NamespaceSelector: selector(corev1.LabelMetadataName, foreign.home.Host())}}}, want: ""},
		"a namespace by a label":         {rules: []peers{{{NamespaceSelector: expression("team", metav1.LabelSelectorOpIn, "data", "x")}}}, want: "cousin"},
		"namespaces without a label":     {rules: []peers{{{NamespaceSelector: expression("none", metav1.LabelSelectorOpDoesNotExist)}}}, want: "sibling cousin"},
		"namespaces with another value":  {rules: []peers{{{NamespaceSelector: expression("team", metav1.LabelSelectorOpNotIn, "shop")}}}, want: "cousin"},
		"pods of namespaces":             {rules: []peers{{{NamespaceSelector: selector(), PodSelector: selector("app", "web")}}}, want: "cousin"},
		"another tenant by our label":    {rules: []peers{{{NamespaceSelector: selector(names.TenantUIDLabel, "uid-globex")}}}, want: ""},
		"whoever is not of this tenant":  {rules: []peers{{{NamespaceSelector: expression(names.TenantUIDLabel, metav1.LabelSelectorOpNotIn, "uid-acme")}}}, want: "sibling cousin"},
		"whoever has no tenant":          {rules: []peers{{{NamespaceSelector: expression(names.TenantUIDLabel, metav1.LabelSelectorOpDoesNotExist)}}}, want: "sibling cousin"},
		"whoever has a tenant":           {rules: []peers{{{NamespaceSelector: expression(names.TenantUIDLabel, metav1.LabelSelectorOpExists)}}}, want: ""},
		"pods by our label":              {rules: []peers{{{NamespaceSelector: selector(), PodSelector: expression(names.InstallationLabel, metav1.LabelSelectorOpExists)}}}, want: ""},
		"pods without our label":         {rules: []peers{{{PodSelector: expression(names.InstallationLabel, metav1.LabelSelectorOpDoesNotExist)}}}, want: "sibling"},
		"everywhere":                     {rules: []peers{{block("0.0.0.0/0"), block("::/0")}}, want: "outside other six"},
		"everywhere but a range":         {rules: []peers{{block("0.0.0.0/0", "203.0.113.0/24")}}, want: "outside"},
		"a range without anything":       {rules: []peers{{block("203.0.113.0/24", "203.0.113.0/25", "203.0.113.128/25")}}, want: ""},
		"a range outside":                {rules: []peers{{block("93.184.0.0/16")}}, want: "outside"},
		"a range with bits too many":     {rules: []peers{{block("93.184.216.34/16")}}, want: "outside"},
		"the pods by their range":        {rules: []peers{{block("10.244.0.0/16")}}, want: ""},
		"a pod by its address":           {rules: []peers{{block("10.244.1.1/32")}}, want: ""},
		"more than the pods":             {rules: []peers{{block("8.0.0.0/5")}}, want: ""},
		"the metadata of a cloud":        {rules: []peers{{block("169.254.169.254/32")}}, want: ""},
		"half of everything":             {rules: []peers{{block("0.0.0.0/1"), block("128.0.0.0/1")}}, want: "outside other"},
		"pods in the form of IPv6":       {rules: []peers{{block("::ffff:10.244.0.0/112")}}, want: ""},
		"everything in the form of IPv6": {rules: []peers{{block("::ffff:0:0/96")}}, want: ""},
		"private addresses of IPv6":      {rules: []peers{{block("fd00::/8")}}, want: ""},
		"what is no range":               {rules: []peers{{block("010.0.0.0/8")}}, want: ""},
		"what is no exception":           {rules: []peers{{block("0.0.0.0/0", "0203.0.113.0/24")}}, want: ""},
		"a range and a selector":         {rules: []peers{{{IPBlock: block("0.0.0.0/0").IPBlock, PodSelector: selector()}}}, want: ""},
		"nothing beside something":       {rules: []peers{{{}}, {{PodSelector: selector()}}}, want: "sibling"},
		"nothing left of several":        {rules: []peers{{{}, block("10.0.0.0/8"), block("192.168.1.4/32")}}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, direction := range []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress} {
				policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{direction}}}
				for _, of := range tc.rules {
					if direction == networkingv1.PolicyTypeIngress {
						policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: of})
					} else {
						policy.Spec.Egress = append(policy.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: of})
					}
				}
				policies := []*networkingv1.NetworkPolicy{policy}
				if tc.none {
					policies = nil
				}
				if got := reached(t, policies, direction); got != tc.want {
					t.Errorf("%s: got %q, want %q", direction, got, tc.want)
				}
				opposite := networkingv1.PolicyTypeIngress
				if direction == opposite {
					opposite = networkingv1.PolicyTypeEgress
				}
				if got := reached(t, policies, opposite); got != open {
					t.Errorf("%s, of which it says nothing: got %q, want %q", opposite, got, open)
				}
			}
		})
	}
}

// TestThrough checks that what serves Ingresses reaches whom the outside reaches, where a tenant has some, and is
// reached by nobody.
func TestThrough(t *testing.T) {
	ranges := NewRanges(nil, nil)
	controller := labels.Set{IngressLabel: "true", corev1.LabelMetadataName: "ingress-nginx"}
	reaches := func(rules [][]networkingv1.NetworkPolicyPeer, through ...networkingv1.NetworkPolicyPeer) (in, out bool) {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress", "Egress"}}}
		for _, peers := range rules {
			policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers})
			policy.Spec.Egress = append(policy.Spec.Egress, networkingv1.NetworkPolicyEgressRule{To: peers})
		}
		made, err := Policy(policy, web.home, ranges, through...)
		if err != nil {
			t.Fatal(err)
		}
		if rules == nil {
			guards := Guards(web.home, ranges, Reachable{Namespace: "tenantry-workloads"}, through...)
			made.Spec.Ingress, made.Spec.Egress = guards[1].Spec.Ingress, guards[2].Spec.Egress
		}
		has := func(peers []networkingv1.NetworkPolicyPeer) bool {
			return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
				return p.NamespaceSelector != nil && matches(t, p.NamespaceSelector, controller)
			})
		}
		for _, rule := range made.Spec.Ingress {
			in = in || has(rule.From)
		}
		for _, rule := range made.Spec.Egress {
			out = out || has(rule.To)
		}
		return in, out
	}
	type peers = []networkingv1.NetworkPolicyPeer
	for name, tc := range map[string]struct {
		rules []peers
		want  bool
	}{
		"no policy":              {want: true},
		"a rule without peers":   {rules: []peers{nil}, want: true},
		"everywhere":             {rules: []peers{{block("0.0.0.0/0")}}, want: true},
		"everywhere by IPv6":     {rules: []peers{{block("::/0")}}, want: true},
		"everywhere but a range": {rules: []peers{{block("0.0.0.0/0", "203.0.113.0/24")}}},
		"a range":                {rules: []peers{{block("203.0.113.0/24")}}},
		"the namespace":          {rules: []peers{{{PodSelector: selector()}}}},
		"by its label":           {rules: []peers{{{NamespaceSelector: selector(IngressLabel, "true")}}}},
		"no rule":                {rules: []peers{}},
	} {
		if in, out := reaches(tc.rules, IngressControllers()...); in != tc.want || out {
			t.Errorf("%s: it reaches the pod %t, and is reached %t", name, in, out)
		}
		if in, out := reaches(tc.rules); in || out {
			t.Errorf("%s, without Ingresses: it reaches the pod %t, and is reached %t", name, in, out)
		}
	}
}

// TestPolicy checks what a policy keeps, and that none becomes too large.
func TestPolicy(t *testing.T) {
	udp, end := corev1.ProtocolUDP, int32(90)
	ports := []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: new(intstr.FromInt32(80)), EndPort: &end}, {Port: new(intstr.FromString("http"))}}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: *selector("app", "web", names.InstallationLabel, "i"), Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: ports}},
	}}
	host, err := Policy(policy, web.home, NewRanges(nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if host.Name != "tn-p" || host.Namespace != web.home.Host() || host.Labels[names.InstallationLabel] != "i" || host.Annotations[names.UIDAnnotation] != "u" {
		t.Errorf("it is %v", host.ObjectMeta)
	}
	if got := host.Spec.PolicyTypes; len(got) != 2 {
		t.Errorf("without a type it is of %v, want both", got)
	}
	if got := host.Spec.Egress[0].Ports; len(got) != 2 || *got[0].EndPort != 90 || got[1].Port.StrVal != "http" {
		t.Errorf("its ports are %v", got)
	}
	if got := host.Spec.PodSelector.MatchLabels; got["app"] != "web" || got[names.InstallationLabel] != "" || len(got) != 2 {
		t.Errorf("it selects %v", got)
	}
	for name, tc := range map[string]struct {
		peers []networkingv1.NetworkPolicyPeer
		fits  bool
		want  string
	}{
		"many ranges":      {peers: blocks(1000), fits: true},
		"many long values": {peers: []networkingv1.NetworkPolicyPeer{{PodSelector: expression("a", metav1.LabelSelectorOpIn, slices.Repeat([]string{strings.Repeat("v", 63)}, 1100)...)}}, want: "may have 65536"},
		"too many ranges":  {peers: blocks(maxEntries + 1)},
		"too many values":  {peers: []networkingv1.NetworkPolicyPeer{{PodSelector: expression("a", metav1.LabelSelectorOpIn, make([]string, maxEntries)...)}}},
		"many large ranges": {peers: func() (all []networkingv1.NetworkPolicyPeer) {
			for range 1000 {
				all = append(all, block("0.0.0.0/0"))
			}
			return all
		}()},
	} {
		policy.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: tc.peers}}
		want := cmp.Or(tc.want, "may have 5000")
		if _, err := Policy(policy, web.home, NewRanges(nil, nil)); (err == nil) != tc.fits || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOpenOf(t *testing.T) {
	policy := func(s *metav1.LabelSelector, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: *s, PolicyTypes: types}}
	}
	for name, tc := range map[string]struct {
		policies []*networkingv1.NetworkPolicy
		want     Open
	}{
		"none":                         {want: Open{true, true}},
		"all, in one direction":        {policies: []*networkingv1.NetworkPolicy{policy(selector(), "Ingress")}, want: Open{Egress: true}},
		"all, in the other":            {policies: []*networkingv1.NetworkPolicy{policy(selector(), "Egress")}, want: Open{Ingress: true}},
		"others":                       {policies: []*networkingv1.NetworkPolicy{policy(selector("app", "db"), "Ingress", "Egress")}, want: Open{true, true}},
		"it and others":                {policies: []*networkingv1.NetworkPolicy{policy(selector("app", "db"), "Egress"), policy(selector("app", "web"))}, want: Open{Egress: true}},
		"what has not our label":       {policies: []*networkingv1.NetworkPolicy{policy(expression(OpenIngressLabel, metav1.LabelSelectorOpDoesNotExist), "Ingress")}, want: Open{Egress: true}},
		"a selector that nobody reads": {policies: []*networkingv1.NetworkPolicy{policy(expression("a", "?"), "Ingress", "Egress")}},
	} {
		if got := OpenOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: app}}, governed(tc.policies)); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
	set := map[string]string{OpenIngressLabel: "x"}
	Open{Egress: true}.Label(set)
	if len(set) != 1 || set[OpenEgressLabel] != "true" {
		t.Errorf("the labels are %v", set)
	}
}

// TestGuards checks what every pod reaches, and that it is no more.
func TestGuards(t *testing.T) {
	api := Guards(web.home, NewRanges(nil, nil), Reachable{Namespace: "ours", API: netip.MustParseAddrPort("192.168.1.4:6443")})
	for port, want := range map[int32]bool{6443: true, 22: false} {
		if got := admits(t, api, web, Open{}, networkingv1.PolicyTypeEgress, node, port); got != want {
			t.Errorf("port %d of the API is reached: %v", port, got)
		}
	}
	owner := names.Owner{Namespace: "team-a", ControlPlane: "one"}
	behind := Guards(web.home, NewRanges(nil, nil), Reachable{Namespace: "ours", API: netip.MustParseAddrPort("10.43.0.7:443"), Owner: owner})[0].Spec.Egress
	if peer := behind[len(behind)-1].To[0]; peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] != "team-a" ||
		peer.PodSelector.MatchLabels["app.kubernetes.io/instance"] != "one" || peer.PodSelector.MatchLabels["app.kubernetes.io/component"] != "control-plane" {
		t.Errorf("behind the address of a ControlPlane's API, pods reach %v", peer)
	}
	for name, reachable := range map[string]Reachable{
		"that are elsewhere": {Calls: true, Owner: names.Owner{Namespace: "tenantry-workloads"}}, "that do not call": {Owner: owner},
	} {
		if rules := Guards(web.home, NewRanges(nil, nil), reachable)[0].Spec.Ingress; len(rules) > 0 {
			t.Errorf("servers %s are let in by %v", name, rules)
		}
	}
	want := []networkingv1.NetworkPolicyIngressRule{{From: behind[len(behind)-1].To}}
	if got := Guards(web.home, NewRanges(nil, nil), Reachable{Calls: true, Owner: owner})[0].Spec.Ingress; !reflect.DeepEqual(got, want) {
		t.Errorf("the guard lets in %v, and is to let in the servers: %v", got, want)
	}
	guards := Guards(web.home, NewRanges(nil, nil), Reachable{Namespace: "ours", Addresses: offlimits.MustParse("192.168.1.4/32")})
	closed := func(peer on, port int32) bool {
		return admits(t, guards, web, Open{}, networkingv1.PolicyTypeEgress, peer, port)
	}
	if !closed(node, 443) {
		t.Error("the API is not reached")
	}
	for name, peer := range all {
		if name != "node" && closed(peer, 80) || admits(t, guards, web, Open{}, networkingv1.PolicyTypeIngress, peer, 80) {
			t.Errorf("a pod that is closed reaches, or is reached by, %s", name)
		}
	}
	if rules := Guards(web.home, NewRanges(nil, nil), Reachable{})[0].Spec.Egress; len(rules) != 1 || len(rules[0].To) == 0 {
		t.Errorf("without addresses it has the rules %v", rules)
	}
}

// TestRanges checks which ranges there are beside those that are off limits for everybody.
func TestRanges(t *testing.T) {
	for name, tc := range map[string]struct {
		configured, found []string
		want              string
	}{
		"what is private":          {want: "[10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 224.0.0.0/3 fc00::/7]"},
		"what is configured":       {configured: []string{"10.244.0.0/16", "10.244.7.0/24"}, want: "[10.244.0.0/16]"},
		"and what is found":        {configured: []string{"10.244.0.0/16"}, found: []string{"8.8.8.8"}, want: "[8.8.8.8/32 10.244.0.0/16]"},
		"neighbours":               {configured: []string{"10.0.3.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.0.0/24"}, want: "[10.0.0.0/22]"},
		"no neighbours":            {configured: []string{"10.0.1.0/24", "10.0.2.0/24"}, want: "[10.0.1.0/24 10.0.2.0/24]"},
		"IPv4 in the form of IPv6": {configured: []string{"::ffff:10.1.0.0/112", "::ffff:10.2.0.1"}, want: "[10.1.0.0/16 10.2.0.1/32]"},
		"everything":               {configured: []string{"0.0.0.0/1", "128.0.0.0/1"}, want: "[0.0.0.0/0]"},
	} {
		t.Run(name, func(t *testing.T) {
			configured, err := Parse(tc.configured)
			if err != nil {
				t.Fatal(err)
			}
			found, err := Parse(tc.found)
			if err != nil {
				t.Fatal(err)
			}
			ranges := NewRanges(configured, found)
			if got := fmt.Sprint(ranges.own()); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if !ranges.Equal(NewRanges(configured, found)) || ranges.Equal(NewRanges(offlimits.MustParse("1.0.0.0/8"), nil)) {
				t.Error("it is not equal to itself alone")
			}
		})
	}
	ranges := NewRanges(nil, offlimits.MustParse("198.51.100.0/24"))
	for text, want := range map[string]bool{"10.0.0.1": true, "::ffff:10.0.0.1": true, "198.51.100.9": true, "169.254.169.254": true, "fd00::1": true, "192.0.2.1": false, "2001:db8::1": false} {
		if got := ranges.Contains(netip.MustParseAddr(text)); got != want {
			t.Errorf("it has %s: %t", text, got)
		}
	}
	for _, text := range []string{"", "10.0.0.0/33", "10.0.0.0/8/8", "fe80::1%eth0", "name"} {
		if _, err := Parse([]string{text}); err == nil {
			t.Errorf("%q is a range", text)
		}
	}
}

// own returns the ranges without those that are off limits for everybody, and by which NAT64 leads to others.
func (r Ranges) own() []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(r.inside), func(p netip.Prefix) bool {
		return slices.ContainsFunc(append(offlimits.MustParse("64:ff9b::/96"), never...), func(n netip.Prefix) bool { return contains(n, p) })
	})
}

// TestNever checks that what is off limits is nobody's outside, whatever is configured.
func TestNever(t *testing.T) {
	addresses := map[string]string{
		"metadata": "169.254.169.254", "AWS": "fd00:ec2::254", "EKS": "fd00:ec2::23", "Azure": "168.63.129.16", "Alibaba": "100.100.100.200", "Google": "fd20:ce::254", "Oracle6": "fd00:c1::a9fe:a9fe", "Scaleway": "fd00:42::42",
		"Oracle": "192.0.0.192", "loopback": "127.0.0.1", "loopback of IPv6": "::1", "this": "0.0.0.0", "multicast": "224.0.0.1", "multicast of IPv6": "ff02::1",
		"metadata by NAT64": "64:ff9b::a9fe:a9fe", "the cluster by NAT64": "64:ff9b::a00:1", "another NAT64": "64:ff9b:1::1", "6to4": "2002:a00:1::1", "compatible": "::10.0.0.1",
	}
	for name, ranges := range map[string]Ranges{"by default": NewRanges(nil, nil), "configured": NewRanges(offlimits.MustParse("10.0.0.0/8"), nil)} {
		for what, address := range addresses {
			p := netip.PrefixFrom(netip.MustParseAddr(address), netip.MustParseAddr(address).BitLen())
			if block := ranges.outsideOf(&networkingv1.IPBlock{CIDR: p.String()}); block != nil || !ranges.Contains(p.Addr()) {
				t.Errorf("%s: %s is outside: %v", name, what, block)
			}
		}
		for _, address := range []string{"8.8.8.8", "64:ff9b::808:808", "2600:1f14::7"} {
			if ranges.Contains(netip.MustParseAddr(address)) {
				t.Errorf("%s: %s is not outside", name, address)
			}
		}
	}
}

func TestNamespaceLabels(t *testing.T) {
	many := map[string]string{corev1.LabelMetadataName: "shop"}
	for i := range 1000 {
		many[fmt.Sprintf("%03d.example.com/%s", i, strings.Repeat("k", 63))] = "v"
	}
	got := NamespaceLabels(many)
	if len(got) != maxLabels || got[hostKey(corev1.LabelMetadataName)] != "shop" {
		t.Errorf("got %d labels", len(got))
	}
	for key := range got {
		if !strings.HasPrefix(key, LabelPrefix) {
			t.Errorf("the host gets the label %s", key)
		}
	}
}

// TestCanaryPolicies checks that each connection that must not be made is denied by one policy alone.
func TestCanaryPolicies(t *testing.T) {
	policies := CanaryPolicies("tn-canaries", "i", Reachable{Namespace: "platform"})
	listens, dials := labels.Set{canaryLabel: canaryListener}, labels.Set{canaryLabel: canaryDialer}
	for port, want := range map[int32][2]bool{portOpen: {true, true}, portNoIngress: {false, true}, portNoEgress: {true, false}} {
		got := [2]bool{}
		for _, policy := range policies {
			for _, rule := range policy.Spec.Ingress {
				for _, p := range rule.Ports {
					got[0] = got[0] || p.Port.IntVal == port && matches(t, &policy.Spec.PodSelector, listens) && matches(t, rule.From[0].PodSelector, dials)
				}
			}
			for _, rule := range policy.Spec.Egress {
				for _, p := range rule.Ports {
					got[1] = got[1] || p.Port.IntVal == port && matches(t, &policy.Spec.PodSelector, dials) && rule.To[0].NamespaceSelector == nil && matches(t, rule.To[0].PodSelector, listens)
				}
			}
		}
		if got != want {
			t.Errorf("port %d: in and out are %v, want %v", port, got, want)
		}
	}
}

// TestCanaryPriority checks that the canaries come before pods of spaces on a host that has config/workloads.
func TestCanaryPriority(t *testing.T) {
	file, err := os.Open("../../../config/workloads/priorityclass.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	values := map[string]int32{}
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var class schedulingv1.PriorityClass
		if err := decoder.Decode(&class); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		values[class.Name] = class.Value
	}
	pods := []*corev1.Pod{CanaryListener("tn-canaries", "i", "image", "word"), CanaryDialer("tn-canaries", "i", "image", "word", netip.MustParseAddr("10.0.0.1"), netip.Addr{}, "")}
	for _, pod := range pods {
		if value, ok := values[pod.Spec.PriorityClassName]; !ok || value <= values["tenantry-workloads"] {
			t.Errorf("%s has the class %q, of %v", pod.Name, pod.Spec.PriorityClassName, values)
		}
	}
}

// TestOwn checks that peers of a tenant are in namespaces of the same owner, whatever marks others give theirs.
func TestOwn(t *testing.T) {
	one := names.Owner{Namespace: "team-a", ControlPlane: "one"}
	forgers := map[string]names.Owner{"a neighbour": {Namespace: "team-a", ControlPlane: "two"}, "one of its name": {Namespace: "team-b", ControlPlane: "one"}}
	for name, tc := range map[string]struct {
		owner  names.Owner
		others map[string]names.Owner
	}{
		"a ControlPlane":       {one, map[string]names.Owner{"a neighbour": forgers["a neighbour"], "one of its name": forgers["one of its name"], "a Tenantry elsewhere": {}}},
		"a Tenantry elsewhere": {names.Owner{Namespace: names.Platform}, map[string]names.Owner{"a ControlPlane": one}},
	} {
		for _, policy := range Guards(web.home, NewRanges(nil, nil), Reachable{Namespace: "ours"})[1:] {
			Own(policy, tc.owner)
			var peers []networkingv1.NetworkPolicyPeer
			for _, rule := range policy.Spec.Ingress {
				peers = append(peers, rule.From...)
			}
			for _, rule := range policy.Spec.Egress {
				peers = append(peers, rule.To...)
			}
			admitted := func(by names.Owner) bool {
				marks := web.home.Labels()
				maps.Copy(marks, by.Labels())
				return slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
					if p.NamespaceSelector == nil {
						return false
					}
					selector, err := metav1.LabelSelectorAsSelector(p.NamespaceSelector)
					return err == nil && selector.Matches(labels.Set(marks))
				})
			}
			if !admitted(tc.owner) {
				t.Errorf("%s: %s does not admit its own", name, policy.Name)
			}
			for forger, by := range tc.others {
				if admitted(by) {
					t.Errorf("%s: %s admits %s", name, policy.Name, forger)
				}
			}
		}
	}
}

package translate

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

func spaceService(change func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "acme|shop", UID: "s",
			Labels:      map[string]string{"app": "web", "service.kubernetes.io/service-proxy-name": "mine", names.InstallationLabel: "other"},
			Annotations: map[string]string{"example.com/balancer": "public", names.TenantAnnotation: "globex"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"}, ClusterIP: "10.0.0.1", ClusterIPs: []string{"10.0.0.1"},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	if change != nil {
		change(service)
	}
	return service
}

func TestCheckService(t *testing.T) {
	for name, tc := range map[string]struct {
		rules  Rules
		change func(*corev1.ServiceSpec)
		want   string
	}{
		"a plain one":            {change: func(*corev1.ServiceSpec) {}},
		"headless":               {change: func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "None", []string{"None"} }},
		"external addresses":     {change: func(s *corev1.ServiceSpec) { s.ExternalIPs = []string{"8.8.8.8"} }, want: "spec.externalIPs: Forbidden: addresses from outside"},
		"a balancer's class":     {change: func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("example.com/x") }, want: "spec.loadBalancerClass: Forbidden: the host cluster chooses"},
		"a balancer's address":   {change: func(s *corev1.ServiceSpec) { s.LoadBalancerIP = "8.8.8.8" }, want: "spec.loadBalancerIP: Forbidden: the host cluster chooses"},
		"node ports":             {change: func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }, want: "spec.type: Forbidden: ports of the host's nodes are not for this Tenant; use type ClusterIP"},
		"node ports that may be": {rules: Rules{NodePorts: true}, change: func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeNodePort }},
		"no selector":            {change: func(s *corev1.ServiceSpec) { s.Selector = nil }, want: "spec.selector: Forbidden: endpoints that a tenant chooses"},
		"a name outside": {change: func(s *corev1.ServiceSpec) {
			s.Selector, s.Type, s.ExternalName = nil, corev1.ServiceTypeExternalName, "example.com"
		}},
		"a label of the platform's": {change: func(s *corev1.ServiceSpec) { s.Selector[names.InstallationLabel] = "i" }, want: "spec.selector[workloads.tenantry.io/installation]: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			service := spaceService(nil)
			tc.change(&service.Spec)
			errs := tc.rules.CheckService(service)
			if tc.want == "" && len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}

// balanced is a Service with a load balancer and without node ports.
func balanced(change func(*corev1.Service)) *corev1.Service {
	return spaceService(func(s *corev1.Service) {
		s.Annotations = map[string]string{"example.com/pool": "blue"}
		s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, new(false), corev1.ServiceExternalTrafficPolicyCluster
		if change != nil {
			change(s)
		}
	})
}

func annotated(keys ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		for _, key := range keys {
			s.Annotations[key] = "true"
		}
	}
}

const internal = "service.beta.kubernetes.io/aws-load-balancer-internal"

func TestCheckLoadBalancer(t *testing.T) {
	granted, both := Rules{LoadBalancers: true}, Rules{LoadBalancers: true, NodePorts: true}
	noPorts := "ports of the host's nodes are not for this Tenant"
	many := func(n int) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = slices.Repeat([]string{"192.0.2.0/24"}, n) }
	}
	local := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	for name, tc := range map[string]struct {
		rules  Rules
		change func(*corev1.Service)
		want   string
	}{
		"of a Tenant without":    {rules: Rules{NodePorts: true}, want: "spec.type: Forbidden: load balancers of the host are not for this Tenant; use type ClusterIP, or ask the platform's administrators for workloads.loadBalancers of the Tenant"},
		"of a Tenant with":       {rules: granted},
		"node ports by default":  {rules: granted, change: func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = nil }, want: "spec.allocateLoadBalancerNodePorts: Forbidden: " + noPorts},
		"node ports":             {rules: granted, change: func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = new(true) }, want: "spec.allocateLoadBalancerNodePorts: Forbidden: " + noPorts},
		"a node port":            {rules: granted, change: func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }, want: "spec.ports[0].nodePort: Forbidden: " + noPorts},
		"a node port for health": {rules: granted, change: local, want: "spec.externalTrafficPolicy: Forbidden: " + noPorts},
		"node ports that may be": {rules: both, change: func(s *corev1.Service) {
			s.Spec.AllocateLoadBalancerNodePorts, s.Spec.Ports[0].NodePort = new(true), 30000
			local(s)
		}},
		"sources":                   {rules: granted, change: many(maxSourceRanges)},
		"more sources than nodes":   {rules: granted, change: many(maxSourceRanges + 1), want: "spec.loadBalancerSourceRanges: Forbidden: on a host cluster, a load balancer lets in at most 128 ranges"},
		"an address":                {rules: both, change: func(s *corev1.Service) { s.Spec.LoadBalancerIP = "8.8.8.8" }, want: "spec.loadBalancerIP: Forbidden"},
		"a class":                   {rules: both, change: func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("example.com/x") }, want: "spec.loadBalancerClass: Forbidden"},
		"other annotations":         {rules: granted, change: annotated("example.com/album", "kubectl.kubernetes.io/last-applied-configuration", "external-dns.alpha.kubernetes.io/hostname")},
		"an annotation":             {rules: granted, change: annotated(internal), want: "metadata.annotations[" + internal + "]: Forbidden: annotations tell what makes load balancers of all tenants what to do; remove it, or ask the platform's administrators for it in workloads.loadBalancerAnnotations of the Tenant"},
		"another domain's":          {rules: granted, change: annotated("metallb.io/address-pool"), want: "metadata.annotations[metallb.io/address-pool]: Forbidden"},
		"another name's":            {rules: granted, change: annotated("kube-vip.io/loadbalancerIPs"), want: "metadata.annotations[kube-vip.io/loadbalancerIPs]: Forbidden"},
		"one for clouds":            {rules: granted, change: annotated("service.beta.kubernetes.io/azure-allowed-ip-ranges"), want: "metadata.annotations[service.beta.kubernetes.io/azure-allowed-ip-ranges]: Forbidden"},
		"one for addresses":         {rules: granted, change: annotated("io.cilium/lb-ipam-ips"), want: "metadata.annotations[io.cilium/lb-ipam-ips]: Forbidden"},
		"an annotation that may be": {rules: Rules{LoadBalancers: true, LoadBalancerAnnotations: []string{internal}}, change: annotated(internal)},
	} {
		t.Run(name, func(t *testing.T) {
			errs := tc.rules.CheckService(balanced(tc.change))
			if tc.want == "" && len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
	if errs := (Rules{}).CheckService(spaceService(func(s *corev1.Service) { s.Annotations[internal] = "true" })); len(errs) > 0 {
		t.Errorf("without a load balancer, an annotation is refused: %v", errs)
	}
}

// TestLoadBalancer checks which annotations the host's Service has, and what of the host stays when it is changed.
func TestLoadBalancer(t *testing.T) {
	home := names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}
	rules := Rules{LoadBalancers: true, LoadBalancerAnnotations: []string{internal, "example.com/pool", names.TenantAnnotation}}
	want := home.MarksOf("web", "s")
	want[internal], want["example.com/pool"], want[names.KeysAnnotation] = "true", "blue", "example.com/pool,"+internal
	of := balanced(annotated(internal, "example.com/other", names.TenantAnnotation))
	host := rules.Service(of, home)
	hash := host.Annotations[names.HashAnnotation]
	want[names.HashAnnotation] = hash
	if diff := cmp.Diff(want, host.Annotations); diff != "" {
		t.Errorf("annotations of the host's (-want +got):\n%s", diff)
	}
	for name, changed := range map[string]*corev1.Service{
		"its annotation":  rules.Service(balanced(func(s *corev1.Service) { annotated(internal)(s); s.Annotations[internal] = "false" }), home),
		"what is granted": Rules{LoadBalancers: true}.Service(of, home),
		"its sources": rules.Service(balanced(func(s *corev1.Service) {
			annotated(internal)(s)
			s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"}
		}), home),
	} {
		if changed.Annotations[names.HashAnnotation] == hash {
			t.Errorf("with another of %s the hash is the same", name)
		}
	}
	if chosen := rules.Service(balanced(func(s *corev1.Service) { annotated(internal)(s); s.Spec.HealthCheckNodePort = 30000 }), home); chosen.Annotations[names.HashAnnotation] != hash {
		t.Error("with what the host has chosen the hash is another one")
	}
	plain := rules.Service(spaceService(func(s *corev1.Service) { s.Annotations[internal] = "true" }), home)
	if _, ok := plain.Annotations[internal]; ok {
		t.Errorf("without a load balancer it has %v", plain.Annotations)
	}

	host.Finalizers, host.Spec.LoadBalancerClass = []string{"service.kubernetes.io/load-balancer-cleanup"}, new("example.com/x")
	host.Annotations["example.com/from"] = "pool"
	changed := rules.Service(balanced(nil), home)
	KeepHosts(changed, host)
	if len(changed.Finalizers) != 1 || *changed.Spec.LoadBalancerClass != "example.com/x" || changed.Annotations["example.com/from"] != "pool" || changed.Annotations[internal] != "" {
		t.Errorf("it is changed to %+v", changed)
	}
	KeepHosts(plain, host)
	if plain.Spec.LoadBalancerClass != nil {
		t.Errorf("without a load balancer it has the class %q", *plain.Spec.LoadBalancerClass)
	}
}

func TestService(t *testing.T) {
	home := names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}
	service := spaceService(nil)
	host := Rules{}.Service(service, home)
	want := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: home.Host(),
			Labels:      map[string]string{names.InstallationLabel: "i", "service.kubernetes.io/service-proxy-name": "mine"},
			Annotations: home.MarksOf("web", "s"),
		},
		Spec: service.Spec,
	}
	want.Spec.Selector = nil // by which the host's controllers would make its slices
	hash := host.Annotations[names.HashAnnotation]
	want.Annotations[names.HashAnnotation] = hash
	if diff := cmp.Diff(want, host); diff != "" {
		t.Errorf("the host's Service (-want +got):\n%s", diff)
	}
	host.Spec.Ports[0].Port = 7
	if service.Spec.Selector["app"] != "web" || service.Spec.Ports[0].Port == 7 {
		t.Error("the space's Service has changed")
	}
	headless := func(policy *corev1.IPFamilyPolicy) *corev1.IPFamilyPolicy {
		return Rules{}.Service(spaceService(func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.IPFamilyPolicy = corev1.ClusterIPNone, policy }), home).Spec.IPFamilyPolicy
	}
	if one, both := headless(nil), headless(new(corev1.IPFamilyPolicyPreferDualStack)); *one != corev1.IPFamilyPolicySingleStack || *both != corev1.IPFamilyPolicyPreferDualStack {
		t.Errorf("without an address it has the families of %s, and of %s", *one, *both)
	}
	outside := func(name string) *corev1.Service {
		return Rules{}.Service(spaceService(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}
		}), home)
	}
	if one := outside("example.com"); one.Spec.ExternalName != names.NoHost || one.Annotations[names.ExternalNameAnnotation] != "example.com" ||
		one.Annotations[names.HashAnnotation] == outside("example.org").Annotations[names.HashAnnotation] {
		t.Errorf("a name outside is %+v", one)
	}
	if left := (Rules{}).Service(spaceService(func(s *corev1.Service) { s.Spec.ExternalName = "example.com" }), home); left.Spec.ExternalName != "" || left.Annotations[names.ExternalNameAnnotation] != "" {
		t.Errorf("a name that has no effect is %+v", left)
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		same   bool
	}{
		"its address":    {func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.2", []string{"10.0.0.2"} }, true},
		"its node port":  {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }, true},
		"a label of its": {func(s *corev1.Service) { s.Labels["app"] = "x" }, true},
		"its selector":   {func(s *corev1.Service) { s.Spec.Selector["app"] = "x" }, true},
		"a port":         {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, false},
		"its proxy":      {func(s *corev1.Service) { delete(s.Labels, "service.kubernetes.io/service-proxy-name") }, false},
	} {
		if got := (Rules{}).Service(spaceService(tc.change), home).Annotations[names.HashAnnotation] == hash; got != tc.same {
			t.Errorf("with another of %s the hash is the same: %t", name, got)
		}
	}
}

func TestGiven(t *testing.T) {
	service := spaceService(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 })
	if !GivenOf(service).Equal(Given{[]string{"10.0.0.1"}, []int32{30000}, 0}) {
		t.Errorf("got %+v", GivenOf(service))
	}
	for _, other := range []Given{{[]string{"10.0.0.2"}, []int32{30000}, 0}, {[]string{"10.0.0.1"}, []int32{30001}, 0}, {[]string{"10.0.0.1"}, []int32{30000}, 30002}} {
		if GivenOf(service).Equal(other) {
			t.Errorf("is equal to %+v", other)
		}
	}
}

// TestKeepsLabelsOfComponents checks that a change takes nothing from a component by which it knows which addresses are
// taken.
func TestKeepsLabelsOfComponents(t *testing.T) {
	rules := Rules{LoadBalancers: true}
	there := rules.Service(balanced(nil), home.Namespace)
	there.Labels["implementation"] = "kube-vip"
	there.Annotations["kube-vip.io/loadbalancerIPs"] = "192.0.2.7"
	there.Spec.LoadBalancerIP = "192.0.2.7"
	wanted := rules.Service(balanced(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }), home.Namespace)
	KeepHosts(wanted, there)
	if wanted.Labels["implementation"] == "" {
		t.Errorf("the component's label is gone, its annotation is %q", wanted.Annotations["kube-vip.io/loadbalancerIPs"])
	}
	if wanted.Spec.LoadBalancerIP == "" {
		t.Error("the component's spec.loadBalancerIP is gone")
	}
}

// TestBalancerEnds checks that what there is of a load balancer stays with it, until components have taken it away, and
// no longer.
func TestBalancerEnds(t *testing.T) {
	rules := Rules{LoadBalancers: true, LoadBalancerAnnotations: []string{internal}}
	marked := func(change func(*corev1.Service)) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Labels["implementation"], s.Annotations["kube-vip.io/loadbalancerIPs"], s.Spec.LoadBalancerIP = "kube-vip", "192.0.2.7", "192.0.2.7"
			if change != nil {
				change(s)
			}
		}
	}
	finalized := marked(func(s *corev1.Service) { s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"} })
	ends := func(change func(*corev1.Service)) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Annotations[names.BalancerAnnotation] = "true"
			change(s)
		}
	}
	none := func(*corev1.Service) {}
	for name, tc := range map[string]struct {
		has, had bool
		// there has what components have put on it, wanted what they had put on a Service that is put back.
		there, wanted func(*corev1.Service)
		stays, ends   bool
	}{
		"a load balancer":                        {has: true, had: true, there: marked(nil), stays: true},
		"one that is put back":                   {has: true, had: true, there: none, wanted: marked(nil)},
		"one that ends":                          {had: true, there: marked(nil), ends: true},
		"one that ends, with a finalizer":        {had: true, there: finalized, stays: true, ends: true},
		"one that has ended":                     {there: ends(marked(nil)), ends: true},
		"one that has ended, with a finalizer":   {there: ends(finalized), stays: true, ends: true},
		"one that had been there":                {has: true, there: ends(finalized)},
		"one that comes":                         {has: true, there: marked(nil)},
		"one that is put back after it went":     {has: true, there: ends(none), wanted: marked(nil)},
		"one that had ended, and is put back":    {had: true, there: none, wanted: ends(marked(nil)), ends: true},
		"what never was one":                     {there: marked(nil), stays: true},
		"what never was one, and is to have few": {there: none, wanted: marked(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(balances bool) *corev1.Service {
				if balances {
					return rules.Service(balanced(annotated(internal)), home.Namespace)
				}
				return rules.Service(spaceService(nil), home.Namespace)
			}
			wanted, there := of(tc.has), of(tc.had)
			tc.there(there)
			if tc.wanted != nil {
				tc.wanted(wanted)
			}
			KeepHosts(wanted, there)
			if (wanted.Labels["implementation"] != "") != tc.stays || (wanted.Annotations["kube-vip.io/loadbalancerIPs"] != "") != tc.stays ||
				(wanted.Spec.LoadBalancerIP != "") != (tc.stays && tc.has) || len(wanted.Finalizers) != len(there.Finalizers) ||
				(wanted.Annotations[names.BalancerAnnotation] != "") != tc.ends {
				t.Errorf("it is %+v", wanted)
			}
			if (wanted.Annotations[internal] != "") != tc.has || wanted.Labels[names.InstallationLabel] == "" || wanted.Annotations[names.UIDAnnotation] == "" {
				t.Errorf("of its own it has %v, %v", wanted.Annotations, wanted.Labels)
			}
		})
	}
}

// TestNodePortsAfterTheGrant checks that a Service that has node ports gets no others when its Tenant may have none.
func TestNodePortsAfterTheGrant(t *testing.T) {
	for name, rules := range map[string]Rules{"balancer": {LoadBalancers: true}, "neither": {}} {
		before := balanced(func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = nil; s.Spec.Ports[0].NodePort = 30001 })
		other := before.DeepCopy()
		other.Spec.Ports[0].NodePort = 31337
		if errs := rules.CheckServiceChange(other, before); len(errs) == 0 {
			t.Errorf("%s: another node port, chosen, is not refused", name)
		}
		more := before.DeepCopy()
		more.Spec.Ports = append(more.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81})
		if errs := rules.CheckServiceChange(more, before); len(errs) == 0 {
			t.Errorf("%s: one node port more is not refused", name)
		}
	}
	before := spaceService(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort; s.Spec.Ports[0].NodePort = 30001 })
	other := before.DeepCopy()
	other.Spec.Ports[0].NodePort = 31337
	if errs := (Rules{}).CheckServiceChange(other, before); len(errs) == 0 {
		t.Error("NodePort: another node port, chosen, is not refused")
	}
	other.Spec.Ports[0].NodePort, other.Spec.Ports[0].Protocol = 30001, corev1.ProtocolUDP
	if errs := (Rules{}).CheckServiceChange(other, before); len(errs) == 0 {
		t.Error("NodePort: the same one of another protocol is not refused")
	}
}

package translate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
		"a load balancer":        {rules: Rules{NodePorts: true}, change: func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }, want: "spec.type: Forbidden: load balancers are not there yet"},
		"a balancer's class":     {change: func(s *corev1.ServiceSpec) { s.LoadBalancerClass = new("example.com/x") }, want: "spec.loadBalancerClass: Forbidden"},
		"a balancer's address":   {change: func(s *corev1.ServiceSpec) { s.LoadBalancerIP = "8.8.8.8" }, want: "spec.loadBalancerIP: Forbidden"},
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
			errs := tc.rules.CheckService(&service.Spec, field.NewPath("spec"))
			if tc.want == "" && len(errs) > 0 {
				t.Errorf("refused: %v", errs)
			}
			if tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
		})
	}
}

func TestService(t *testing.T) {
	home := names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "t", Name: "shop", UID: "n"}
	service := spaceService(nil)
	host := Service(service, home)
	want := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: home.Host(),
			Labels:      map[string]string{names.InstallationLabel: "i", "service.kubernetes.io/service-proxy-name": "mine"},
			Annotations: home.MarksOf("web", "s"),
		},
		Spec: service.Spec,
	}
	hash := host.Annotations[names.HashAnnotation]
	want.Annotations[names.HashAnnotation] = hash
	if diff := cmp.Diff(want, host); diff != "" {
		t.Errorf("the host's Service (-want +got):\n%s", diff)
	}
	host.Spec.Selector["app"] = "other"
	if service.Spec.Selector["app"] != "web" {
		t.Error("the space's Service has changed")
	}
	outside := func(name string) *corev1.Service {
		return Service(spaceService(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}
		}), home)
	}
	if one := outside("example.com"); one.Spec.ExternalName != names.NoHost || one.Annotations[names.ExternalNameAnnotation] != "example.com" ||
		one.Annotations[names.HashAnnotation] == outside("example.org").Annotations[names.HashAnnotation] {
		t.Errorf("a name outside is %+v", one)
	}
	if left := Service(spaceService(func(s *corev1.Service) { s.Spec.ExternalName = "example.com" }), home); left.Spec.ExternalName != "" || left.Annotations[names.ExternalNameAnnotation] != "" {
		t.Errorf("a name that has no effect is %+v", left)
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		same   bool
	}{
		"its address":    {func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.2", []string{"10.0.0.2"} }, true},
		"its node port":  {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 }, true},
		"a label of its": {func(s *corev1.Service) { s.Labels["app"] = "x" }, true},
		"its selector":   {func(s *corev1.Service) { s.Spec.Selector["app"] = "x" }, false},
		"a port":         {func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }, false},
		"its proxy":      {func(s *corev1.Service) { delete(s.Labels, "service.kubernetes.io/service-proxy-name") }, false},
	} {
		if got := Service(spaceService(tc.change), home).Annotations[names.HashAnnotation] == hash; got != tc.same {
			t.Errorf("with another of %s the hash is the same: %t", name, got)
		}
	}
}

func TestGiven(t *testing.T) {
	service := spaceService(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30000 })
	if !GivenOf(service).Equal(Given{[]string{"10.0.0.1"}, []int32{30000}}) {
		t.Errorf("got %+v", GivenOf(service))
	}
	for _, other := range []Given{{[]string{"10.0.0.2"}, []int32{30000}}, {[]string{"10.0.0.1"}, []int32{30001}}} {
		if GivenOf(service).Equal(other) {
			t.Errorf("is equal to %+v", other)
		}
	}
}

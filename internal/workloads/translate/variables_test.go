package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func service(name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

// variables returns those of a container, with their values.
func variables(c *corev1.Container) []string {
	var all []string
	for _, v := range c.Env {
		all = append(all, v.Name+"="+v.Value)
	}
	return all
}

func TestSetVariables(t *testing.T) {
	pod := plain()
	pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DB_PORT", Value: "mine"}, {Name: "URL", Value: "$(KUBERNETES_SERVICE_HOST)"}}
	services := []*corev1.Service{
		service("web", "10.43.0.9", corev1.ServicePort{Port: 80}), service("db", "10.43.0.8", corev1.ServicePort{Name: "sql", Port: 5432}),
		service("none", corev1.ClusterIPNone, corev1.ServicePort{Port: 80}), service("elsewhere", ""), service("broken", "10.43.0.7"),
		service("kubernetes", "10.43.0.6", corev1.ServicePort{Port: 443}),
	}
	api := []string{
		"KUBERNETES_SERVICE_HOST=192.0.2.7", "KUBERNETES_SERVICE_PORT=6443", "KUBERNETES_SERVICE_PORT_HTTPS=6443", "KUBERNETES_PORT=tcp://192.0.2.7:6443",
		"KUBERNETES_PORT_443_TCP=tcp://192.0.2.7:6443", "KUBERNETES_PORT_443_TCP_PROTO=tcp", "KUBERNETES_PORT_443_TCP_PORT=6443", "KUBERNETES_PORT_443_TCP_ADDR=192.0.2.7",
	}
	links := []string{
		"DB_SERVICE_HOST=10.43.0.8", "DB_SERVICE_PORT=5432", "DB_SERVICE_PORT_SQL=5432", "DB_PORT=tcp://10.43.0.8:5432",
		"DB_PORT_5432_TCP=tcp://10.43.0.8:5432", "DB_PORT_5432_TCP_PROTO=tcp", "DB_PORT_5432_TCP_PORT=5432", "DB_PORT_5432_TCP_ADDR=10.43.0.8",
		"WEB_SERVICE_HOST=10.43.0.9", "WEB_SERVICE_PORT=80", "WEB_PORT=tcp://10.43.0.9:80",
		"WEB_PORT_80_TCP=tcp://10.43.0.9:80", "WEB_PORT_80_TCP_PROTO=tcp", "WEB_PORT_80_TCP_PORT=80", "WEB_PORT_80_TCP_ADDR=10.43.0.9",
	}
	own := []string{"DB_PORT=mine", "URL=$(KUBERNETES_SERVICE_HOST)"}
	o := Options{API: netip.MustParseAddrPort("192.0.2.7:6443")}
	set := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := pod.DeepCopy()
		change(pod)
		host := o.Pod(pod, home)
		o.SetVariables(host, pod, services)
		return host
	}
	host := set(func(*corev1.Pod) {})
	if diff := cmp.Diff(slices.Concat(api, links), variables(&host.Spec.InitContainers[0])); diff != "" {
		t.Errorf("of the init container (-want +got):\n%s", diff)
	}
	others := slices.DeleteFunc(slices.Clone(links), func(v string) bool { return strings.HasPrefix(v, "DB_PORT=") })
	if diff := cmp.Diff(slices.Concat(api, others, own), variables(&host.Spec.Containers[0])); diff != "" {
		t.Errorf("what the container sets is its own (-want +got):\n%s", diff)
	}
	host = set(func(p *corev1.Pod) { p.Spec.EnableServiceLinks = new(false) })
	if diff := cmp.Diff(slices.Concat(api, own), variables(&host.Spec.Containers[0])); diff != "" {
		t.Errorf("without links (-want +got):\n%s", diff)
	}
	o = Options{}
	for _, v := range set(func(p *corev1.Pod) { p.Spec.EnableServiceLinks = new(false) }).Spec.InitContainers[0].Env {
		if v.Value != "" && v.Value != "tcp" {
			t.Errorf("without an API, %s is %q", v.Name, v.Value)
		}
	}
}

// TestVariablesAreBounded checks that the variables of Services take some room, however many Services and containers
// there are.
func TestVariablesAreBounded(t *testing.T) {
	var services []*corev1.Service
	for i := range 2000 {
		services = append(services, service(fmt.Sprintf("service-%04d", 1999-i), "10.43.0.9", corev1.ServicePort{Port: 80}))
	}
	for _, containers := range []int{1, 10} {
		pod := plain()
		for len(pod.Spec.Containers) < containers {
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{})
		}
		host := Options{}.Pod(pod, home)
		before := host.Size()
		Options{}.SetVariables(host, pod, services)
		if added := host.Size() - before; added > maxVariables+containers*1024 || added < maxVariables/2 {
			t.Errorf("%d containers have %d bytes", containers, added)
		}
		if first := host.Spec.Containers[0].Env[8].Name; first != "SERVICE_0000_SERVICE_HOST" {
			t.Errorf("the first one is %q", first)
		}
	}
}

func TestParseAPI(t *testing.T) {
	for text, want := range map[string]string{
		"": "invalid AddrPort", "192.0.2.7:6443": "192.0.2.7:6443", "[2001:db8::7]:443": "[2001:db8::7]:443", "[::ffff:192.0.2.7]:443": "192.0.2.7:443",
		"192.0.2.7": "", "kubernetes:443": "", "0.0.0.0:443": "", "[::]:443": "", "224.0.0.1:443": "", "192.0.2.7:0": "", "[fe80::1%eth0]:443": "",
		"127.0.0.1:6443": "", "[::1]:6443": "", "[::ffff:127.0.0.1]:6443": "", "169.254.169.254:80": "", "[fe80::1]:443": "",
	} {
		got, err := ParseAPI(text)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q is %v, %v, want %q", text, got, err, want)
		}
	}
}

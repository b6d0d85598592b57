package dns

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// Two tenants, of which the first has two namespaces. The addresses of their pods are those of this machine.
var (
	shop   = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "a", Name: "shop", UID: "s"}
	back   = names.Namespace{Installation: "i", Tenant: "acme", TenantUID: "a", Name: "back", UID: "b"}
	others = names.Namespace{Installation: "i", Tenant: "globex", TenantUID: "g", Name: "shop", UID: "o"}
)

const (
	ofAcme   = "127.0.0.11"
	ofGlobex = "127.0.0.12"
	ofNobody = "127.0.0.13"
)

// world is a server beside a fake host.
type world struct {
	t       testing.TB
	host    *fake.Clientset
	address string
	end     func() error
}

// newWorld starts a server on a host with both tenants, a pod of each, and some objects.
func newWorld(t testing.TB, change func(*Options), objects ...runtime.Object) *world {
	t.Helper()
	objects = append(objects, namespace(shop), namespace(back), namespace(others), pod("client", shop, ofAcme), pod("client", others, ofGlobex))
	w := &world{t: t, host: fake.NewClientset(objects...)}
	o := NewOptions()
	started := make(chan string, 1)
	o.BindAddress, o.LameDuck, o.Forward = "127.0.0.1:0", time.Nanosecond, []string{"127.0.0.1:1"}
	o.Started = func(address string) { started <- address }
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.run(ctx, w.host) }()
	select {
	case w.address = <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	w.end = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = w.end() })
	return w
}

func meta(name string, n names.Namespace) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: n.Host(), UID: types.UID(name + n.Host()), Labels: map[string]string{names.InstallationLabel: n.Installation},
	}
}

func namespace(n names.Namespace) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.Host(), Labels: n.Labels(), Annotations: n.Marks()}}
}

func pod(name string, n names.Namespace, address string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta(name, n), Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, HostIP: "10.9.0.1"}}
}

func service(name string, n names.Namespace, addresses ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(name, n), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: addresses[0], ClusterIPs: addresses,
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}, {Port: 9, Protocol: corev1.ProtocolTCP}},
	}}
}

func external(name string, n names.Namespace, target string) *corev1.Service {
	of := meta(name, n)
	of.Annotations = map[string]string{names.ExternalNameAnnotation: target}
	return &corev1.Service{ObjectMeta: of, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: names.NoHost}}
}

// slice has endpoints of a headless Service, each a hostname, empty for none, and an address. Those of hostnames that
// begin with ! are not ready.
func slice(name, of string, n names.Namespace, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(name, n), Ports: []discoveryv1.EndpointPort{
		{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}, {Name: new(""), Port: new(int32(9)), Protocol: new(corev1.ProtocolTCP)},
	}}
	s.Labels[discoveryv1.LabelServiceName], s.Labels[corev1.IsHeadlessService] = of, ""
	for pair := range slices.Chunk(endpoints, 2) {
		ready := !strings.HasPrefix(pair[0], "!")
		e := discoveryv1.Endpoint{Addresses: []string{pair[1]}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		if hostname := strings.TrimPrefix(pair[0], "!"); hostname != "" {
			e.Hostname = &hostname
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// withAPI is the host's namespace of a space whose pods reach the API at an address.
func withAPI(n names.Namespace, address string) *corev1.Namespace {
	namespace := namespace(n)
	namespace.Annotations[names.APIAnnotation] = address
	return namespace
}

// asking returns a query.
func asking(name string, qtype uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	return m
}

// exchange asks from an address.
func (w *world) exchange(network, from string, m *dns.Msg) *dns.Msg {
	w.t.Helper()
	var local net.Addr = &net.UDPAddr{IP: net.ParseIP(from)}
	if network == "tcp" {
		local = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	client := dns.Client{Net: network, Timeout: 30 * time.Second, Dialer: &net.Dialer{LocalAddr: local}}
	answer, _, err := client.Exchange(m, w.address)
	if err != nil {
		w.t.Fatalf("asking for %s from %s: %v", m.Question[0].Name, from, err)
	}
	answer.Compress = true // as it was sent, for its size
	return answer
}

// ask returns what is answered by UDP: the code, if it is no success, and the records of the answer, sorted, without
// their names and times if those are as they are to be.
func (w *world) ask(from, name, qtype string) string {
	w.t.Helper()
	return said(w.exchange("udp", from, asking(name, dns.StringToType[qtype])))
}

func said(m *dns.Msg) string {
	var all []string
	for _, record := range m.Answer {
		h := record.Header()
		text := strings.TrimPrefix(strings.Join(strings.Fields(record.String()), " "), h.Name+" ")
		if h.Name != m.Question[0].Name {
			text = h.Name + " " + text
		}
		all = append(all, strings.ReplaceAll(text, "5 IN ", ""))
	}
	slices.Sort(all)
	switch {
	case m.Rcode != dns.RcodeSuccess:
		all = append([]string{dns.RcodeToString[m.Rcode]}, all...)
	case len(all) == 0:
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// expect checks what is answered.
func (w *world) expect(from, name, qtype, want string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.ask(from, name, qtype)); diff != "" {
		w.t.Errorf("%s %s asked from %s (-want +got):\n%s", name, qtype, from, diff)
	}
}

// eventually checks what is answered in the end.
func (w *world) eventually(from, name, qtype, want string) {
	w.t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got = w.ask(from, name, qtype); got == want {
			return
		}
	}
	w.t.Fatalf("%s %s asked from %s is %q, want %q", name, qtype, from, got, want)
}

// idAt returns the tenant of a namespace of a space, as that of the host says it.
func idAt(n names.Namespace) tenantID {
	p, _ := asSpaceNamespace(namespace(n))
	return idOf(p)
}

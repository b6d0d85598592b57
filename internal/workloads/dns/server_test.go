package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/canary"
)

const web = "web.shop.svc.cluster.local."

// TestWho checks whose an address is: that of exactly one live pod of a space.
func TestWho(t *testing.T) {
	hostNetwork, done, failed, unsandboxed := pod("p", shop, ofNobody), pod("p", shop, ofNobody), pod("p", shop, ofNobody), pod("p", shop, ofNobody)
	hostNetwork.Spec.HostNetwork = true
	done.Status.Phase, failed.Status.Phase = corev1.PodSucceeded, corev1.PodFailed
	unsandboxed.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	foreign := pod("p", shop, ofNobody)
	foreign.Namespace = "kube-system"
	ending := pod("q", shop, ofNobody)
	ending.DeletionTimestamp, ending.Finalizers = new(metav1.Now()), []string{"f"}
	second := pod("q", others, ofNobody)
	doneElsewhere := pod("q", others, ofNobody)
	doneElsewhere.Status.Phase = corev1.PodSucceeded
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"nobody":                        {nil, "SERVFAIL"},
		"one pod":                       {[]*corev1.Pod{pod("p", shop, ofNobody)}, "A 10.43.0.1"},
		"one that ends":                 {[]*corev1.Pod{ending}, "A 10.43.0.1"},
		"with the network of its node":  {[]*corev1.Pod{hostNetwork}, "SERVFAIL"},
		"done":                          {[]*corev1.Pod{done}, "SERVFAIL"},
		"failed":                        {[]*corev1.Pod{failed}, "SERVFAIL"},
		"without a network":             {[]*corev1.Pod{unsandboxed}, "SERVFAIL"},
		"of the host":                   {[]*corev1.Pod{foreign}, "SERVFAIL"},
		"two of several tenants":        {[]*corev1.Pod{pod("p", shop, ofNobody), second}, "SERVFAIL"},
		"one of the other is done":      {[]*corev1.Pod{pod("p", shop, ofNobody), doneElsewhere}, "A 10.43.0.1"},
		"two of which one has the node": {[]*corev1.Pod{hostNetwork, second}, "A 10.43.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.patience = 10 * time.Millisecond }, service("web", shop, "10.43.0.1"), service("web", others, "10.43.0.2"))
			for i, p := range tc.pods {
				if _, err := w.host.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Fatalf("pod %d: %v", i, err)
				}
			}
			w.eventually(ofNobody, web, "A", tc.want)
			w.expect(ofNobody, web, "A", tc.want)
		})
	}
}

// TestWaits checks that a pod is answered whose address is told after it has asked.
func TestWaits(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.patience = time.Minute }, service("web", others, "10.43.0.2"))
	answered := make(chan string)
	go func() { answered <- w.ask(ofNobody, web, "A") }()
	late := pod("late", others, ofNobody)
	if _, err := w.host.CoreV1().Pods(late.Namespace).Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "A 10.43.0.2" {
		t.Errorf("got %q", got)
	}
}

// TestMoves checks that nobody gets another's answers while an address moves from one tenant to another.
func TestMoves(t *testing.T) {
	before, after := pod("before", shop, ofNobody), pod("after", others, ofNobody)
	w := newWorld(t, func(o *Options) { o.patience = time.Millisecond }, service("web", shop, "10.43.0.1"), service("web", others, "10.43.0.2"), before)
	w.expect(ofNobody, web, "A", "A 10.43.0.1")
	if _, err := w.host.CoreV1().Pods(after.Namespace).Create(t.Context(), after, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(ofNobody, web, "A", "SERVFAIL") // both claim it
	if err := w.host.CoreV1().Pods(before.Namespace).Delete(t.Context(), before.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually(ofNobody, web, "A", "A 10.43.0.2")
	w.expect(ofNobody, "x.shop.svc.cluster.local.", "A", "NXDOMAIN")
}

// TestSizes checks that answers fit, and are complete by TCP.
func TestSizes(t *testing.T) {
	endpoints := []string{}
	for i := range 200 {
		endpoints = append(endpoints, "", fmt.Sprintf("10.0.%d.%d", i/100, i%100+1))
	}
	w := newWorld(t, nil, service("db", shop, "None"), slice("db-1", "db", shop, endpoints...), service("web", shop, "10.43.0.1", "2001:db8::1"))
	name := "db.shop.svc.cluster.local."
	for edns, most := range map[uint16]int{0: 512, 512: 512, 1232: 1232, 4096: 1232, 100: 512} {
		m := asking(name, dns.TypeA)
		if edns > 0 {
			m.SetEdns0(edns, false)
		}
		answer := w.exchange("udp", ofAcme, m)
		if answer.Len() > most || !answer.Truncated || len(answer.Answer) < 20 || (answer.IsEdns0() != nil) != (edns > 0) {
			t.Errorf("with %d bytes of the client it has %d, and %d records, truncated: %t", edns, answer.Len(), len(answer.Answer), answer.Truncated)
		}
	}
	answer := w.exchange("tcp", ofAcme, asking(name, dns.TypeA))
	if answer.Truncated || len(answer.Answer) != 200 {
		t.Errorf("by TCP it has %d records, truncated: %t", len(answer.Answer), answer.Truncated)
	}
	// What is beside the records is left out before anything is truncated.
	service := w.exchange("udp", ofAcme, asking("_http._tcp."+web, dns.TypeSRV))
	if len(service.Extra) != 2 || service.Truncated {
		t.Errorf("beside the record there are %v", service.Extra)
	}
}

// TestRefused checks what nobody is answered.
func TestRefused(t *testing.T) {
	w := newWorld(t, nil, service("web", shop, "10.43.0.1"))
	for name, change := range map[string]struct {
		change func(*dns.Msg)
		rcode  int
	}{
		"another class":             {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeRefused},
		"another version of EDNS":   {func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }, dns.RcodeBadVers},
		"a notification":            {func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }, dns.RcodeNotImplemented},
		"an update":                 {func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, dns.RcodeNotImplemented},
		"two questions":             {func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		"outside without recursion": {func(m *dns.Msg) { m.Question[0].Name, m.RecursionDesired = "example.com.", false }, dns.RcodeRefused},
	} {
		m := asking(web, dns.TypeA)
		change.change(m)
		if answer := w.exchange("udp", ofAcme, m); answer.Rcode != change.rcode || len(answer.Answer) > 0 {
			t.Errorf("%s: got %s", name, said(answer))
		}
	}
}

// TestNoQuestion sends a message that announces a question and ends with its header, which the library takes for one of
// no questions.
func TestNoQuestion(t *testing.T) {
	w := newWorld(t, nil)
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(ofAcme)}, net.UDPAddrFromAddrPort(addrPort(t, w.address)))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	buffer, answer := make([]byte, 512), new(dns.Msg)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Unpack(buffer[:n]); err != nil || answer.Rcode != dns.RcodeFormatError || answer.Id != 0x1234 {
		t.Errorf("got %v, %v", answer, err)
	}
}

// FuzzRefuses looks for messages that are no questions.
func FuzzRefuses(f *testing.F) {
	question, err := asking(web, dns.TypeA).Pack()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, question, question[:len(question)-3]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		m := new(dns.Msg)
		if m.Unpack(message) == nil && !refuses(new(dns.Msg), m, m.IsEdns0()) && len(m.Question) != 1 {
			t.Errorf("%d questions are looked at", len(m.Question))
		}
	})
}

// TestEnd checks that it is said when the server knows everything, and that it ends.
func TestEnd(t *testing.T) {
	address := freeAddress(t)
	w := newWorld(t, func(o *Options) { o.HealthProbeBindAddress = address })
	if healthy, ready := get(t, address+"/healthz"), get(t, address+"/readyz"); healthy != http.StatusOK || ready != http.StatusOK {
		t.Errorf("healthz is %d and readyz %d", healthy, ready)
	}
	if err := w.end(); !errors.Is(err, context.Canceled) {
		t.Errorf("it has ended with %v", err)
	}
}

// TestUnready checks that a server which does not know the host yet says so, and ends nevertheless.
func TestUnready(t *testing.T) {
	client := fake.NewClientset()
	listed := make(chan struct{}, 100)
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		listed <- struct{}{}
		return true, nil, errors.New("not now")
	})
	o := NewOptions()
	o.BindAddress, o.HealthProbeBindAddress = "127.0.0.1:0", freeAddress(t)
	o.Started = func(string) { t.Error("it answers") }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- o.run(ctx, client) }()
	<-listed
	if healthy, ready := get(t, o.HealthProbeBindAddress+"/healthz"), get(t, o.HealthProbeBindAddress+"/readyz"); healthy != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("healthz is %d and readyz %d", healthy, ready)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("it has ended with %v", err)
	}
}

// freeAddress returns an address at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func get(t *testing.T, url string) int {
	t.Helper()
	answer, err := http.Get("http://" + url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode
}

// TestSeen checks that a pod learns whether its own address arrives.
func TestSeen(t *testing.T) {
	w, hiding := newWorld(t, nil), newUpstream(t)
	for address, want := range map[string]error{w.address: nil, hiding.address: canary.ErrHidden, freeAddress(t): nil} {
		if err := canary.Seen(t.Context(), address); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if code := canary.ExitCode(canary.ErrHidden); code != canary.Hidden {
		t.Errorf("it ends with %d", code)
	}
}

func TestOptions(t *testing.T) {
	ttl := func(d time.Duration) func(*Options) { return func(o *Options) { o.TTL = d } }
	bind := func(address string) func(*Options) { return func(o *Options) { o.BindAddress = address } }
	forward := func(text string) func(*Options) { return func(o *Options) { o.Forward = []string{text} } }
	for want, changes := range map[string][]func(*Options){
		"--ttl":                         {ttl(-time.Second), ttl(500 * time.Millisecond), ttl(2 * time.Hour)},
		"--forward":                     {forward("example.com"), forward("0.0.0.0"), forward("[::]:53"), forward("224.0.0.1"), forward("192.0.2.53:0")},
		"--bind-address":                {bind(""), bind("foo"), bind("192.0.2.1"), bind("localhost:1053"), bind(":dns"), bind(":65536")},
		"--cluster-cidrs":               {func(o *Options) { o.ClusterCIDRs = []string{"x"} }},
		"--host-cluster-domain":         {func(o *Options) { o.HostDomain = "a..b" }},
		"--max-forwarded":               {func(o *Options) { o.MaxForwarded = 0 }},
		"--tenant-queries-per-second":   {func(o *Options) { o.TenantRate = 0 }},
		"--tenant-forwarded-per-second": {func(o *Options) { o.TenantForwardRate = 0 }},
	} {
		for i, change := range changes {
			o := NewOptions()
			change(&o)
			if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s, %d: got %v", want, i, err)
			}
		}
	}
	o := NewOptions()
	if err := o.Validate(); err != nil {
		t.Error(err)
	}
}

func TestUpstreams(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver 2001:db8::1\nsearch example.com\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		named []string
		file  string
		want  []string
	}{
		"of the file":  {nil, file, []string{"192.0.2.1:53", "[2001:db8::1]:53"}},
		"named":        {[]string{"192.0.2.9", "192.0.2.9:5353", "[2001:db8::9]:53", "127.0.0.1:5"}, file, []string{"192.0.2.9:53", "192.0.2.9:5353", "[2001:db8::9]:53", "127.0.0.1:5"}},
		"without file": {nil, file + "x", nil},
	} {
		got, err := upstreamsOf(tc.named, tc.file)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestFlood checks that a tenant that asks more than its share is not read, and others are.
func TestFlood(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.TenantRate = 20 }, service("web", shop, "10.43.0.1"), service("web", others, "10.43.0.2"))
	conn, err := net.DialUDP("udp", &net.UDPAddr{IP: net.ParseIP(ofAcme)}, net.UDPAddrFromAddrPort(addrPort(t, w.address)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	packed, err := asking(web, dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	const sent = 500
	for range sent {
		if _, err := conn.Write(packed); err != nil {
			t.Fatal(err)
		}
	}
	w.expect(ofGlobex, web, "A", "A 10.43.0.2")
	answers, buffer := 0, make([]byte, 512)
	for conn.SetReadDeadline(time.Now().Add(500*time.Millisecond)) == nil {
		if _, err := conn.Read(buffer); err != nil {
			break
		}
		answers++
	}
	if answers == 0 || answers > sent/2 {
		t.Errorf("%d of %d questions are answered", answers, sent)
	}
	// A connection that asks too much is closed, and so is one too many.
	if !slices.ContainsFunc(make([]struct{}, 100), func(struct{}) bool {
		_, _, err := (&dns.Client{Net: "tcp", Dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ofAcme)}}}).Exchange(asking(web, dns.TypeA), w.address)
		return err != nil
	}) {
		t.Error("any number of questions is answered by TCP")
	}
}

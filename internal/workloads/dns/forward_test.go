package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/tenantry/tenantry/internal/workloads/canary"
)

func addrPort(t testing.TB, text string) netip.AddrPort {
	t.Helper()
	parsed, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// upstream is a name server that knows some names outside.
type upstream struct {
	address string

	mu    sync.Mutex
	asked []string
}

// zone is what upstreams know, by the name.
var zone = map[string][]string{
	"example.com.":            {"example.com. 60 IN A 192.0.2.1"},
	"short.example.":          {"short.example. 1 IN A 192.0.2.2"},
	"alias.example.":          {"alias.example. 60 IN CNAME web.shop.svc.cluster.local."},
	"poison.example.":         {"poison.example. 60 IN CNAME web.shop.svc.cluster.local.", "web.shop.svc.cluster.local. 60 IN A 192.0.2.66"},
	canary.ClientName:         {canary.ClientName + " 0 IN TXT 192.0.2.1"},
	"1.2.0.192.in-addr.arpa.": {"1.2.0.192.in-addr.arpa. 60 IN PTR example.com."},
}

func newUpstream(t testing.TB) *upstream {
	t.Helper()
	u := &upstream{}
	packets, connections, err := listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.address = packets.LocalAddr().String()
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: u}, {Listener: connections, Handler: u}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		go func() { _ = server.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = server.Shutdown() })
	}
	return u
}

// ServeDNS implements dns.Handler.
func (u *upstream) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	name := strings.ToLower(r.Question[0].Name)
	_, byTCP := w.RemoteAddr().(*net.TCPAddr)
	u.mu.Lock()
	u.asked = append(u.asked, name)
	u.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(r)
	m.Extra = append(m.Extra, record("stray.svc.cluster.local. 60 IN A 192.0.2.66"))
	switch {
	case name == "large.example.":
		for i := range 300 {
			m.Answer = append(m.Answer, record(fmt.Sprintf("large.example. 60 IN A 192.0.2.%d", i%256)), record(fmt.Sprintf("large.example. 60 IN A 198.51.100.%d", i%256)))
		}
		if !byTCP {
			m.Truncate(udpSize)
		}
	case name == "broken.example.":
		m.Rcode = dns.RcodeServerFailure
	case zone[name] == nil:
		m.Rcode, m.Ns = dns.RcodeNameError, []dns.RR{record("example. 60 IN SOA ns. host. 1 2 3 4 60")}
	default:
		for _, text := range zone[name] {
			m.Answer = append(m.Answer, record(text))
		}
	}
	_ = w.WriteMsg(m)
}

func record(text string) dns.RR {
	r, err := dns.NewRR(text)
	if err != nil {
		panic(err)
	}
	return r
}

// all returns what was asked for.
func (u *upstream) all() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.asked)
}

// TestForward checks that names outside are asked for, and no others.
func TestForward(t *testing.T) {
	up := newUpstream(t)
	w := newWorld(t, func(o *Options) { o.Forward, o.ClusterCIDRs = []string{up.address}, []string{"198.51.100.0/24"} },
		external("out", shop, "example.com"), external("up", shop, "kubernetes.default.svc.cluster.local"), service("web", shop, "10.43.0.1"))
	for _, tc := range []struct{ name, qtype, want string }{
		{"ExAmple.com.", "A", "60 IN A 192.0.2.1"},
		{"none.example.", "A", "NXDOMAIN"},
		{"out.shop.svc.cluster.local.", "A", "CNAME example.com., example.com. 60 IN A 192.0.2.1"},
		{"alias.example.", "A", "60 IN CNAME web.shop.svc.cluster.local."},
		{"poison.example.", "A", "SERVFAIL"},
		{"broken.example.", "A", "SERVFAIL"},
		{"1.2.0.192.in-addr.arpa.", "PTR", "60 IN PTR example.com."},
	} {
		w.expect(ofAcme, tc.name, tc.qtype, tc.want)
	}
	before := up.all()
	inside := []string{"kubernetes.default.svc.cluster.local.", "up.shop.svc.cluster.local.", "cluster.local.", "x.localhost."}
	for _, address := range []string{"127.0.0.1", "10.0.0.1", "172.16.1.1", "192.168.0.1", "100.64.0.1", "169.254.169.254", "198.51.100.1", "::1", "fd00::1", "fe80::1"} {
		name, err := dns.ReverseAddr(address)
		if err != nil {
			t.Fatal(err)
		}
		inside = append(inside, name)
	}
	for _, name := range inside {
		w.ask(ofAcme, name, "A")
		w.ask(ofAcme, name, "PTR")
	}
	if diff := cmp.Diff(before, up.all()); diff != "" {
		t.Errorf("an upstream was asked for what is inside:\n%s", diff)
	}
	w.expect(ofNobody, "example.com.", "A", "SERVFAIL")
	if m := w.exchange("udp", ofAcme, asking("example.com.", dns.TypeA)); len(m.Extra) > 0 || m.Authoritative {
		t.Errorf("it passes on %v", m)
	}
}

// TestLarge checks that a large answer is complete by TCP.
func TestLarge(t *testing.T) {
	up := newUpstream(t)
	w := newWorld(t, func(o *Options) { o.Forward = []string{up.address} })
	if m := w.exchange("udp", ofAcme, asking("large.example.", dns.TypeA)); !m.Truncated || m.Len() > dns.MinMsgSize {
		t.Errorf("it has %d bytes, truncated: %t", m.Len(), m.Truncated)
	}
	if m := w.exchange("tcp", ofAcme, asking("large.example.", dns.TypeA)); m.Truncated || len(m.Answer) != 600 {
		t.Errorf("by TCP it has %d records, truncated: %t", len(m.Answer), m.Truncated)
	}
}

// TestUpstreamDown checks that another upstream is asked if one does not answer.
func TestUpstreamDown(t *testing.T) {
	up := newUpstream(t)
	w := newWorld(t, func(o *Options) { o.Forward = []string{"127.0.0.1:1", up.address} })
	for range 5 {
		w.expect(ofAcme, "example.com.", "A", "60 IN A 192.0.2.1")
		w.expect(ofAcme, "broken.example.", "A", "SERVFAIL")
	}
	none := newWorld(t, func(o *Options) { o.Forward = []string{"127.0.0.1:1"} })
	none.expect(ofAcme, "example.com.", "A", "SERVFAIL")
}

// TestCache checks that a tenant's answers are remembered, for itself.
func TestCache(t *testing.T) {
	up := newUpstream(t)
	w := newWorld(t, func(o *Options) { o.Forward = []string{up.address} })
	for range 3 {
		w.expect(ofAcme, "example.com.", "A", "60 IN A 192.0.2.1")
		w.expect(ofAcme, "EXAMPLE.com.", "A", "60 IN A 192.0.2.1")
		w.expect(ofAcme, "none.example.", "A", "NXDOMAIN")
	}
	if diff := cmp.Diff([]string{"example.com.", "none.example."}, up.all()); diff != "" {
		t.Error(diff)
	}
	w.expect(ofGlobex, "example.com.", "A", "60 IN A 192.0.2.1")
	if got := up.all(); len(got) != 3 {
		t.Errorf("another tenant learns what was asked: %v", got)
	}
}

// TestLasting checks for how long answers are remembered.
func TestLasting(t *testing.T) {
	a, soa := record("a. 20 IN A 192.0.2.1"), record("a. 60 IN SOA ns. host. 1 2 3 4 3")
	for name, tc := range map[string]struct {
		message dns.Msg
		want    time.Duration
	}{
		"a record":            {dns.Msg{Answer: []dns.RR{a}}, 20 * time.Second},
		"the least":           {dns.Msg{Answer: []dns.RR{a, record("a. 2 IN A 192.0.2.2")}}, 2 * time.Second},
		"long":                {dns.Msg{Answer: []dns.RR{record("a. 86400 IN A 192.0.2.2")}}, keptFor},
		"zero":                {dns.Msg{Answer: []dns.RR{record("a. 0 IN A 192.0.2.2")}}, 0},
		"nothing":             {dns.Msg{Ns: []dns.RR{soa}}, 3 * time.Second},
		"no name":             {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}, Ns: []dns.RR{soa}}, 3 * time.Second},
		"an alias of no name": {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}, Answer: []dns.RR{record("a. 1 IN CNAME b.")}, Ns: []dns.RR{soa}}, time.Second},
		"who knows how long":  {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}, 0},
		"a failure":           {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeServerFailure}, Ns: []dns.RR{soa}}, time.Second},
	} {
		if got := lasting(&tc.message); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestAge checks that what is remembered says how long it still holds, and that others' answers are elsewhere.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers, q := newAnswers(), question{of: idAt(shop), name: "example.com.", qtype: dns.TypeA}
		m := asking("example.com.", dns.TypeA)
		m.Answer = []dns.RR{record("example.com. 20 IN A 192.0.2.1")}
		answers.put(q, m)
		time.Sleep(5 * time.Second)
		got := answers.get(q)
		if got == nil || got.Answer[0].Header().Ttl != 15 {
			t.Errorf("got %v", got)
		}
		other := q
		other.of = idAt(others)
		if answers.get(other) != nil {
			t.Error("another tenant has it")
		}
		time.Sleep(16 * time.Second)
		if got := answers.get(q); got != nil {
			t.Errorf("got %v", got)
		}
		m.Truncated = true
		answers.put(q, m)
		if answers.get(q) != nil {
			t.Error("a part of an answer is remembered")
		}
	})
}

// TestTurns checks that a tenant has its share, that others get turns beside it, and that nothing is left.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns[string](8, 2, 10)
		var mu sync.Mutex
		var granted []string
		var ends []func()
		ask := func(ctx context.Context, k string) {
			go func() {
				end, err := turns.begin(ctx, k)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					k += " " + err.Error()
				} else {
					ends = append(ends, end)
				}
				granted = append(granted, k)
			}()
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, granted); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			granted = nil
		}
		end := func() {
			mu.Lock()
			first := ends[0]
			ends = ends[1:]
			mu.Unlock()
			first()
			synctest.Wait()
		}
		for range 5 {
			ask(t.Context(), "acme")
		}
		ask(t.Context(), "globex")
		expect("acme", "acme", "globex") // a quarter of eight
		end()
		expect("acme")
		for _, k := range []string{"b", "b", "c", "c", "globex", "d", "e"} { // eight are busy then
			ask(t.Context(), k)
		}
		expect("b", "b", "c", "c", "globex")
		waits, cancel := context.WithCancel(t.Context())
		ask(waits, "f")
		cancel()
		expect("f " + errBusy.Error())
		for range 6 { // two of acme, d, e, and six more are as many as may wait
			ask(t.Context(), "acme")
		}
		ask(t.Context(), "g")
		expect("acme " + errBusy.Error()) // who has the most makes room
		end()                             // of acme
		end()                             // of globex
		expect("acme", "d")
		for len(ends) > 0 {
			end()
		}
		if turns.busy != 0 || turns.taken != 0 || len(turns.used) != 0 || len(turns.waiting) != 0 || len(turns.order) != 0 {
			t.Errorf("something is left: %+v", turns)
		}
	})
}

// TestUpstreamBudget checks that upstreams are asked so much for each tenant, each attempt counted, and that it is
// remembered that they do not know.
func TestUpstreamBudget(t *testing.T) {
	up, silent := newUpstream(t), freeAddress(t)
	w := newWorld(t, func(o *Options) { o.Forward, o.TenantForwardRate = []string{up.address}, 1 })
	for range 3 {
		w.expect(ofAcme, "broken.example.", "A", "SERVFAIL")
	}
	if got := up.all(); len(got) != 1 {
		t.Errorf("an upstream that does not know was asked %d times", len(got))
	}
	const asked = 50
	for i := range asked {
		w.ask(ofAcme, fmt.Sprintf("x%d.example.", i), "A")
	}
	if got := len(up.all()); got < 3 || got > asked/2 {
		t.Errorf("of %d questions upstreams were asked %d", asked, got)
	}
	w.expect(ofGlobex, "example.com.", "A", "60 IN A 192.0.2.1")
	w.expect(ofAcme, "web.shop.svc.cluster.local.", "A", "NXDOMAIN")

	f := &forwarder{upstreams: []string{silent}, budget: newBudget(1)}
	f.budget.AtOnce = 2
	for range 2 {
		if _, err := f.askAll(t.Context(), idAt(shop), asking("example.com.", dns.TypeA), false); !errors.Is(err, errBusy) {
			t.Errorf("attempts are not counted: %v", err)
		}
	}
}

func TestRates(t *testing.T) {
	r, now := newRates(20), time.Unix(1, 0)
	acme, globex := party{tenant: idAt(shop)}, party{tenant: idAt(others)}
	for i, want := range []bool{true, true, false, false} {
		if got := r.allow(acme, now); got != want {
			t.Errorf("question %d of a window: %t", i, got)
		}
	}
	if !r.allow(globex, now) || !r.allow(acme, now.Add(window)) {
		t.Error("another tenant, or a later one, is not read")
	}
	if len(r.asked) != 1 {
		t.Errorf("%d tenants are remembered", len(r.asked))
	}
}

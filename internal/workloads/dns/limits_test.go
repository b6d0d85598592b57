package dns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// remote is a connection with an address.
type remote struct {
	net.Conn
	address net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.address }

// clients are connections of a listener without a network.
type clients struct {
	t *testing.T
	l *listener
}

// tenantNumber is one of many tenants, and its pod's address.
func tenantNumber(i int) (names.Namespace, string) {
	name := fmt.Sprintf("t-%d", i)
	return names.Namespace{Installation: "i", Tenant: tenant.Name(name), TenantUID: types.UID(name), Name: "shop", UID: types.UID("n-" + name)}, fmt.Sprintf("10.2.0.%d", i+1)
}

// newClients returns them for tenants with a pod each.
func newClients(t *testing.T, tenants int) clients {
	t.Helper()
	var objects []runtime.Object
	for i := range tenants {
		n, address := tenantNumber(i)
		objects = append(objects, namespace(n), pod("client", n, address))
	}
	return clients{t, &listener{server: local(t, objects...), open: map[party][]*connection{}}}
}

// connect connects from an address so many times, and returns the connections that are accepted.
func (c clients) connect(from string, times int) (accepted []*connection) {
	for range times {
		here, there := net.Pipe()
		_ = there.Close()
		conn := &connection{Conn: remote{here, &net.TCPAddr{IP: net.ParseIP(from)}}, listener: c.l, address: netip.MustParseAddr(from)}
		if _, ok := c.l.begin(conn); ok {
			accepted = append(accepted, conn)
		}
	}
	return accepted
}

// still returns how many are still counted.
func (c clients) still(all []*connection) (n int) {
	for _, conn := range all {
		for _, open := range c.l.open[conn.party] {
			if open == conn {
				n++
			}
		}
	}
	return n
}

// TestConnections checks that a tenant has so many connections, that all together are so many, that a tenant with fewer
// takes the place of one with the most, and that nothing is left of them.
func TestConnections(t *testing.T) {
	const full = maxConnections / maxConnectionsOne
	c := newClients(t, full+1)
	var all []*connection
	for i := range full {
		_, address := tenantNumber(i)
		accepted := c.connect(address, maxConnectionsOne+1)
		if len(accepted) != maxConnectionsOne {
			t.Fatalf("a tenant has %d connections", len(accepted))
		}
		all = append(all, accepted...)
	}
	_, address := tenantNumber(full)
	late := c.connect(address, maxConnectionsOne)
	if got := c.still(late); got < maxConnections/(full+1) {
		t.Errorf("the last tenant has %d connections", got)
	}
	if c.l.all != maxConnections || c.still(all) != maxConnections-c.still(late) {
		t.Errorf("there are %d connections, %d of the tenants before", c.l.all, c.still(all))
	}
	for i := range full {
		n, _ := tenantNumber(i)
		if got := len(c.l.open[party{tenant: idAt(n)}]); got < maxConnections/(full+1) {
			t.Errorf("of one tenant %d are left", got)
		}
	}
	for range 2 {
		for _, conn := range append(all, late...) {
			_ = conn.Close()
		}
	}
	if c.l.all != 0 || c.l.unknown != 0 || len(c.l.open) != 0 {
		t.Errorf("something is left: %d, %d, %v", c.l.all, c.l.unknown, c.l.open)
	}
}

// TestUnidentified checks that all unidentified clients together have as many connections as a
// tenant, that each of them gets some, and that connections are their tenant's as soon as it is known.
func TestUnidentified(t *testing.T) {
	c := newClients(t, 0)
	first := c.connect("10.3.0.1", maxConnectionsOne+1)
	if len(first) != maxConnectionsOne || c.still(first) != maxConnectionsOne {
		t.Errorf("one address has %d connections", c.still(first))
	}
	for i := range 10 {
		if second := c.connect(fmt.Sprintf("10.3.1.%d", i), 1); c.still(second) != 1 {
			t.Error("another address has none")
		}
	}
	if c.l.unknown != maxConnectionsOne || c.l.all != maxConnectionsOne {
		t.Errorf("unknown clients have %d connections of %d", c.l.unknown, c.l.all)
	}
	if c.still(first[:10]) != 0 || c.still(first[10:]) != maxConnectionsOne-10 {
		t.Error("who has the most has not lost its oldest")
	}

	// Now it is known: the first address and others are one tenant's.
	indexer := c.l.server.host.namespaces.GetIndexer()
	_ = indexer.Add(namespace(shop))
	_ = c.l.server.host.pods.GetIndexer().Add(pod("a", shop, "10.3.0.1"))
	_ = c.l.server.host.pods.GetIndexer().Add(pod("b", shop, "10.3.0.2"))
	acme := party{tenant: idAt(shop)}
	more := c.connect("10.3.0.2", 20)
	stay := 0
	for _, conn := range first[10:] {
		if settled := c.l.settle(conn); settled && c.l.settle(conn) { // and once more
			stay++
		}
	}
	if len(more) != 20 || stay != maxConnectionsOne-20 || len(c.l.open[acme]) != maxConnectionsOne || c.l.unknown != 10 {
		t.Errorf("%d of %d stay, the tenant has %d, and unknown clients %d", stay, len(first)-10, len(c.l.open[acme]), c.l.unknown)
	}
	if c.l.settle(first[0]) {
		t.Error("one that has lost its place stays")
	}
	late := c.connect("10.3.0.3", 1)
	_ = c.l.server.host.pods.GetIndexer().Add(pod("c", shop, "10.3.0.3"))
	if _, err := (reader{asks{}, c.l.server}).ReadTCP(late[0], 0); !errors.Is(err, errTooMany) {
		t.Errorf("one too many is read: %v", err)
	}
}

// asks is a client that asks whatever.
type asks struct{ dns.Reader }

func (asks) ReadTCP(net.Conn, time.Duration) ([]byte, error) { return nil, nil }

// TestConnectFirst checks that a tenant whose pods connect before it is known whose they are has no connections of
// others.
func TestConnectFirst(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.patience = 10 * time.Millisecond }, service("web", shop, "10.43.0.1"), service("web", others, "10.43.0.2"))
	for i := range maxConnections/maxConnectionsOne + 1 {
		from := fmt.Sprintf("127.0.2.%d", i+1)
		for range maxConnectionsOne {
			conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", w.address)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
		}
		if _, err := w.host.CoreV1().Pods(shop.Host()).Create(t.Context(), pod(fmt.Sprintf("fresh-%d", i), shop, from), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := said(w.exchange("tcp", ofGlobex, asking(web, dns.TypeA))); got != "A 10.43.0.2" {
		t.Errorf("another tenant is answered %s", got)
	}
}

// TestWaiting checks that an address which waits for a lot does not keep others from waiting.
func TestWaiting(t *testing.T) {
	s := local(t)
	s.patience = time.Hour
	greedy, modest := netip.MustParseAddr("10.3.0.1"), netip.MustParseAddr("10.3.0.2")
	ended := make(chan bool, maxWaiting)
	ask := func(address netip.Addr, ended chan bool) {
		_, ok := s.whoAsks(address)
		ended <- ok
	}
	for range maxWaiting {
		go ask(greedy, ended)
	}
	waits := func(address netip.Addr, want int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			s.waiting.mu.Lock()
			got := len(s.waiting.waiting[address])
			s.waiting.mu.Unlock()
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d questions of %s wait, want %d", got, address, want)
			}
		}
	}
	waits(greedy, maxWaiting)
	told := make(chan bool, 1)
	go ask(modest, told)
	waits(modest, 1)
	if <-ended {
		t.Error("it is known whose an address is that nobody has")
	}
	waits(greedy, maxWaiting-1)
	_ = s.host.namespaces.GetIndexer().Add(namespace(shop))
	_ = s.host.pods.GetIndexer().Add(pod("a", shop, modest.String()))
	s.host.changed.Tell()
	if !<-told {
		t.Error("it is not told whose its address is")
	}
	_ = s.host.pods.GetIndexer().Add(pod("b", shop, greedy.String()))
	s.host.changed.Tell()
	for range maxWaiting - 1 {
		<-ended
	}
	if s.waiting.taken != 0 || len(s.waiting.waiting) != 0 {
		t.Errorf("%d are left", s.waiting.taken)
	}
}

// response is where a server answers a client.
type response struct {
	dns.ResponseWriter
	from    net.Addr
	answers chan *dns.Msg
}

func (r response) RemoteAddr() net.Addr { return r.from }

func (r response) Write(b []byte) (int, error) {
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		return 0, err
	}
	r.answers <- m
	return len(b), nil
}

// TestProcessors checks that a tenant whose answers take long has so many at once, and that others are answered beside
// them.
func TestProcessors(t *testing.T) {
	s := local(t, namespace(shop), namespace(others), pod("client", shop, ofAcme), pod("client", others, ofGlobex), service("web", shop, "10.43.0.1"), service("web", others, "10.43.0.2"))
	ask := func(from string) chan *dns.Msg {
		r := response{from: &net.UDPAddr{IP: net.ParseIP(from)}, answers: make(chan *dns.Msg, 1)}
		go s.ServeDNS(r, asking(web, dns.TypeA))
		return r.answers
	}
	var ends []func()
	for end, ok := s.processors.try(idAt(shop)); ok; end, ok = s.processors.try(idAt(shop)) {
		ends = append(ends, end)
	}
	if len(ends) == 0 || 4*len(ends) > s.processors.most {
		t.Fatalf("a tenant has %d of %d", len(ends), s.processors.most)
	}
	waits := ask(ofAcme)
	queued := func() int {
		s.processors.mu.Lock()
		defer s.processors.mu.Unlock()
		return s.processors.taken
	}
	for queued() == 0 {
		select {
		case m := <-waits:
			t.Fatalf("it is answered %s beside as many as there may be", said(m))
		case <-time.After(time.Millisecond):
		}
	}
	if got := said(<-ask(ofGlobex)); got != "A 10.43.0.2" {
		t.Errorf("another tenant is answered %s", got)
	}
	if queued() != 1 {
		t.Error("it does not wait any more")
	}
	ends[0]()
	if got := said(<-waits); got != "A 10.43.0.1" {
		t.Errorf("in its turn it is answered %s", got)
	}
}

// TestIPv6 checks that by UDP over IPv6, where anybody can send in another's name, nothing is answered but to ask by
// TCP, and that what is asked in another's name does not count as that one's.
func TestIPv6(t *testing.T) {
	const six = "fd00::1"
	s := local(t, namespace(shop), pod("client", shop, six), service("web", shop, "10.43.0.1"))
	ask := func(from net.Addr) *dns.Msg {
		r := response{from: from, answers: make(chan *dns.Msg, 1)}
		s.ServeDNS(r, asking(web, dns.TypeA))
		return <-r.answers
	}
	byUDP, byTCP := &net.UDPAddr{IP: net.ParseIP(six)}, &net.TCPAddr{IP: net.ParseIP(six)}
	if m := ask(byUDP); !m.Truncated || len(m.Answer) > 0 || m.Rcode != dns.RcodeSuccess {
		t.Errorf("by UDP it is answered %s, truncated: %t", said(m), m.Truncated)
	}
	if got := said(ask(byTCP)); got != "A 10.43.0.1" {
		t.Errorf("by TCP it is answered %s", got)
	}
	s.rates.ends = time.Now().Add(time.Hour)
	s.admits(byUDP)
	if acme := (party{tenant: idAt(shop)}); s.rates.asked[acme] != 0 {
		t.Error("what anybody may have sent counts as a tenant's")
	}
	s.admits(byTCP)
	s.trustsIPv6 = true
	s.admits(byUDP)
	if acme := (party{tenant: idAt(shop)}); s.rates.asked[acme] != 2 {
		t.Error("what a tenant has asked does not count as its own")
	}
	if got := said(ask(byUDP)); got != "A 10.43.0.1" {
		t.Errorf("where the network checks who sends it is answered %s", got)
	}
}

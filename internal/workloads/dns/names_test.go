package dns

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// TestNames checks the records of the specification, and what is not there.
func TestNames(t *testing.T) {
	headless, eager, empty := service("db", shop, "None"), service("eager", shop, "None"), service("empty", shop, "None")
	eager.Spec.PublishNotReadyAddresses = true
	first, elsewhere := shop, shop
	first.Name, first.UID, elsewhere.Installation = "default", "d", "j"
	w := newWorld(t, nil,
		service("web", shop, "10.43.0.1", "2001:db8::1"), service("web", others, "10.43.0.2"), service("old", back, "10.43.0.3"),
		headless, slice("db-1", "db", shop, "db-0", "10.0.0.1", "!db-1", "10.0.0.2", "", "10.0.0.3"), slice("db-2", "db", shop, "", "10.0.0.3", "", "2001:db8::3"),
		eager, slice("eager-1", "eager", shop, "!e-0", "10.0.0.4"),
		empty, slice("empty-1", "empty", shop, "!x", "10.0.0.5"),
		external("out", shop, "web.back.svc.cluster.local"), external("chain", shop, "old.back.svc.cluster.local"),
		external("loop", shop, "loop.shop.svc.cluster.local"),
		pod("db-0", shop, "10.0.0.1"), withAPI(first, "10.43.0.9:443"), withAPI(elsewhere, "10.43.0.10:443"),
	)
	const ofShop = ".shop.svc.cluster.local."
	for _, tc := range []struct{ name, qtype, want string }{
		{"web" + ofShop, "A", "A 10.43.0.1"},
		{"WEB.Shop.SVC.cluster.LOCAL.", "A", "A 10.43.0.1"},
		{"web" + ofShop, "AAAA", "AAAA 2001:db8::1"},
		{"web" + ofShop, "TXT", "nothing"},
		{"old.back.svc.cluster.local.", "A", "A 10.43.0.3"},
		{"old.back.svc.cluster.local.", "AAAA", "nothing"},
		{"old" + ofShop, "A", "NXDOMAIN"},
		{"a.web" + ofShop, "A", "NXDOMAIN"},
		{"x._http._tcp.web" + ofShop, "SRV", "NXDOMAIN"},
		{"_http._tcp.web" + ofShop, "SRV", "SRV 0 100 80 web.shop.svc.cluster.local."},
		{"_HTTP._TCP.web" + ofShop, "SRV", "SRV 0 100 80 web.shop.svc.cluster.local."},
		{"_http._tcp.web" + ofShop, "A", "nothing"},
		{"_http._udp.web" + ofShop, "SRV", "NXDOMAIN"},
		{"_._tcp.web" + ofShop, "SRV", "NXDOMAIN"},
		{"_tcp.web" + ofShop, "A", "nothing"},
		{"_sctp.web" + ofShop, "A", "NXDOMAIN"},

		{"db" + ofShop, "A", "A 10.0.0.1, A 10.0.0.3"},
		{"db" + ofShop, "AAAA", "AAAA 2001:db8::3"},
		{"db-0.db" + ofShop, "A", "A 10.0.0.1"},
		{"db-0.db" + ofShop, "AAAA", "nothing"},
		{"db-1.db" + ofShop, "A", "NXDOMAIN"},
		{"10-0-0-3.db" + ofShop, "A", "A 10.0.0.3"},
		{"10-0-0-1.db" + ofShop, "A", "NXDOMAIN"},
		{"_tcp.db" + ofShop, "A", "nothing"},
		{"_http._tcp.db" + ofShop, "SRV", "SRV 0 100 8080 10-0-0-3.db.shop.svc.cluster.local., SRV 0 100 8080 2001-0db8-0000-0000-0000-0000-0000-0003.db.shop.svc.cluster.local., SRV 0 100 8080 db-0.db.shop.svc.cluster.local."},
		{"_dns._udp.db" + ofShop, "SRV", "NXDOMAIN"},
		{"eager" + ofShop, "A", "A 10.0.0.4"},
		{"e-0.eager" + ofShop, "A", "A 10.0.0.4"},
		{"empty" + ofShop, "A", "NXDOMAIN"},

		{"out" + ofShop, "A", "NXDOMAIN, CNAME web.back.svc.cluster.local."},
		{"out" + ofShop, "CNAME", "CNAME web.back.svc.cluster.local."},
		{"chain" + ofShop, "A", "CNAME old.back.svc.cluster.local., old.back.svc.cluster.local. A 10.43.0.3"},
		{"a.chain" + ofShop, "A", "NXDOMAIN"},
		{"loop" + ofShop, "A", "SERVFAIL"},

		{"kubernetes.default.svc.cluster.local.", "A", "A 10.43.0.9"},
		{"_https._tcp.kubernetes.default.svc.cluster.local.", "SRV", "SRV 0 100 443 kubernetes.default.svc.cluster.local."},

		{"1.0.43.10.in-addr.arpa.", "PTR", "PTR web.shop.svc.cluster.local."},
		{"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", "PTR", "PTR web.shop.svc.cluster.local."},
		{"1.0.43.10.in-addr.arpa.", "A", "nothing"},
		{"2.0.43.10.in-addr.arpa.", "PTR", "NXDOMAIN"},
		{"9.0.43.10.in-addr.arpa.", "PTR", "PTR kubernetes.default.svc.cluster.local."},
		{"10.0.43.10.in-addr.arpa.", "PTR", "NXDOMAIN"},
		{"1.0.0.10.in-addr.arpa.", "PTR", "PTR db-0.db.shop.svc.cluster.local."},
		{"3.0.0.10.in-addr.arpa.", "PTR", "PTR 10-0-0-3.db.shop.svc.cluster.local."},
		{"2.0.0.10.in-addr.arpa.", "PTR", "NXDOMAIN"},
		{"1.0.0.127.in-addr.arpa.", "PTR", "NXDOMAIN"},

		{"10-0-0-1.shop.pod.cluster.local.", "A", "A 10.0.0.1"},
		{"10-0-0-1.back.pod.cluster.local.", "A", "NXDOMAIN"},
		{"127-0-0-12.shop.pod.cluster.local.", "A", "NXDOMAIN"},
		{"x.shop.pod.cluster.local.", "A", "NXDOMAIN"},

		{"dns-version.cluster.local.", "TXT", `TXT "1.1.0"`},
		{"dns-version.cluster.local.", "A", "nothing"},
		{"cluster.local.", "SOA", "SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 5"},
		{"cluster.local.", "A", "nothing"},
		{"svc.cluster.local.", "A", "nothing"},
		{"shop.svc.cluster.local.", "A", "nothing"},
		{"none.svc.cluster.local.", "A", "NXDOMAIN"},
		{"pod.cluster.local.", "A", "nothing"},
		{"shop.pod.cluster.local.", "A", "nothing"},
		{"web.shop.cluster.local.", "A", "NXDOMAIN"},
		{"localhost.", "A", "A 127.0.0.1"},
		{"localhost.", "AAAA", "AAAA ::1"},
		{"client-address.cluster.local.", "TXT", `0 IN TXT "127.0.0.11"`},

		{"web" + ofShop, "ANY", "NOTIMP"},
		{"cluster.local.", "AXFR", "NOTIMP"},
		{"example.com.", "ANY", "NOTIMP"},

		// A pod sees the host's namespace in its own name.
		{"db-0.db." + shop.Host() + ".svc.cluster.local.", "A", "A 10.0.0.1"},
		{"web." + others.Host() + ".svc.cluster.local.", "A", "NXDOMAIN"},
	} {
		w.expect(ofAcme, tc.name, tc.qtype, tc.want)
	}
	// The other tenant has one name, and none of those.
	w.expect(ofGlobex, "web.shop.svc.cluster.local.", "A", "A 10.43.0.2")
	w.expect(ofGlobex, "2.0.43.10.in-addr.arpa.", "PTR", "PTR web.shop.svc.cluster.local.")
	for _, name := range []string{"old.back.svc", "back.svc", "db.shop.svc", "db-0.db.shop.svc", "10-0-0-1.shop.pod", "web." + shop.Host() + ".svc", shop.Host() + ".svc", "kubernetes.default.svc"} {
		w.expect(ofGlobex, name+".cluster.local.", "A", "NXDOMAIN")
	}
	for _, name := range []string{"1.0.43.10", "1.0.0.10", "9.0.43.10"} {
		w.expect(ofGlobex, name+".in-addr.arpa.", "PTR", "NXDOMAIN")
	}
}

// TestNoAPI checks that a space without an address of its API has no other Service in its place, and that nobody but
// whoever writes the host's namespaces says which address it is.
func TestNoAPI(t *testing.T) {
	home, not := shop, back
	home.Name, home.UID = "default", "d"
	not.UID = "n"
	forged := withAPI(not, "10.43.0.66:443")
	forged.Name = "tn-forged"
	w := newWorld(t, nil, withAPI(home, "no address"), forged, service("kubernetes", home, "10.43.0.66"), service("web", home, "10.43.0.1"))
	w.expect(ofAcme, "web.default.svc.cluster.local.", "A", "A 10.43.0.1")
	w.expect(ofAcme, "kubernetes.default.svc.cluster.local.", "A", "NXDOMAIN")
}

// TestLives checks that names are those of a namespace's last life.
func TestLives(t *testing.T) {
	later, last := shop, shop
	later.UID, last.UID = "s2", "s3"
	ending := namespace(last)
	ending.CreationTimestamp, ending.DeletionTimestamp, ending.Finalizers = metav1.NewTime(time.Unix(200, 0)), new(metav1.NewTime(time.Unix(300, 0))), []string{"f"}
	living := namespace(later)
	living.CreationTimestamp = metav1.NewTime(time.Unix(100, 0))
	w := newWorld(t, nil, living, ending, service("web", shop, "10.43.0.1"), service("web", later, "10.43.0.2"), service("web", last, "10.43.0.3"))
	w.expect(ofAcme, "web.shop.svc.cluster.local.", "A", "A 10.43.0.2")
}

// TestForgedNamespace checks that a namespace which is not called as its marks say is nobody's.
func TestForgedNamespace(t *testing.T) {
	forged := namespace(shop)
	forged.Name = "tn-forged"
	stranger := pod("client", shop, ofNobody)
	stranger.Namespace = "tn-forged"
	w := newWorld(t, func(o *Options) { o.patience = time.Millisecond }, forged, stranger, service("web", shop, "10.43.0.1"))
	w.expect(ofNobody, "web.shop.svc.cluster.local.", "A", "SERVFAIL")
}

// TestHostDomain checks that the host's own domain is no outside, and has the names that pods see in it.
func TestHostDomain(t *testing.T) {
	up := newUpstream(t)
	w := newWorld(t, func(o *Options) { o.HostDomain, o.Forward = "corp.example", []string{up.address} }, service("web", shop, "10.43.0.1"))
	w.expect(ofAcme, "web."+shop.Host()+".svc.corp.example.", "A", "A 10.43.0.1")
	w.expect(ofAcme, "kubernetes.default.svc.corp.example.", "A", "NXDOMAIN")
	w.expect(ofAcme, "nginx.kube-system.svc.corp.example.", "A", "NXDOMAIN")
	if asked := up.all(); len(asked) > 0 {
		t.Errorf("an upstream was asked for %v", asked)
	}
}

// TestShuffled checks that clients begin with any of the endpoints.
func TestShuffled(t *testing.T) {
	w := newWorld(t, nil, func() *corev1.Service { return service("db", shop, "None") }(),
		slice("db-1", "db", shop, "a", "10.0.0.1", "b", "10.0.0.2", "c", "10.0.0.3"))
	first := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); len(first) < 3 && time.Now().Before(deadline); {
		m := w.exchange("udp", ofAcme, asking("db.shop.svc.cluster.local.", 1))
		if len(m.Answer) != 3 {
			t.Fatalf("got %v", m.Answer)
		}
		first[strings.TrimPrefix(m.Answer[0].String(), m.Answer[0].Header().String())] = true
	}
	if len(first) < 3 {
		t.Errorf("it always begins with %v", first)
	}
}

// TestForgedOwner checks that whoever gives namespaces of their own the marks of another's tenant has none of its
// names.
func TestForgedOwner(t *testing.T) {
	forged := shop
	forged.UID = "f"
	home := namespace(forged)
	maps.Copy(home.Labels, names.Owner{Namespace: "team-a", ControlPlane: "one"}.Labels())
	w := newWorld(t, nil, home, pod("client", forged, ofNobody), service("web", shop, "10.43.0.1"), service("own", forged, "10.43.0.2"))
	w.expect(ofAcme, "web.shop.svc.cluster.local.", "A", "A 10.43.0.1")
	w.expect(ofNobody, "web.shop.svc.cluster.local.", "A", "NXDOMAIN")
	w.expect(ofNobody, "1.0.43.10.in-addr.arpa.", "PTR", "NXDOMAIN")
	w.expect(ofNobody, "own.shop.svc.cluster.local.", "A", "A 10.43.0.2")
	w.expect(ofAcme, "own.shop.svc.cluster.local.", "A", "NXDOMAIN")
}

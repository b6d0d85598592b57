package dns

import (
	"fmt"
	"slices"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// headlessOf returns the headless Service big with so many endpoints and ports, and its slices.
func headlessOf(n names.Namespace, endpoints, ports int) []runtime.Object {
	svc := service("big", n, corev1.ClusterIPNone)
	var named []discoveryv1.EndpointPort
	for i := range ports {
		named = append(named, discoveryv1.EndpointPort{Name: new(fmt.Sprintf("p%d", i)), Port: new(int32(i + 1)), Protocol: new(corev1.ProtocolTCP)})
	}
	all := []runtime.Object{svc}
	for from := 0; from < endpoints; from += 100 {
		var pairs []string
		for i := from; i < min(from+100, endpoints); i++ {
			pairs = append(pairs, "", fmt.Sprintf("10.1.%d.%d", i/250, i%250+1))
		}
		s := slice(fmt.Sprintf("big-%d", from), "big", n, pairs...)
		s.Ports = named
		all = append(all, s)
	}
	return all
}

// local returns a server with what a host has, without a network.
func local(t testing.TB, objects ...runtime.Object) *server {
	t.Helper()
	h, err := newDirectory(fake.NewClientset(objects...))
	if err != nil {
		t.Fatal(err)
	}
	if !h.run(t.Context()) {
		t.Fatal("the host is not known")
	}
	o := NewOptions()
	s, err := o.newServer(h)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counting counts what is found by indexes.
type counting struct {
	cache.SharedIndexInformer
	found *int
}

type countingIndexer struct {
	cache.Indexer
	found *int
}

func (c counting) GetIndexer() cache.Indexer {
	return countingIndexer{c.SharedIndexInformer.GetIndexer(), c.found}
}

func (c countingIndexer) ByIndex(index, value string) ([]any, error) {
	all, err := c.Indexer.ByIndex(index, value)
	*c.found += len(all)
	return all, err
}

// TestLooks checks that a question does not look at all that a tenant has: how much that is, is the tenant's to choose.
func TestLooks(t *testing.T) {
	for _, tc := range []struct {
		name, qtype string
		// slices is at how many slices it looks at most, records how many are found.
		slices, records int
	}{
		{"x.big.shop.svc.cluster.local.", "A", 0, 0},
		{"_x._tcp.big.shop.svc.cluster.local.", "SRV", 0, 0},
		{"_p1._udp.big.shop.svc.cluster.local.", "SRV", 0, 0},
		{"_udp.big.shop.svc.cluster.local.", "A", 0, 0},
		{"_.big.shop.svc.cluster.local.", "A", 0, 0},
		{"a.b.c.big.shop.svc.cluster.local.", "A", 0, 0},
		{"10-1-3-7.big.shop.svc.cluster.local.", "A", 1, 1},
		{"10-1-3-7.big.shop.svc.cluster.local.", "AAAA", 1, 0},
		{"7.3.1.10.in-addr.arpa.", "PTR", 1, 1},
		{"8.7.1.10.in-addr.arpa.", "PTR", 0, 0},
		{"big.shop.svc.cluster.local.", "AAAA", 10, 0},
		{"big.shop.svc.cluster.local.", "A", 10, mostByUDP},
		{"_p1._tcp.big.shop.svc.cluster.local.", "SRV", 10, mostByUDP},
	} {
		t.Run(tc.name+" "+tc.qtype, func(t *testing.T) {
			cost := func(endpoints, ports int) (found int, allocations float64) {
				s := local(t, append(headlessOf(shop, endpoints, ports), namespace(shop))...)
				s.host.slices = counting{s.host.slices, &found}
				q := dns.Question{Name: tc.name, Qtype: dns.StringToType[tc.qtype], Qclass: dns.ClassINET}
				if a, _, _ := s.look(idAt(shop), q, false); endpoints > 1 && len(a.records) != tc.records {
					t.Errorf("%d records are found, want %d", len(a.records), tc.records)
				}
				looked := found
				return looked, testing.AllocsPerRun(10, func() { s.look(idAt(shop), q, false) })
			}
			_, few := cost(1, 2)
			found, many := cost(1000, 100)
			if found > tc.slices {
				t.Errorf("it looks at %d slices, want %d", found, tc.slices)
			}
			// What is made for an answer is of its records, of the slices with them, and of nothing else.
			if most := few + float64(3+tc.slices+20*tc.records); many > most {
				t.Errorf("it allocates %v times beside 1,000 endpoints with 100 ports, and %v times beside one, want %v at most", many, few, most)
			}
		})
	}
}

// BenchmarkCost is what an answer takes, beside how many endpoints and ports.
func BenchmarkCost(b *testing.B) {
	for _, c := range []struct {
		what, name       string
		endpoints, ports int
		qtype            uint16
		tcp              bool
	}{
		{"service", "web.shop.svc.cluster.local.", 1, 1, dns.TypeA, false},
		{"no-port-1000x100", "_x._tcp.big.shop.svc.cluster.local.", 1000, 100, dns.TypeSRV, false},
		{"no-host-1000", "x.big.shop.svc.cluster.local.", 1000, 1, dns.TypeA, false},
		{"host-1000", "10-1-3-7.big.shop.svc.cluster.local.", 1000, 1, dns.TypeA, false},
		{"all-1000-udp", "big.shop.svc.cluster.local.", 1000, 1, dns.TypeA, false},
		{"port-1000x100-tcp", "_p1._tcp.big.shop.svc.cluster.local.", 1000, 100, dns.TypeSRV, true},
	} {
		b.Run(c.what, func(b *testing.B) {
			s := local(b, slices.Concat(headlessOf(shop, c.endpoints, c.ports), []runtime.Object{namespace(shop), service("web", shop, "10.43.0.1")})...)
			r := asking(c.name, c.qtype)
			b.ReportAllocs()
			for b.Loop() {
				m := new(dns.Msg)
				m.SetReply(r)
				s.resolve(m, r, idAt(shop), c.tcp)
				fit(m, sizeOf(r, c.tcp))
			}
		})
	}
}

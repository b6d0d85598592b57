package dns

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
)

// BenchmarkAnswers asks for the Services of spaces by UDP, over the loopback interface, beside 10,000 pods of 100
// tenants. Clients and the server share the processors.
func BenchmarkAnswers(b *testing.B) {
	const tenants, pods = 100, 10_000
	var objects []runtime.Object
	for i := range tenants {
		n := names.Namespace{Installation: "i", Tenant: tenant.Name(fmt.Sprintf("t-%d", i)), TenantUID: types.UID(fmt.Sprintf("t-%d", i)), Name: "shop", UID: types.UID(fmt.Sprintf("n-%d", i))}
		objects = append(objects, namespace(n), service("web", n, fmt.Sprintf("10.43.1.%d", i+1)))
		for j := range pods / tenants {
			objects = append(objects, pod(fmt.Sprintf("p-%d", j), n, fmt.Sprintf("127.1.%d.%d", i, j+1)))
		}
	}
	w := newWorld(b, func(o *Options) { o.TenantRate = 1_000_000_000 }, objects...)
	packed, err := asking("web.shop.svc.cluster.local.", dns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	var next atomic.Int32
	var mu sync.Mutex
	var all []time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := int(next.Add(1)) - 1
		local := &net.UDPAddr{IP: net.ParseIP(fmt.Sprintf("127.1.%d.%d", i%tenants, i/tenants%100+1))}
		conn, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(addrPort(b, w.address)))
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		var took []time.Duration
		buffer := make([]byte, 512)
		for pb.Next() {
			began := time.Now()
			if _, err := conn.Write(packed); err != nil {
				b.Error(err)
				return
			}
			n, err := conn.Read(buffer)
			if err != nil || buffer[3]&0xF != dns.RcodeSuccess || n < len(packed)+16 {
				b.Errorf("got %d bytes, error %v", n, err)
				return
			}
			took = append(took, time.Since(began))
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, took...)
	})
	b.StopTimer()
	slices.Sort(all)
	b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "answers/s")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), "p99-us")
}

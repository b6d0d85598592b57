//go:build node

package node

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/miekg/dns"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// outside answers the one name that there is outside, for "tenantry dns", on the node.
func outside() (address string) {
	GinkgoHelper()
	packets, err := net.ListenPacket("udp", net.JoinHostPort(os.Getenv("NODE"), "0"))
	Expect(err).NotTo(HaveOccurred())
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(r)
		switch q := r.Question[0]; {
		case !strings.EqualFold(q.Name, "outside.example."):
			m.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 80)}}
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = server.ActivateAndServe() }()
	DeferCleanup(server.Shutdown)
	return packets.LocalAddr().String()
}

const named = `
apiVersion: v1
kind: Pod
metadata: {name: asks, labels: {app: asks}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, args: [-serve, ":8080", "said by TENANT"]}]
---
apiVersion: v1
kind: Service
metadata: {name: said}
spec:
  selector: {app: asks}
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec:
  clusterIP: None
  selector: {app: db}
  ports: [{name: sql, port: 5432}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

const movingPod = `
apiVersion: v1
kind: Pod
metadata: {name: moves}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

var _ = Describe("workloads that ask DNS", Ordered, func() {
	var tenantry *standalone

	apply := func(tenant, manifest string) {
		GinkgoHelper()
		file := filepath.Join(tenantry.dir, "manifest.yaml")
		Expect(os.WriteFile(file, []byte(strings.ReplaceAll(manifest, "TENANT", tenant)), 0o600)).To(Succeed())
		must(append(tenantry.as(tenant), "apply", "-f", file)...)
	}
	field := func(tenant, object, path string) string {
		GinkgoHelper()
		return must(append(tenantry.as(tenant), "get", object, "-o", "jsonpath={"+path+"}")...)
	}
	// lookup has a pod ask for a name.
	lookup := func(tenant, pod, kind, name string) func() string {
		return func() string {
			out, _ := kubectl(append(tenantry.as(tenant), "exec", pod, "--", "/tenantry", "-lookup", kind, name)...)
			return out
		}
	}

	BeforeAll(func() {
		tenantry = startOnHost("--network-isolation=Unenforced", true)
		must("--namespace", "tenantry-workloads", "rollout", "status", "deployment/dns", "--timeout=3m")
	})

	AfterEach(func() {
		if CurrentSpecReport().Failed() {
			_, _ = kubectl("describe", "pods", "-A", "-l", "workloads.tenantry.io/installation")
			_, _ = kubectl("get", "services,endpointslices,pods", "-A", "-o", "wide")
			_, _ = kubectl("--namespace", "tenantry-workloads", "logs", "-l", "app.kubernetes.io/component=workloads-dns", "--tail=30")
		}
	})

	It("find the names of their space, short and long", func() {
		for _, tenant := range []string{"acme", "globex"} {
			apply(tenant, named)
		}
		for _, tenant := range []string{"acme", "globex"} {
			must(append(tenantry.as(tenant), "wait", "--for=condition=Ready", "pod/asks", "--timeout=3m")...)
			must(append(tenantry.as(tenant), "rollout", "status", "statefulset/db", "--timeout=3m")...)
			address, db := field(tenant, "service/said", ".spec.clusterIP"), field(tenant, "pod/db-0", ".status.podIP")
			for _, name := range []string{"said", "said.default", "said.default.svc", "said.default.svc.cluster.local", "said.default.svc.cluster.local."} {
				Eventually(lookup(tenant, "asks", "host", name)).Should(Equal(address), name)
			}
			Expect(lookup(tenant, "asks", "srv", "_http._tcp.said.default.svc.cluster.local.")()).To(Equal("said.default.svc.cluster.local.:80"))
			Expect(lookup(tenant, "asks", "addr", address)()).To(Equal("said.default.svc.cluster.local."))
			Eventually(lookup(tenant, "asks", "host", "db")).Should(Equal(db))
			Expect(lookup(tenant, "asks", "host", "db-0.db")()).To(Equal(db))
			Expect(lookup(tenant, "asks", "srv", "_sql._tcp.db.default.svc.cluster.local.")()).To(Equal("db-0.db.default.svc.cluster.local.:5432"))
			Expect(lookup(tenant, "asks", "addr", db)()).To(Equal("db-0.db.default.svc.cluster.local."))
			Expect(lookup(tenant, "asks", "txt", "dns-version.cluster.local.")()).To(Equal("1.1.0"))
			asks := must(append(tenantry.as(tenant), "exec", "asks", "--", "/tenantry", "-ask", "said:80")...)
			Expect(asks).To(Equal("said by " + tenant))
		}
	})

	It("find names outside, and none of the host", func() {
		Expect(lookup("acme", "asks", "host", "outside.example")()).To(Equal("192.0.2.80"))
		Expect(lookup("acme", "asks", "host", "kubernetes.default")()).To(Equal(os.Getenv("NODE")), "the API of the space")
		for _, name := range []string{"none.example", "dns.tenantry-workloads", "dns.tenantry-workloads.svc.cluster.local."} {
			Expect(lookup("acme", "asks", "host", name)()).To(ContainSubstring("no such host"), name)
		}
		host := must("get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}")
		Expect(lookup("acme", "asks", "addr", host)()).To(ContainSubstring("no such host"))
	})

	It("find no names of another tenant", func() {
		must(append(tenantry.as("acme"), "create", "service", "clusterip", "only", "--tcp=80")...)
		Eventually(lookup("acme", "asks", "host", "only")).Should(Equal(field("acme", "service/only", ".spec.clusterIP")))
		for _, name := range []string{"only", "only.default.svc.cluster.local."} {
			Expect(lookup("globex", "asks", "host", name)()).To(ContainSubstring("no such host"))
		}
		Expect(lookup("globex", "asks", "addr", field("acme", "service/only", ".spec.clusterIP"))()).To(ContainSubstring("no such host"))
	})

	It("find their own names by an address that another tenant's pod has had", func() {
		apply("acme", movingPod)
		must(append(tenantry.as("acme"), "wait", "--for=condition=Ready", "pod/moves", "--timeout=3m")...)
		address := field("acme", "pod/moves", ".status.podIP")
		Expect(lookup("acme", "moves", "host", "only")()).To(Equal(field("acme", "service/only", ".spec.clusterIP")))
		must(append(tenantry.as("acme"), "delete", "pod", "moves")...)
		// The plugin that gives addresses begins with the one after that which it has given last.
		parsed, err := netip.ParseAddr(address)
		Expect(err).NotTo(HaveOccurred())
		last := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "run", "ipam", "pods", "last_reserved_ip.0")
		Expect(os.WriteFile(last, []byte(parsed.Prev().String()), 0o600)).To(Succeed())
		apply("globex", movingPod)
		must(append(tenantry.as("globex"), "wait", "--for=condition=Ready", "pod/moves", "--timeout=3m")...)
		Expect(field("globex", "pod/moves", ".status.podIP")).To(Equal(address))
		Expect(lookup("globex", "moves", "host", "said")()).To(Equal(field("globex", "service/said", ".spec.clusterIP")))
		Expect(lookup("globex", "moves", "host", "only")()).To(ContainSubstring("no such host"))
	})

	It("find names while Tenantry is down", func() {
		address := field("acme", "service/said", ".spec.clusterIP")
		asker := strings.Fields(must("get", "pods", "-A", "-l", "app=asks", "-o", `jsonpath={range .items[?(@.metadata.annotations.workloads\.tenantry\.io/tenant=="acme")]}{.metadata.namespace} {.metadata.name}{end}`))
		Expect(tenantry.process.Process.Kill()).To(Succeed())
		_ = tenantry.process.Wait()
		Expect(must("exec", "-n", asker[0], asker[1], "--", "/tenantry", "-lookup", "host", "said")).To(Equal(address))
		tenantry.start()
	})
})

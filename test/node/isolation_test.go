//go:build node

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// router enforces network policies on the node.
type router struct{ process *exec.Cmd }

// start runs it. It is kube-router, of which nothing but that is used.
func (r *router) start() {
	GinkgoHelper()
	r.process = exec.Command("kube-router", "--kubeconfig", os.Getenv("KUBECONFIG"), "--hostname-override=node", "--run-firewall", "--run-router=false",
		"--run-service-proxy=false", "--run-loadbalancer=false", "--service-cluster-ip-range=10.43.0.0/16", "--health-port=0", "--metrics-port=0")
	r.process.Env = append(os.Environ(), "NODE_NAME=node")
	r.process.Stdout, r.process.Stderr = GinkgoWriter, GinkgoWriter
	Expect(r.process.Start()).To(Succeed())
}

// stop ends it, and takes away what it has told the kernel: other specs run without it.
func (r *router) stop() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Signal(syscall.SIGTERM)
	_ = r.process.Wait()
	// It cleans up policies first, and fails at what it has of Services, of which there is nothing.
	out, _ := exec.Command("kube-router", "--cleanup-config").CombinedOutput()
	Expect(string(out)).To(ContainSubstring("Successfully cleaned the NetworkPolicyController"))
}

// listener is a pod that accepts connections, and can make some.
const listener = `
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: NAME}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: "ghcr.io/tenantry/tenantry:v0.2.0", imagePullPolicy: IfNotPresent, command: [/tenantry, canary, listen, ":8080"]}
`

const denyIngress = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {matchLabels: {app: closed}}, policyTypes: [Ingress]}
`

const allowEverybody = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow}
spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{from: []}, {from: [{namespaceSelector: {}}, {ipBlock: {cidr: 0.0.0.0/0}}]}]}
`

var _ = Describe("workloads on a network with policies", Ordered, func() {
	var tenantry *standalone
	enforcing := &router{}

	apply := func(tenant, manifest string) {
		GinkgoHelper()
		file := filepath.Join(tenantry.dir, "manifest.yaml")
		Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
		must(append(tenantry.as(tenant), "apply", "-f", file)...)
	}
	listen := func(tenant, name string) {
		GinkgoHelper()
		apply(tenant, strings.ReplaceAll(listener, "NAME", name))
	}
	running := func(tenant, name string) {
		GinkgoHelper()
		must(append(tenantry.as(tenant), "wait", "--for=condition=Ready", "pod/"+name, "--timeout=3m")...)
	}
	address := func(tenant, name string) string {
		GinkgoHelper()
		return must(append(tenantry.as(tenant), "get", "pod", name, "-o", "jsonpath={.status.podIP}")...) + ":8080"
	}
	// reaches returns what a pod says that reaches the first address, and is to reach no other.
	reaches := func(tenant, name string, addresses ...string) string {
		GinkgoHelper()
		out, _ := kubectl(append(append(tenantry.as(tenant), "exec", name, "--", "/tenantry", "canary", "dial"), addresses...)...)
		return out
	}

	BeforeAll(func() {
		tenantry = startOnHost("--workloads-image=ghcr.io/tenantry/tenantry:v0.2.0", false)
		DeferCleanup(enforcing.stop)
	})

	AfterEach(func() {
		if CurrentSpecReport().Failed() {
			_, _ = kubectl("get", "pods,networkpolicies", "-A", "-o", "yaml", "-l", "workloads.tenantry.io/installation")
			_, _ = kubectl("describe", "pods", "-A", "-l", "workloads.tenantry.io/installation")
		}
	})

	It("do not run before the network has policies, and say so", func() {
		listen("acme", "one")
		Eventually(func() string {
			out, _ := kubectl(append(tenantry.as("acme"), "get", "pod", "one", "-o", "jsonpath={.status.conditions[0].message}")...)
			return out
		}).WithTimeout(4 * time.Minute).Should(And(ContainSubstring("does not enforce network policies"), ContainSubstring("--network-isolation=Unenforced")))
		enforcing.start()
		running("acme", "one")
	})

	It("reach their tenant, and nobody else", func() {
		for tenant, names := range map[string][]string{"acme": {"two", "closed"}, "globex": {"one", "two"}} {
			for _, name := range names {
				listen(tenant, name)
			}
		}
		for tenant, names := range map[string][]string{"acme": {"two", "closed"}, "globex": {"one", "two"}} {
			for _, name := range names {
				running(tenant, name)
			}
		}
		service := map[string]string{}
		for _, tenant := range []string{"acme", "globex"} {
			must(append(tenantry.as(tenant), "expose", "pod", "one", "--port=8080")...)
			service[tenant] = tenantry.get(tenant, "service/one", ".spec.clusterIP") + ":8080"
		}
		Expect(reaches("acme", "two", service["acme"], address("globex", "one"), service["globex"])).To(BeEmpty())
		Expect(reaches("globex", "two", service["globex"], address("acme", "one"), address("acme", "closed"), service["acme"])).To(BeEmpty())
		Expect(reaches("acme", "one", address("acme", "two"), address("globex", "two"))).To(BeEmpty())
	})

	It("ask their space", func() {
		tenantry.asksItsSpace("acme", "globex")
	})

	It("have the policies of their space", func() {
		apply("acme", denyIngress)
		Expect(reaches("acme", "one", address("acme", "two"), address("acme", "closed"))).To(BeEmpty())
	})

	It("are not reached by another tenant, whomever their policies admit", func() {
		must(append(tenantry.as("acme"), "delete", "networkpolicy", "deny")...)
		apply("acme", allowEverybody)
		Expect(reaches("globex", "one", address("globex", "two"), address("acme", "one"), address("acme", "two"))).To(BeEmpty())
		Expect(reaches("acme", "one", address("acme", "closed"), address("globex", "two"))).To(BeEmpty())
	})
})

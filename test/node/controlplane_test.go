//go:build node

package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	root      = "../.."
	namespace = "tenantry-system"
	timeout   = 5 * time.Minute
)

func TestNode(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(time.Second)
	RunSpecs(t, "Node")
}

// run runs a command on the host, in the root of the repository, and returns its output.
func run(name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir = root
	out, err := command.CombinedOutput()
	shown := strings.TrimSpace(string(out))
	if slices.Contains(args, "secret") || slices.Contains(args, "render") {
		shown = "..."
	}
	GinkgoWriter.Printf("$ %s %s\n%s\n", name, strings.Join(args, " "), shown)
	return strings.TrimSpace(string(out)), err
}

// command is run, which must not fail.
func command(name string, args ...string) string {
	GinkgoHelper()
	out, err := run(name, args...)
	Expect(err).NotTo(HaveOccurred(), out)
	return out
}

func kubectl(args ...string) (string, error) { return run("kubectl", args...) }

// must is kubectl, which must not fail.
func must(args ...string) string {
	GinkgoHelper()
	return command("kubectl", args...)
}

// in is must in the operator's namespace.
func in(args ...string) string {
	GinkgoHelper()
	return must(append([]string{"--namespace", namespace}, args...)...)
}

// admin returns the flags of the administrator of the sample, by the kubeconfig in its Secret.
func admin() []string {
	GinkgoHelper()
	return kubeconfig("sample-admin")
}

// kubeconfig returns the flags of the user whose kubeconfig is in a Secret, and some more.
func kubeconfig(secret string, more ...string) []string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(os.WriteFile(file, kubeconfigOf(secret), 0o600)).To(Succeed())
	return append([]string{"--kubeconfig", file}, more...)
}

// inCluster returns admin at the address of the Service: the host has no DNS.
func inCluster() []string {
	GinkgoHelper()
	return append(admin(), "--server", "https://"+in("get", "service", "sample", "-o", "jsonpath={.spec.clusterIP}"))
}

// available waits for the sample, and answers for the keys that an earlier one has left.
func available() {
	GinkgoHelper()
	degraded := func(field string) string {
		return in("get", "controlplane", "sample", "-o", `jsonpath={.status.conditions[?(@.type=="Degraded")].`+field+`}`)
	}
	Eventually(func() string { return degraded("reason") }).ShouldNot(BeEmpty())
	if degraded("reason") == "KeysNotAdopted" {
		_, annotation, _ := strings.Cut(degraded("message"), "controlplane sample ")
		annotation, _, _ = strings.Cut(annotation, `"`)
		in("annotate", "--overwrite", "controlplane", "sample", annotation)
	}
	in("wait", "--for=condition=Available", "--timeout=5m", "controlplane/sample")
}

var _ = Describe("A ControlPlane on a real node", Ordered, func() {
	BeforeAll(func() {
		follow("kubectl apply -k config/default")
		DeferCleanup(func() {
			_, _ = kubectl("delete", "-k", "config/default", "-l", "app.kubernetes.io/component=operator", "--ignore-not-found")
		})
	})

	AfterEach(onFailure)

	It("has rights in its namespace alone", hasRightsInItsNamespaceAlone)

	It("becomes available as the sample is", func() {
		must("apply", "-f", "config/samples/controlplane.yaml")
		available()
		Expect(in("get", "controlplane", "sample", "-o", `jsonpath={.status.conditions[?(@.type=="Degraded")].status}`)).To(Equal("False"))
	})

	It("is used by the kubeconfig in its Secret", func() {
		config := inCluster()
		Expect(must(append(config, "get", "namespaces", "-o", "name")...)).To(ContainSubstring("namespace/kube-system"))
		must(append(config, "create", "-f", "config/samples/tenant.yaml")...)
		must(append(config, "wait", "--for=condition=Ready", "--timeout=2m", "tenants/sample-tenant-1")...)
	})

	It("has the space of a Tenant of the host, whose kubeconfig is in a Secret", func() {
		must("apply", "-f", "config/samples/host_tenant.yaml")
		for _, condition := range []string{"Ready", "KubeconfigReady"} {
			must("wait", "--for=condition="+condition, "--timeout=2m", "tenants.tenantry.io/sample-tenant")
		}
		config := kubeconfig("sample-tenant-kubeconfig", "--server",
			"https://"+in("get", "service", "sample", "-o", "jsonpath={.spec.clusterIP}")+"/tenants/sample-tenant")
		Expect(must(append(config, "get", "namespaces", "-o", "name")...)).To(ContainSubstring("namespace/default"))
		must("delete", "-f", "config/samples/host_tenant.yaml", "--timeout=2m")
		in("wait", "--for=delete", "--timeout=2m", "secret/sample-tenant-kubeconfig") // by the host's garbage collector
		out, err := kubectl(append(inCluster(), "get", "tenants/sample-tenant")...)
		Expect(err).To(HaveOccurred(), out)
	})

	It("keeps what it has stored when its pod ends", func() {
		before := in("get", "pod", "sample-0", "-o", "jsonpath={.metadata.uid}")
		in("delete", "pod", "sample-0", "--grace-period=0", "--force")
		Eventually(func() (string, error) {
			return kubectl("--namespace", namespace, "get", "pod", "sample-0", "-o", "jsonpath={.metadata.uid}")
		}).ShouldNot(Or(BeEmpty(), Equal(before), ContainSubstring("NotFound")))
		in("wait", "--for=condition=Ready", "--timeout=5m", "pod/sample-0")
		available()
		must(append(inCluster(), "get", "tenants/sample-tenant-1")...)
	})

	It("is reached at a port of the node, by a certificate that the server takes over while it runs", func() {
		pod := in("get", "pod", "sample-0", "-o", "jsonpath={.metadata.uid}")
		in("patch", "controlplane", "sample", "--type=merge", "-p", `{"spec":{"expose":{"type":"NodePort","names":["`+os.Getenv("NODE")+`"]}}}`)
		Eventually(func() (string, error) {
			return kubectl("--namespace", namespace, "get", "controlplane", "sample", "-o", "jsonpath={.status.endpoint}")
		}).Should(HavePrefix("https://" + os.Getenv("NODE") + ":3"))
		Eventually(func() (string, error) {
			return kubectl(append(admin(), "get", "namespaces", "-o", "name")...)
		}).Should(ContainSubstring("namespace/kube-system"))
		Expect(in("get", "pod", "sample-0", "-o", "jsonpath={.metadata.uid}")).To(Equal(pod))
	})

	It("goes on while the API of the host is away, and so does its operator when it is back", func() {
		pod := in("get", "pod", "sample-0", "-o", podState)
		config := append(admin(), "--server", in("get", "controlplane", "sample", "-o", "jsonpath={.status.endpoint}"))
		hostAway := closeAPI()
		for until := time.Now().Add(away()); time.Now().Before(until); time.Sleep(5 * time.Second) {
			_, err := kubectl("get", "--raw", "/readyz", "--request-timeout=5s")
			Expect(err).To(HaveOccurred(), "the host answers")
			must(append(config, "create", "configmap", "away-"+strconv.FormatInt(time.Now().UnixNano(), 36))...)
		}
		hostAway()
		written := must(append(config, "get", "configmaps", "-o", "name")...)
		must("apply", "-f", "config/samples/host_tenant.yaml")
		must("wait", "--for=condition=Ready", "--timeout=5m", "tenants.tenantry.io/sample-tenant")
		must("delete", "-f", "config/samples/host_tenant.yaml", "--timeout=2m")
		available()
		Expect(in("get", "pod", "sample-0", "-o", podState)).To(Equal(pod), "the server has been started again")
		Expect(written).To(ContainSubstring("configmap/away-"))
		Expect(must(append(config, "get", "configmaps", "-o", "name")...)).To(Equal(written))
	})

	neighbour := `{"apiVersion": "tenantry.io/v1alpha1", "kind": "ControlPlane", "metadata": {"namespace": "` + namespace + `", "name": "next"}, "spec": {"storage": {"embedded": {"size": "1Gi"}}}}`

	It("has a neighbour, whose first Tenant is ready in a moment", func() {
		began := time.Now()
		apply(`{"apiVersion": "v1", "kind": "List", "items": [` + neighbour + `,
			{"apiVersion": "tenantry.io/v1alpha1", "kind": "Tenant", "metadata": {"name": "first"}, "spec": {"controlPlaneRef": {"namespace": "` + namespace + `", "name": "next"}}}]}`)
		must("wait", "--for=condition=Ready", "--timeout=5m", "tenants.tenantry.io/first")
		AddReportEntry("from the apply of a ControlPlane to its first Ready Tenant", time.Since(began).Round(100*time.Millisecond).String())
	})

	It("is not disturbed by its neighbour's full disk, which is said, and loses nothing", func() {
		before := in("get", "pod", "sample-0", "-o", podState)
		config := kubeconfig("next-admin", "--server", "https://"+in("get", "service", "next", "-o", "jsonpath={.spec.clusterIP}"))
		fill, free := filler()
		fill()
		acknowledged := writeUntilRefused(config)
		conditionOfNext := func(kind, field string) string {
			return in("get", "controlplane", "next", "-o", `jsonpath={.status.conditions[?(@.type=="`+kind+`")].`+field+`}`)
		}
		Eventually(func() string { return conditionOfNext("Degraded", "message") }).Should(ContainSubstring("the disk of /var/lib/tenantry/state/etcd is full"))
		Expect(conditionOfNext("Available", "status")).To(Equal("False"))
		Expect(in("get", "pod", "sample-0", "-o", podState)).To(Equal(before))
		free()
		in("wait", "--for=condition=Available", "--timeout=10m", "controlplane/next") // the kubelet waits longer with every start
		Expect(strings.Fields(must(append(config, "get", "configmaps", "-o", "name")...))).To(ContainElements(acknowledged))
	})

	It("is left alone when the neighbour goes", func() {
		before := in("get", "pod", "sample-0", "-o", podState)
		must("delete", "tenants.tenantry.io/first", "--timeout=2m")
		in("annotate", "controlplane", "next", "tenantry.io/confirm-deletion=true")
		in("delete", "controlplane", "next", "--cascade=foreground", "--timeout=2m")
		in("delete", "secret/next-authorities", "secret/next-keys", "persistentvolumeclaim/state-next-0", "--timeout=2m")
		Expect(in("get", "pod", "sample-0", "-o", podState)).To(Equal(before))
		must(append(inCluster(), "get", "tenants/sample-tenant-1")...)
	})

	It("leaves its keys and its volume, and nothing else", func() {
		_, err := kubectl("--namespace", namespace, "delete", "controlplane", "sample")
		Expect(err).To(HaveOccurred(), "it is deleted by accident")
		in("annotate", "controlplane", "sample", "tenantry.io/confirm-deletion=true")
		in("delete", "controlplane", "sample")
		of := []string{"get", "statefulsets,services,serviceaccounts,networkpolicies,poddisruptionbudgets,secrets,persistentvolumeclaims",
			"-l", "tenantry.io/control-plane=sample", "-o", "name"}
		Eventually(func() []string { return strings.Fields(in(of...)) }).Should(ConsistOf(
			"secret/sample-authorities", "secret/sample-keys", "persistentvolumeclaim/state-sample-0"))
	})

	It("goes on with them under the same name", func() {
		must("apply", "-f", "config/samples/controlplane.yaml")
		available()
		must(append(inCluster(), "get", "tenants/sample-tenant-1")...)
	})

	It("leaves nothing but what holds data when the operator is uninstalled", func() {
		follow("kubectl delete -k config/default -l app.kubernetes.io/component=operator")
		onlyDataIsLeft("sample-tenant-1")
	})
})

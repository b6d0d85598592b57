//go:build node

package node

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// runningControlPlane is one whose spaces' pods run on the node, with a volume that no other spec uses, and two
// Tenants.
const runningControlPlane = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: of-running}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: of-running}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: of-running
  local: {path: DIRECTORY}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node]}]}]}}
---
apiVersion: tenantry.io/v1alpha1
kind: ControlPlane
metadata: {namespace: tenantry-system, name: running}
spec:
  storage: {embedded: {size: 1Gi, storageClassName: of-running}}
  workloads: {localImages: Trusted}
---
apiVersion: tenantry.io/v1alpha1
kind: Tenant
metadata: {name: acme}
spec: {controlPlaneRef: {namespace: tenantry-system, name: running}}
---
apiVersion: tenantry.io/v1alpha1
kind: Tenant
metadata: {name: globex}
spec: {controlPlaneRef: {namespace: tenantry-system, name: running}}
`

// hookPod is an admission webhook in a pod.
const hookPod = `
apiVersion: v1
kind: Pod
metadata: {name: hook, labels: {app: hook}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: "localhost/client:1", imagePullPolicy: IfNotPresent, args: [-admit, ":8443", hook.default.svc, ADDRESS]}
`

const hookService = `
apiVersion: v1
kind: Service
metadata: {name: hook}
spec:
  selector: {app: hook}
  ports: [{port: 443, targetPort: 8443}]
`

// hookConfiguration has a webhook asked about ConfigMaps.
const hookConfiguration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
- name: hook.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
  clientConfig: {WHERE, caBundle: BUNDLE}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`

const denyAll = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
`

var _ = Describe("workloads of a ControlPlane", Ordered, func() {
	enforcing := &router{}
	var dir string

	as := func(tenant string) []string {
		GinkgoHelper()
		return kubeconfig("running-admin", "--server", "https://"+in("get", "service", "running", "-o", "jsonpath={.spec.clusterIP}")+"/tenants/"+tenant)
	}
	apply := func(args []string, manifest string) {
		GinkgoHelper()
		file := filepath.Join(dir, "manifest.yaml")
		Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
		must(append(args, "apply", "-f", file)...)
	}
	ready := func(field string) func() string {
		return func() string {
			out, _ := kubectl("--namespace", namespace, "get", "controlplane", "running", "-o", `jsonpath={.status.conditions[?(@.type=="WorkloadsReady")].`+field+`}`)
			return out
		}
	}
	ask := func(tenant string, args ...string) func() string {
		return func() string {
			out, _ := kubectl(append(append(as(tenant), "exec"), args...)...)
			return out
		}
	}
	onHost := func() []string {
		GinkgoHelper()
		return strings.Fields(must("get", "pods", "-A", "-l", "workloads.tenantry.io/installation,app", "--field-selector=status.phase=Running", "-o", "name"))
	}

	BeforeAll(func() {
		var err error
		dir, err = os.MkdirTemp("", "tenantry-running-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		Expect(os.Mkdir(filepath.Join(dir, "volume"), 0o777)).To(Succeed()) // as a provisioner does
		Expect(os.Chmod(filepath.Join(dir, "volume"), 0o777)).To(Succeed()) // whatever the umask is
		must("apply", "-k", "config/default")
		must("apply", "-k", "config/workloads")
		DeferCleanup(func() {
			_, _ = kubectl("delete", "-k", "config/workloads", "--ignore-not-found", "--timeout=2m")
			_, _ = kubectl("delete", "-k", "config/default", "-l", "app.kubernetes.io/component=operator", "--ignore-not-found")
			_, _ = kubectl("delete", "clusterrolebinding/tenantry-workloads.tenantry-system.running", "storageclass/of-running", "persistentvolume/of-running", "--ignore-not-found", "--wait=false")
			_, _ = kubectl("--namespace", namespace, "delete", "rolebinding/running.syncer.tenantry.io", "lease/running.syncer.tenantry.io",
				"secret/running-authorities", "secret/running-keys", "persistentvolumeclaim/state-running-0", "--ignore-not-found", "--timeout=2m")
		})
		in("rollout", "status", "deployment/tenantry-operator", "--timeout=5m")
		enforcing.start()
		DeferCleanup(enforcing.stop)
		apply(nil, strings.ReplaceAll(runningControlPlane, "DIRECTORY", filepath.Join(dir, "volume")))
		in("wait", "--for=condition=Available", "--timeout=5m", "controlplane/running")
	})

	AfterEach(func() {
		onFailure()
		if CurrentSpecReport().Failed() {
			_, _ = kubectl("--namespace", namespace, "logs", "-l", "app.kubernetes.io/component=syncer", "--tail=50")
			_, _ = kubectl("describe", "pods", "-A", "-l", "workloads.tenantry.io/installation")
			_, _ = kubectl("get", "namespaces,networkpolicies", "-A", "-o", "yaml", "-l", "workloads.tenantry.io/installation")
		}
	})

	It("do not run before an administrator has allowed it, and say how", func() {
		Eventually(ready("message")).Should(And(ContainSubstring("CrashLoopBackOff"), ContainSubstring("kubectl create clusterrolebinding")))
		Expect(ready("reason")()).To(Equal("PodFailing"))
		_, commands, _ := strings.Cut(ready("message")(), "if it is to be, by: ")
		command("bash", "-c", commands)
		in("delete", "pods", "-l", "app.kubernetes.io/component=syncer")
		in("wait", "--for=condition=WorkloadsReady", "--timeout=5m", "controlplane/running")
	})

	It("run, and ask their space, also by its name", func() {
		must("--namespace", "tenantry-workloads", "rollout", "status", "deployment/dns", "--timeout=3m")
		for _, tenant := range []string{"acme", "globex"} {
			must("wait", "--for=condition=Ready", "--timeout=2m", "tenants.tenantry.io/"+tenant)
			apply(as(tenant), strings.ReplaceAll(named, "TENANT", tenant)+"\n---"+clientDeployment)
			must(append(as(tenant), "create", "rolebinding", "client", "--clusterrole=view", "--serviceaccount=default:default")...)
		}
		for _, tenant := range []string{"acme", "globex"} {
			must(append(as(tenant), "wait", "--for=condition=Ready", "pod/asks", "--timeout=3m")...)
			must(append(as(tenant), "rollout", "status", "deployment/client", "--timeout=3m")...)
			Expect(must(append(as(tenant), "logs", "deployment/client")...)).To(BeEmpty())
			Eventually(ask(tenant, "deployment/client", "--", "/tenantry", "/api/v1/namespaces/default/pods")).Should(And(
				HavePrefix("200 "), ContainSubstring(`"tenant":"`+tenant+`"`)))
			Eventually(ask(tenant, "asks", "--", "/tenantry", "-lookup", "host", "said")).Should(Equal(
				must(append(as(tenant), "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)))
			Eventually(ask(tenant, "asks", "--", "/tenantry", "-lookup", "host", "kubernetes.default.svc")).Should(Equal(
				in("get", "service", "running", "-o", "jsonpath={.spec.clusterIP}")))
			Expect(ask(tenant, "asks", "--", "/tenantry", "-ask", "said:80")()).To(Equal("said by " + tenant))
		}
		Expect(ask("acme", "deployment/client", "--", "/tenantry", "/tenants/globex/api/v1/namespaces/default/pods")()).To(HavePrefix("403 "))
	})

	It("find names by their first instruction", func() {
		names := []string{"first-0", "first-1", "first-2", "first-3", "first-4"}
		for _, name := range names {
			must(append(as("acme"), "run", name, "--image=localhost/pause:1", "--image-pull-policy=IfNotPresent", "--restart=Never", "--",
				"-lookup", "host", "said.default.svc.cluster.local.")...)
		}
		address := must(append(as("acme"), "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)
		for _, name := range names {
			Eventually(func() string {
				out, _ := kubectl(append(as("acme"), "logs", name)...)
				return out
			}).Should(Equal(address), name)
			must(append(as("acme"), "delete", "pod", name, "--now")...)
		}
	})

	It("are webhooks of their space, whatever its policies say, and of no other one", func() {
		apply(as("acme"), hookService)
		address := must(append(as("acme"), "get", "service", "hook", "-o", "jsonpath={.spec.clusterIP}")...)
		apply(as("acme"), strings.ReplaceAll(hookPod, "ADDRESS", address)+"---"+denyAll)
		must(append(as("acme"), "wait", "--for=condition=Ready", "pod/hook", "--timeout=3m")...)
		said := func() string {
			out, _ := kubectl(append(as("acme"), "logs", "hook")...)
			return out
		}
		Eventually(said).Should(ContainSubstring("END CERTIFICATE"))
		bundle := base64.StdEncoding.EncodeToString([]byte(said()))
		ask := func(tenant, where, name string) string {
			apply(as(tenant), strings.NewReplacer("WHERE", where, "BUNDLE", bundle).Replace(hookConfiguration))
			out, _ := kubectl(append(as(tenant), "create", "configmap", name, "--dry-run=server")...)
			return out
		}
		const byService = "service: {namespace: default, name: hook}"
		Eventually(ask).WithArguments("acme", byService, "bad").Should(ContainSubstring("bad is bad"))
		Expect(ask("acme", byService, "good")).To(ContainSubstring("configmap/good created"))

		connections := strings.Count(said(), "connected")
		Expect(connections).To(BeNumerically(">", 0))
		pod := must(append(as("acme"), "get", "pod", "hook", "-o", "jsonpath={.status.podIP}")...)
		for _, url := range []string{"https://" + address, "https://" + pod + ":8443"} {
			Expect(ask("globex", `url: "`+url+`/"`, "good")).To(ContainSubstring("could not be reached"), url)
		}
		Expect(strings.Count(said(), "connected")).To(Equal(connections), "globex gets no connection")
		for _, tenant := range []string{"acme", "globex"} {
			must(append(as(tenant), "delete", "validatingwebhookconfiguration", "hook")...)
		}
		must(append(as("acme"), "delete", "networkpolicy/deny", "pod/hook", "service/hook", "--timeout=1m")...)
	})

	It("are made by a ServiceAccount that has no Secret, and reaches nothing beyond", func() {
		syncer := []string{"--as", "system:serviceaccount:" + namespace + ":running.syncer.tenantry.io", "--as-group", "system:serviceaccounts", "--as-group", "system:serviceaccounts:" + namespace}
		must(append([]string{"get", "pods", "-A", "-o", "name"}, syncer...)...) // it is the one that has the rights
		const byRights, byPolicy = "cannot list resource", "ValidatingAdmissionPolicy 'tenantry-workloads'"
		for _, refused := range []struct {
			by   string
			args []string
		}{
			{byRights, []string{"get", "secrets", "--namespace", namespace}}, {byRights, []string{"get", "secrets", "--namespace", "tenantry-workloads"}},
			{byPolicy, []string{"create", "namespace", "mine"}}, {byPolicy, []string{"label", "namespace", "kube-system", "workloads.tenantry.io/installation=x"}},
		} {
			out, err := kubectl(append(refused.args, syncer...)...)
			Expect(err).To(HaveOccurred())
			Expect(out).To(ContainSubstring(refused.by))
		}
		Expect(in("get", "secrets", "-o", "name", "--field-selector", "type=kubernetes.io/service-account-token")).To(BeEmpty())
	})

	It("go on when the ControlPlane does not run them any more, and are looked after again", func() {
		before := onHost()
		Expect(before).NotTo(BeEmpty())
		in("patch", "controlplane", "running", "--type=json", "-p", `[{"op": "remove", "path": "/spec/workloads"}]`)
		Eventually(ready("reason")).Should(Equal("Stopped"))
		in("wait", "--for=delete", "--timeout=3m", "pod", "-l", "app.kubernetes.io/component=syncer")
		in("wait", "--for=condition=Progressing=false", "--timeout=5m", "controlplane/running")
		Expect(onHost()).To(ConsistOf(before))
		in("patch", "controlplane", "running", "--type=merge", "-p", `{"spec":{"workloads":{"localImages":"Trusted"}}}`)
		in("wait", "--for=condition=WorkloadsReady", "--timeout=5m", "controlplane/running")
		must(append(as("acme"), "delete", "deployment/client", "pod/asks", "--timeout=2m")...)
		Eventually(onHost).Should(HaveLen(len(before) - 2))
	})

	It("stay on the host without it, and go by its labels", func() {
		in("annotate", "controlplane", "running", "tenantry.io/confirm-deletion=true")
		in("delete", "controlplane", "running", "--cascade=foreground", "--timeout=3m")
		must("annotate", "tenants.tenantry.io", "acme", "globex", "tenantry.io/abandon=true")
		must("delete", "tenants.tenantry.io", "acme", "globex", "--timeout=2m")
		Expect(onHost()).NotTo(BeEmpty())
		must("delete", "namespaces", "-l", "workloads.tenantry.io/control-plane-namespace="+namespace+",workloads.tenantry.io/control-plane=running", "--timeout=3m")
		Expect(must("get", "namespaces", "-l", "workloads.tenantry.io/installation", "-o", "name")).To(BeEmpty())
	})
})

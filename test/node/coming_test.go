//go:build node

package node

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// waitingPod is not on the host before its gate has gone.
const waitingPod = `
apiVersion: v1
kind: Pod
metadata: {name: waiting, labels: {app: waiting}}
spec:
  terminationGracePeriodSeconds: 1
  schedulingGates: [{name: example.com/not-yet}]
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

// claimingSlice says that another tenant's pod is one of a Service.
const claimingSlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: claiming, labels: {kubernetes.io/service-name: said}}
addressType: IPv4
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
ports: [{port: 8080}]
`

// injecting is a policy of the host that adds a container and a toleration to pods with a label. The container sends
// nothing in others' names, which the policies of config/workloads ask of all.
const injecting = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: injecting}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  matchConditions: [{name: label, expression: "has(object.metadata.labels) && 'injected' in object.metadata.labels"}]
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        [JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "sidecar", image: "localhost/pause:1", imagePullPolicy: "IfNotPresent",
          securityContext: Object.spec.containers.securityContext{capabilities: Object.spec.containers.securityContext.capabilities{drop: ["NET_RAW"]}}}},
        JSONPatch{op: "add", path: "/spec/tolerations", value: [Object.spec.tolerations{key: "example.com/host", operator: "Exists"}]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: injecting}
spec: {policyName: injecting}
`

const injectedPod = `
apiVersion: v1
kind: Pod
metadata: {name: injected, labels: {app: injected, injected: ""}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

// comingAndGoing are the specs of what begins late, is in the way of the host's own rules, and ends for good.
func comingAndGoing(of func() *standalone) {
	var tenantry *standalone
	var acme []string

	// onHost returns a field of the pods of the host with a label.
	onHost := func(app, path string) func() string {
		return func() string { return must("get", "pods", "-A", "-l", "app="+app, "-o", "jsonpath={"+path+"}") }
	}

	BeforeAll(func() {
		tenantry = of()
		acme = tenantry.as("acme")
	})

	It("are not on the host before their scheduling gates have gone", func() {
		tenantry.apply("acme", waitingPod)
		DeferCleanup(func() { must(append(acme, "delete", "pod", "waiting", "--now")...) })
		Eventually(tenantry.get).WithArguments("acme", "pod/waiting", `.status.conditions[?(@.type=="PodScheduled")].reason`).Should(Equal("SchedulingGated"))
		Consistently(onHost("waiting", ".items[*].metadata.name")).WithTimeout(3 * time.Second).Should(BeEmpty())
		must(append(acme, "patch", "pod", "waiting", "--type=json", "-p", `[{"op":"remove","path":"/spec/schedulingGates/0"}]`)...)
		tenantry.ready("acme", "waiting")
		Expect(onHost("waiting", ".items[*].metadata.name")()).To(Equal("waiting"))
	})

	It("have what policies of the host add, of which their space shows nothing", func() {
		file := filepath.Join(tenantry.dir, "injecting.yaml")
		Expect(os.WriteFile(file, []byte(injecting), 0o600)).To(Succeed())
		must("apply", "-f", file)
		DeferCleanup(func() { must("delete", "-f", file) })
		Eventually(func() string { // it holds some time after it has been made
			out, _ := kubectl("run", "probe", "--image=i", "--labels=injected=", "--dry-run=server", "-o", "jsonpath={.spec.containers[*].name}")
			return out
		}).Should(Equal("probe sidecar"))
		tenantry.apply("acme", injectedPod)
		DeferCleanup(func() { must(append(acme, "delete", "pod", "injected", "--now")...) })
		tenantry.ready("acme", "injected")
		Expect(onHost("injected", ".items[*].status.containerStatuses[*].name")()).To(Equal("c sidecar"))
		Expect(onHost("injected", ".items[*].spec.tolerations[*].key")()).To(ContainSubstring("example.com/host"))
		Expect(tenantry.get("acme", "pod/injected", ".status.containerStatuses[*].name")).To(Equal("c"))
		Expect(must(append(acme, "get", "pod", "injected", "-o", "yaml")...)).NotTo(Or(ContainSubstring("sidecar"), ContainSubstring("example.com/host")))
		before := onHost("injected", ".items[*].metadata.uid")()
		must(append(acme, "label", "pod", "injected", "example.com/edition=2")...)
		Eventually(onHost("injected", `.items[*].metadata.labels.example\.com/edition`)).Should(Equal("2"))
		Expect(onHost("injected", ".items[*].metadata.uid")()).To(Equal(before))
		Expect(onHost("injected", ".items[*].spec.containers[*].name")()).To(Equal("c sidecar"))
	})

	It("are in another namespace of the host when theirs is made again at once", func() {
		namespace := func() string { return onHost("reborn", ".items[*].metadata.namespace")() }
		begin := func() {
			GinkgoHelper()
			must(append(acme, "create", "namespace", "reborn")...)
			must(append(acme, "--namespace", "reborn", "run", "reborn", "--labels=app=reborn", "--image=localhost/pause:1", "--image-pull-policy=IfNotPresent")...)
			must(append(acme, "--namespace", "reborn", "wait", "--for=condition=Ready", "pod/reborn", "--timeout=3m")...)
		}
		begin()
		first := namespace()
		must(append(acme, "--namespace", "reborn", "create", "secret", "generic", "old")...)
		must(append(acme, "delete", "namespace", "reborn", "--timeout=2m")...)
		begin()
		Expect(namespace()).NotTo(Or(BeEmpty(), ContainSubstring(first)))
		Expect(must(append(acme, "--namespace", "reborn", "get", "secrets", "-o", "name")...)).To(BeEmpty())
		Eventually(func() string { return must("get", "namespace", first, "--ignore-not-found", "-o", "name") }).WithTimeout(2 * time.Minute).Should(BeEmpty())
		must(append(acme, "delete", "namespace", "reborn", "--timeout=2m")...)
	})

	It("are gone with their tenant, and an event says when nothing is left", func() {
		tenantry.apply("initech", strings.ReplaceAll(twinPod, "twin", "last"))
		must(append(tenantry.as("initech"), "expose", "pod", "last", "--port=80", "--selector=app=last")...)
		tenantry.ready("initech", "last")
		uid := must("--kubeconfig", tenantry.admin(), "get", "tenant", "initech", "-o", "jsonpath={.metadata.uid}")
		there := func() string {
			return must("get", "namespaces", "-l", "workloads.tenantry.io/tenant-uid="+uid, "-o", "name")
		}
		Expect(there()).NotTo(BeEmpty())
		must("--kubeconfig", tenantry.admin(), "delete", "tenant", "initech", "--timeout=3m")
		Eventually(func() string {
			return must("--kubeconfig", tenantry.admin(), "get", "events.events.k8s.io", "--field-selector=reason=WorkloadsDeleted", "-o",
				`jsonpath={range .items[?(@.regarding.uid=="`+uid+`")]}{.note}{end}`)
		}).WithTimeout(3 * time.Minute).Should(Equal("of the tenant's namespaces on the host cluster (1), none is left"))
		Expect(there()).To(BeEmpty())
	})
}

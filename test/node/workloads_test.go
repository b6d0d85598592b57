//go:build node

package node

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// standalone is a Tenantry on the node's machine whose pods run on the node.
type standalone struct {
	dir, hostKubeconfig, port string
	// isolation is a flag that says how tenants are kept apart on the network.
	isolation string
	process   *exec.Cmd
	// log is what the process has said.
	log *gbytes.Buffer
}

func (s *standalone) binary() string {
	return filepath.Join(root, "bin", "linux-"+runtime.GOARCH, "tenantry")
}

// startOnHost starts one whose pods run on the host until the specs of a container end. If it forwards, its DNS asks
// what the host does. It has the port of kubernetes.default.svc, where pods find who has issued their tokens.
func startOnHost(isolation string, forwards bool) *standalone {
	GinkgoHelper()
	must("apply", "-k", "config/workloads")
	DeferCleanup(func() { _, _ = kubectl("delete", "-k", "config/workloads", "--ignore-not-found", "--timeout=2m") })
	if forwards {
		must("--namespace", "tenantry-workloads", "patch", "deployment", "dns", "--type=json", "-p",
			`[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--forward=`+outside()+`"}]`)
	}
	dir, err := os.MkdirTemp("", "tenantry-node-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	s := &standalone{dir: filepath.Join(dir, "state"), hostKubeconfig: filepath.Join(dir, "host.kubeconfig"), port: "443", isolation: isolation}
	syncerKubeconfig(s.hostKubeconfig)
	s.start()
	DeferCleanup(s.end)
	return s
}

// start runs it, and waits until it answers.
func (s *standalone) start() {
	GinkgoHelper()
	s.process = exec.Command(s.binary(), "up", "--dir", s.dir, "--bind-address", os.Getenv("NODE"), "--secure-port", s.port, "--host-kubeconfig", s.hostKubeconfig,
		s.isolation, "--trust-local-images")
	s.log = gbytes.NewBuffer()
	said := io.MultiWriter(GinkgoWriter, s.log)
	s.process.Stdout, s.process.Stderr = said, said
	Expect(s.process.Start()).To(Succeed())
	Eventually(func() error {
		_, err := kubectl("--kubeconfig", s.admin(), "get", "--raw", "/readyz")
		return err
	}).Should(Succeed())
}

// stop ends it as an administrator does.
func (s *standalone) stop() {
	GinkgoHelper()
	Expect(s.process.Process.Signal(syscall.SIGTERM)).To(Succeed())
	_ = s.process.Wait()
}

// kill ends it at once.
func (s *standalone) kill() {
	GinkgoHelper()
	Expect(s.process.Process.Kill()).To(Succeed())
	_ = s.process.Wait()
}

// end ends it, and deletes what it has made on the host: other specs look at what there is.
func (s *standalone) end() {
	GinkgoHelper()
	s.stop()
	must("delete", "namespaces", "--selector=workloads.tenantry.io/installation", "--timeout=3m")
}

func (s *standalone) admin() string { return filepath.Join(s.dir, "admin.kubeconfig") }

// as returns the flags of the administrator of a tenant, which is made if it is missing.
func (s *standalone) as(tenant string) []string {
	GinkgoHelper()
	file := filepath.Join(s.dir, tenant+".kubeconfig")
	if _, err := os.Stat(file); err == nil {
		return []string{"--kubeconfig", file}
	}
	manifest := filepath.Join(s.dir, tenant+".yaml")
	Expect(os.WriteFile(manifest, []byte(`{"apiVersion": "v1", "kind": "Tenant", "metadata": {"name": "`+tenant+`"}}`), 0o600)).To(Succeed())
	must("--kubeconfig", s.admin(), "create", "-f", manifest)
	must("--kubeconfig", s.admin(), "wait", "--for=condition=Ready", "tenant/"+tenant)
	content, err := exec.Command(s.binary(), "kubeconfig", tenant, "--dir", s.dir).Output()
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	return []string{"--kubeconfig", file}
}

// apply applies a manifest in a space.
func (s *standalone) apply(tenant, manifest string) {
	GinkgoHelper()
	file := filepath.Join(s.dir, "manifest.yaml")
	Expect(os.WriteFile(file, []byte(manifest), 0o600)).To(Succeed())
	must(append(s.as(tenant), "apply", "-f", file)...)
}

// get returns a field of an object of a space, empty if there is none.
func (s *standalone) get(tenant, object, path string) string {
	out, err := kubectl(append(s.as(tenant), "get", object, "-o", "jsonpath={"+path+"}")...)
	if err != nil {
		return ""
	}
	return out
}

// ready waits for a pod of a space.
func (s *standalone) ready(tenant, pod string) {
	GinkgoHelper()
	must(append(s.as(tenant), "wait", "--for=condition=Ready", "pod/"+pod, "--timeout=3m")...)
}

// onHost returns the UIDs and counted starts of all pods of its spaces on the host.
func (s *standalone) onHost() []string {
	GinkgoHelper()
	installation := must("--kubeconfig", s.admin(), "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
	return strings.Split(must("get", "pods", "-A", "-l", "workloads.tenantry.io/installation="+installation, "-o", podStates), "\n")
}

// post sends an object to a space, and returns the status of the answer, and when to try again.
func (s *standalone) post(tenant, path, object string) (status int, retryAfter string) {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", s.as(tenant)[1])
	Expect(err).NotTo(HaveOccurred())
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	answer, err := client.Post(config.Host+path, "application/yaml", strings.NewReader(object))
	Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	GinkgoWriter.Printf("POST %s: %s %v\n%s\n", path, answer.Status, answer.Header, said)
	return answer.StatusCode, answer.Header.Get("Retry-After")
}

// syncerKubeconfig writes a kubeconfig of the host's ServiceAccount syncer.
func syncerKubeconfig(file string) {
	GinkgoHelper()
	token, err := exec.Command("kubectl", "create", "token", "syncer", "--namespace", "tenantry-workloads").Output()
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.LoadFromFile(os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(string(token))}
	}
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
}

const webDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: c
        image: localhost/pause:1
        imagePullPolicy: IfNotPresent
        args: ["hello from $(TENANT) in $(NAMESPACE)"]
        env:
        - {name: TENANT, valueFrom: {configMapKeyRef: {name: who, key: tenant}}}
        - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
`

const saidDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: said}
spec:
  selector: {matchLabels: {app: said}}
  template:
    metadata: {labels: {app: said}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - {name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, args: ["-serve", ":8080", "said by TENANT"]}
---
apiVersion: v1
kind: Service
metadata: {name: said}
spec:
  selector: {app: said}
  ports: [{port: 80, targetPort: 8080}]
`

const copyingPod = `
apiVersion: v1
kind: Pod
metadata: {name: copying}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: c
    image: localhost/pause:1
    imagePullPolicy: IfNotPresent
    args: [-install, /bin/tar]
    env: [{name: PATH, value: /bin}]
    volumeMounts: [{name: bin, mountPath: /bin}]
  - {name: ear-true, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, args: [-hear], stdin: true}
  - {name: ear-false, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, args: [-hear], stdin: true}
  restartPolicy: Never
  volumes: [{name: bin, emptyDir: {}}]
`

const gatedPod = `
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  terminationGracePeriodSeconds: 1
  readinessGates: [{conditionType: example.com/go}]
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

const readingPod = `
apiVersion: v1
kind: Pod
metadata: {name: reading}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: localhost/pause:1
    imagePullPolicy: IfNotPresent
    volumeMounts: [{name: told, mountPath: /told}, {name: mounted, mountPath: /mounted}]
  volumes: [{name: told, configMap: {name: told}}, {name: mounted, secret: {secretName: mounted}}]
`

const fillingPod = `
apiVersion: v1
kind: Pod
metadata: {name: filling, labels: {app: filling}}
spec:
  terminationGracePeriodSeconds: 1
  priorityClassName: CLASS
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: CPU}}}]
`

const lonelyDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: lonely}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: lonely}}
  template:
    metadata: {labels: {app: lonely}}
    spec:
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: lonely}}}]
      containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

// nowhereDeployment has pods for which no node is large enough, as many as stay on a host nevertheless.
const nowhereDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: nowhere}
spec:
  replicas: 20
  selector: {matchLabels: {app: nowhere}}
  template:
    metadata: {labels: {app: nowhere}}
    spec:
      containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent, resources: {requests: {cpu: 1000}}}]
`

// nowhereService is one of many that select no pod.
const nowhereService = `
---
apiVersion: v1
kind: Service
metadata: {name: nowhere-%d}
spec: {selector: {app: nothing}, ports: [{port: 80}]}
`

// twinPod is of one name wherever it is.
const twinPod = `
apiVersion: v1
kind: Pod
metadata: {name: twin}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

const growingPod = `
apiVersion: v1
kind: Pod
metadata: {name: growing}
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: c
    image: localhost/pause:1
    imagePullPolicy: IfNotPresent
    resources: {requests: {cpu: 100m}, limits: {cpu: 100m}}
`

const clientDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: client}
spec:
  selector: {matchLabels: {app: client}}
  template:
    metadata: {labels: {app: client}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - {name: c, image: "localhost/client:1", imagePullPolicy: IfNotPresent, args: ["-stay"]}
`

// templatesOfPods is one object of each kind that is a pod, or has a template of pods, but for DaemonSets, which are
// refused whatever they have.
const templatesOfPods = `
{apiVersion: v1, kind: Pod, metadata: {name: refused}, spec: {FIELDS}}
---
{apiVersion: v1, kind: PodTemplate, metadata: {name: refused}, template: {metadata: {labels: {app: refused}}, spec: {FIELDS}}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: refused}, spec: {selector: {app: refused}, template: {metadata: {labels: {app: refused}}, spec: {FIELDS}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: refused}, spec: {selector: {matchLabels: {app: refused}}, template: {metadata: {labels: {app: refused}}, spec: {FIELDS}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: refused}, spec: {selector: {matchLabels: {app: refused}}, template: {metadata: {labels: {app: refused}}, spec: {FIELDS}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: refused}, spec: {serviceName: s, selector: {matchLabels: {app: refused}}, template: {metadata: {labels: {app: refused}}, spec: {FIELDS}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: refused}, spec: {template: {spec: {restartPolicy: Never, FIELDS}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: refused}, spec: {schedule: "@daily", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, FIELDS}}}}}}
`

// agingPod has a token of the shortest life that there is, ten minutes, where every pod has its own.
const agingPod = `
apiVersion: v1
kind: Pod
metadata: {name: aging}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  containers:
  - name: c
    image: localhost/client:1
    imagePullPolicy: IfNotPresent
    args: ["-stay"]
    volumeMounts: [{name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}]
  volumes:
  - name: token
    projected:
      sources:
      - serviceAccountToken: {path: token, expirationSeconds: 600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
`

// asksItsSpace checks that a pod of a tenant reaches the API of its space, by nothing but what every pod has, and that
// nobody else takes its token.
func (s *standalone) asksItsSpace(tenant, other string) {
	GinkgoHelper()
	as := s.as(tenant)
	file := filepath.Join(s.dir, "client.yaml")
	Expect(os.WriteFile(file, []byte(clientDeployment), 0o600)).To(Succeed())
	must(append(as, "apply", "-f", file)...)
	must(append(as, "create", "rolebinding", "client", "--clusterrole=view", "--serviceaccount=default:default")...)
	must(append(as, "rollout", "status", "deployment/client", "--timeout=3m")...)
	ask := func(path string) string {
		out, _ := kubectl(append(as, "exec", "deployment/client", "--", "/tenantry", path)...)
		return out
	}
	const pods = "/api/v1/namespaces/default/pods"
	Eventually(ask).WithArguments(pods).Should(And(HavePrefix("200 "), ContainSubstring(`"tenant":"`+tenant+`"`)))
	Expect(ask(pods)).NotTo(ContainSubstring(`"tenant":"` + other + `"`))
	Expect(ask("/api/v1/namespaces/kube-system/secrets")).To(HavePrefix("403 "))
	Expect(ask("/tenants/" + other + pods)).To(HavePrefix("403 "))
	Expect(ask("/tenants/system" + pods)).To(HavePrefix("403 "))
	out, err := kubectl("get", "pods", "--token", s.tokenIn(tenant))
	Expect(err).To(HaveOccurred())
	Expect(out).To(ContainSubstring("Unauthorized"), "the host")
}

// tokenIn returns the token that a tenant's client has.
func (s *standalone) tokenIn(tenant string) string {
	GinkgoHelper()
	return must(append(s.as(tenant), "exec", "deployment/client", "--", "/tenantry", "-token")...)
}

// hears tells a command a line until it answers, and then to end. A container runtime may pass on the first line before
// it passes on what is answered. Its input stays open until then: whoever attaches to a container has none of its
// output after the end of their input.
func hears(args ...string) {
	GinkgoHelper()
	command := exec.Command("kubectl", args...)
	said, err := command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	answer := gbytes.NewBuffer()
	command.Stdout, command.Stderr = answer, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() { _ = command.Process.Kill() })
	Eventually(func(g Gomega) {
		_, err := io.WriteString(said, "it\n")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer).To(gbytes.Say("heard it"))
	}).Should(Succeed())
	_, err = io.WriteString(said, "bye\n")
	Expect(err).NotTo(HaveOccurred())
	Expect(said.Close()).To(Succeed())
	Expect(command.Wait()).To(Succeed())
}

const laterDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: later}
spec:
  selector: {matchLabels: {app: later}}
  template:
    metadata: {labels: {app: later}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "localhost/pause:1", imagePullPolicy: IfNotPresent}]
`

const laterService = `
apiVersion: v1
kind: Service
metadata: {name: later}
spec: {selector: {app: later}, ports: [{port: 80}]}
`

// attachesAndCopies attaches to the container of a pod that is for one protocol, and copies into and out of another.
func (s *standalone) attachesAndCopies(tenant, webSockets string) {
	GinkgoHelper()
	as, ear := s.as(tenant), "ear-"+webSockets
	Eventually(s.get).WithArguments(tenant, "pod/copying", `.status.containerStatuses[?(@.name=="`+ear+`")].state.running.startedAt`).ShouldNot(BeEmpty())
	hears(append(as, "attach", "copying", "-c", ear, "--stdin")...)
	there, back, said := filepath.Join(s.dir, "there"), filepath.Join(s.dir, "back"), "of "+tenant+" by "+webSockets
	Expect(os.WriteFile(there, []byte(said), 0o600)).To(Succeed())
	must(append(as, "cp", "-c", "c", there, "copying:/bin/copied")...)
	Expect(must(append(as, "exec", "copying", "-c", "c", "--", "/tenantry", "-read", "/bin/copied")...)).To(Equal(said))
	must(append(as, "cp", "-c", "c", "copying:/bin/copied", back)...)
	Expect(os.ReadFile(back)).To(Equal([]byte(said)))
}

var _ = Describe("workloads on a real node", Ordered, func() {
	var tenantry *standalone

	// output returns what a command prints, and its error as well.
	output := func(tenant string, args ...string) func() string {
		return func() string {
			out, _ := kubectl(append(tenantry.as(tenant), args...)...)
			return out
		}
	}

	// A pod gets older while the specs run, whose token it was first, and since when it runs.
	var agingToken, agingSince string
	agingStarted := func() string {
		return must(append(tenantry.as("acme"), "get", "pod", "aging", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[*].containerID}")...)
	}

	BeforeAll(func() {
		must("label", "node", "node", "topology.kubernetes.io/zone=here")
		DeferCleanup(func() { must("label", "node", "node", "topology.kubernetes.io/zone-") })
		tenantry = startOnHost("--network-isolation=Unenforced", false)
		tenantry.apply("acme", agingPod)
		tenantry.ready("acme", "aging")
		agingToken, agingSince = must(append(tenantry.as("acme"), "exec", "aging", "--", "/tenantry", "-token")...), agingStarted()
	})

	AfterEach(func() {
		if CurrentSpecReport().Failed() {
			_, _ = kubectl("describe", "pods", "-A", "-l", "workloads.tenantry.io/installation")
			_, _ = kubectl("--kubeconfig", filepath.Join(tenantry.dir, "acme.kubeconfig"), "describe", "pods")
		}
	})

	It("run from a Deployment in a space, and show their logs", func() {
		for _, tenant := range []string{"acme", "globex"} {
			as := tenantry.as(tenant)
			must(append(as, "create", "configmap", "who", "--from-literal=tenant="+tenant)...)
			file := filepath.Join(tenantry.dir, "web.yaml")
			Expect(os.WriteFile(file, []byte(webDeployment), 0o600)).To(Succeed())
			must(append(as, "create", "-f", file)...)
			must(append(as, "rollout", "status", "deployment/web", "--timeout=3m")...)
			Eventually(output(tenant, "logs", "deployment/web", "-c", "c")).Should(Equal("hello from " + tenant + " in default"))
		}
	})

	It("run on nodes that the system space shows, and no other one", func() {
		Eventually(func() string {
			return must("--kubeconfig", tenantry.admin(), "get", "nodes", "-o", `jsonpath={.items[*].metadata.name} {.items[*].metadata.labels.topology\.kubernetes\.io/zone}`)
		}).Should(Equal("node here"))
		Expect(must("--kubeconfig", tenantry.admin(), "get", "node", "node", "-o", "yaml")).NotTo(ContainSubstring(os.Getenv("NODE")))
		Expect(output("acme", "get", "nodes")()).To(ContainSubstring("nodes belong to the system space"))
	})

	It("run commands for their tenant", func() {
		// Whatever an image has is called so in it.
		Expect(must(append(tenantry.as("acme"), "exec", "deployment/web", "-c", "c", "--", "/tenantry", "-say", "hi")...)).To(Equal("hi"))
	})

	It("show the logs of what has ended, and of what was before", func() {
		as := tenantry.as("acme")
		for name, policy := range map[string]string{"once": "Never", "again": "Always"} {
			must(append(as, "run", name, "--image=localhost/pause:1", "--image-pull-policy=IfNotPresent", "--restart="+policy, "--", "-say", "said", name)...)
			DeferCleanup(func() { must(append(as, "delete", "pod", name, "--now")...) })
		}
		Eventually(output("acme", "logs", "--follow", "once")).Should(Equal("said once"))
		Eventually(output("acme", "get", "pod", "once", "-o", "jsonpath={.status.phase}")).Should(Equal("Succeeded"))
		Expect(output("acme", "logs", "--tail=1", "--timestamps", "once")()).To(HaveSuffix(" said once"))
		Eventually(output("acme", "logs", "--previous", "again")).Should(Equal("said again"))
	})

	It("are not the tenant's that has one of the same name, nor anybody's who forges where they are", func() {
		as := tenantry.as("globex")
		pod := strings.TrimPrefix(must(append(as, "get", "pods", "-l", "app=web", "-o", "name")...), "pod/")
		Expect(output("globex", "patch", "pod", pod, "--subresource=status", "--type=merge", "-p", `{"status":{"podIP":"10.244.0.1","podIPs":[{"ip":"10.244.0.1"}]}}`)()).
			To(ContainSubstring("status is what the host cluster says of the pod"))
		Expect(output("globex", "logs", pod)()).To(Equal("hello from globex in default"))
		theirs := strings.TrimPrefix(must(append(tenantry.as("acme"), "get", "pods", "-l", "app=web", "-o", "name")...), "pod/")
		Expect(output("globex", "logs", theirs)()).To(ContainSubstring("not found"))
	})

	It("answer by the address of a Service, which it has as soon as it is made", func() {
		for _, tenant := range []string{"acme", "globex"} {
			as := tenantry.as(tenant)
			deployment, service, _ := strings.Cut(strings.ReplaceAll(saidDeployment, "TENANT", tenant), "---")
			tenantry.apply(tenant, deployment)
			must(append(as, "rollout", "status", "deployment/said", "--timeout=3m")...)
			file := filepath.Join(tenantry.dir, "said.yaml")
			Expect(os.WriteFile(file, []byte(service), 0o600)).To(Succeed())
			must(append(as, "apply", "--server-side", "-f", file)...)
			address := must(append(as, "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)
			Expect(must(append(as, "exec", "deployment/web", "-c", "c", "--", "/tenantry", "-ask", address+":80", "2s")...)).To(Equal("said by " + tenant))
			Expect(must("get", "services", "-A", "-l", "workloads.tenantry.io/installation", "-o", "jsonpath={.items[*].spec.clusterIP}")).To(ContainSubstring(address))
			Eventually(output(tenant, "get", "endpointslices", "-l", "kubernetes.io/service-name=said", "-o", "jsonpath={.items[*].endpoints[*].addresses[0]}")).
				Should(Equal(must(append(as, "get", "pods", "-l", "app=said", "-o", "jsonpath={.items[0].status.podIP}")...)))
			Eventually(output(tenant, "get", "endpointslices", "-l", "kubernetes.io/service-name=said", "-o", "jsonpath={.items[*].endpoints[*].zone}")).Should(Equal("here"))
			must(append(as, "apply", "--server-side", "-f", file)...)
			Expect(must(append(as, "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)).To(Equal(address))
		}
		theirs := must(append(tenantry.as("acme"), "get", "pods", "-l", "app=said", "-o", "jsonpath={.items[0].status.podIP}")...)
		tenantry.apply("globex", strings.ReplaceAll(claimingSlice, "ADDRESS", theirs)) // it is the space's alone
		globex := tenantry.as("globex")
		address := must(append(globex, "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)
		Consistently(func() string {
			return must(append(globex, "exec", "deployment/web", "-c", "c", "--", "/tenantry", "-ask", address+":80", "2s")...)
		}).WithTimeout(5 * time.Second).Should(Equal("said by globex"))
		own := must(append(globex, "get", "pods", "-l", "app=said", "-o", "jsonpath={.items[0].status.podIP}")...)
		home := must("get", "pods", "-A", "-l", "app=said", "-o", `jsonpath={.items[?(@.status.podIP=="`+own+`")].metadata.namespace}`)
		Expect(strings.Fields(must("get", "endpointslices", "--namespace", home, "-o", "jsonpath={.items[*].endpoints[*].addresses[*]}"))).To(And(ContainElement(own), Not(ContainElement(theirs))))
		must(append(globex, "delete", "endpointslice", "claiming")...)
		Expect(output("acme", "patch", "service", "said", "-p", `{"spec":{"externalIPs":["8.8.8.8"]}}`)()).
			To(And(ContainSubstring("forbidden: SpacePolicy"), ContainSubstring("spec.externalIPs")))
	})

	It("are connected to by WebSocket and by SPDY", func() {
		tenantry.apply("acme", copyingPod)
		DeferCleanup(func() { must(append(tenantry.as("acme"), "delete", "pod", "copying", "--now")...) })
		for _, webSockets := range []string{"true", "false"} {
			GinkgoT().Setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", webSockets)
			GinkgoT().Setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", webSockets)
			Expect(must(append(tenantry.as("acme"), "exec", "deployment/web", "-c", "c", "--", "/tenantry", "-say", "hi")...)).To(Equal("hi"))
			forward := exec.Command("kubectl", append(tenantry.as("acme"), "port-forward", "deployment/said", "7480:8080")...)
			Expect(forward.Start()).To(Succeed())
			Eventually(func() (string, error) {
				conn, err := net.Dial("tcp", "127.0.0.1:7480")
				if err != nil {
					return "", err
				}
				said, err := io.ReadAll(conn)
				return string(said), err
			}).Should(Equal("said by acme\n"))
			Expect(forward.Process.Kill()).To(Succeed())
			_ = forward.Wait()
			tenantry.attachesAndCopies("acme", webSockets)
		}
	})

	It("are looked into by ephemeral containers, which are nobody else's", func() {
		as := tenantry.as("acme")
		pod := strings.TrimPrefix(must(append(as, "get", "pods", "-l", "app=web", "-o", "name")...), "pod/")
		debug := func(container, profile string, args ...string) []string {
			return slices.Concat(as, []string{"debug", pod, "--image=localhost/pause:1", "--image-pull-policy=IfNotPresent", "--target=c",
				"--container=" + container, "--profile=" + profile}, args)
		}
		hears(debug("ear", "baseline", "--stdin", "--", "/tenantry", "-hear")...)
		must(debug("looking", "baseline", "--", "/tenantry", "looks")...)
		Eventually(output("acme", "get", "pod", pod, "-o", `jsonpath={.status.ephemeralContainerStatuses[?(@.name=="looking")].state.running.startedAt}`)).ShouldNot(BeEmpty())
		Eventually(output("acme", "logs", pod, "-c", "looking")).Should(Equal("looks"))
		Expect(must(append(as, "exec", pod, "-c", "looking", "--", "/tenantry", "-say", "hi")...)).To(Equal("hi"))
		Expect(must(append(as, "exec", pod, "-c", "looking", "--", "/tenantry", "-read", "/proc/1/cmdline")...)).To(ContainSubstring("hello from acme"), "the processes of its target")
		out, err := kubectl(debug("root", "sysadmin", "--", "/tenantry")...)
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("Pod Security level baseline"))

		onHost := strings.Fields(must("get", "pods", "-A", "-l", "app=web", "-o", `jsonpath={range .items[?(@.metadata.name=="`+pod+`")]}{.metadata.namespace}{end}`))
		must("debug", "-n", onHost[0], pod, "--image=localhost/pause:1", "--image-pull-policy=IfNotPresent", "--container=admins", "--profile=baseline", "--", "/tenantry")
		Eventually(func() string {
			return must("get", "pod", "-n", onHost[0], pod, "-o", `jsonpath={.status.ephemeralContainerStatuses[?(@.name=="admins")].state.running.startedAt}`)
		}).ShouldNot(BeEmpty())
		Expect(output("acme", "exec", pod, "-c", "admins", "--", "/tenantry", "-say", "hi")()).To(ContainSubstring("container admins is not valid for pod"))
		Expect(output("acme", "get", "pod", pod, "-o", "yaml")()).NotTo(ContainSubstring("admins"))
	})

	It("are resized in place, and say how far that is", func() {
		as := tenantry.as("acme")
		file := filepath.Join(tenantry.dir, "growing.yaml")
		Expect(os.WriteFile(file, []byte(growingPod), 0o600)).To(Succeed())
		must(append(as, "create", "-f", file)...)
		DeferCleanup(func() { must(append(as, "delete", "-f", file, "--now")...) })
		must(append(as, "wait", "--for=condition=Ready", "pod/growing", "--timeout=2m")...)
		resize := func(cpu string) {
			GinkgoHelper()
			must(append(as, "patch", "pod", "growing", "--subresource=resize", "-p",
				`{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"`+cpu+`"},"limits":{"cpu":"`+cpu+`"}}}]}}`)...)
		}
		// quota is what the container itself sees of its control group, in microseconds of each 100 ms, of version 1 or 2.
		quota := func() string {
			for _, name := range []string{"/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us"} {
				if out, err := kubectl(append(as, "exec", "growing", "--", "/tenantry", "-read", name)...); err == nil {
					return strings.Fields(out)[0]
				}
			}
			return ""
		}
		pending := output("acme", "get", "pod", "growing", "-o", `jsonpath={.status.conditions[?(@.type=="PodResizePending")].reason}: {.status.conditions[?(@.type=="PodResizePending")].message}`)
		generations := output("acme", "get", "pod", "growing", "-o", "jsonpath={.metadata.generation} {.status.observedGeneration}")
		Eventually(generations).Should(Equal("1 1"))
		Expect(quota()).To(Equal("10000"))
		resize("200m")
		Eventually(quota).Should(Equal("20000"))
		Eventually(output("acme", "get", "pod", "growing", "-o", "jsonpath={.status.containerStatuses[0].resources.limits.cpu} {.status.containerStatuses[0].allocatedResources.cpu}")).Should(Equal("200m 200m"))
		Eventually(generations).Should(Equal("2 2"))
		Expect(must(append(as, "get", "pod", "growing", "-o", "jsonpath={.status.containerStatuses[0].restartCount}")...)).To(Equal("0"))

		resize("1000")
		Eventually(pending).Should(And(HavePrefix("RefusedByHost: "), ContainSubstring("cpu, requested: "), Not(ContainSubstring("allocatable: "))))
		resize("150m")
		Eventually(quota).Should(Equal("15000"))
		Eventually(pending).Should(Equal(":"))
		Eventually(generations).Should(Equal("4 4"))

		resize(must("get", "node", "node", "-o", "jsonpath={.status.allocatable.cpu}")) // of which others have some
		Eventually(pending).Should(And(HavePrefix("Deferred: "), ContainSubstring("cpu, requested: "), Not(ContainSubstring("used"))))
		Eventually(generations).Should(Equal("5 5"))
		resize("100m")
		Eventually(quota).Should(Equal("10000"))
		Eventually(pending).Should(Equal(":"))
		Eventually(generations).Should(Equal("6 6"))
		Eventually(output("acme", "get", "pod", "growing", "-o", `jsonpath={.metadata.annotations.workloads\.tenantry\.io/held}`)).Should(Equal(`{"generation":6}`))
	})

	It("are ready when their gates are open in the space", func() {
		tenantry.apply("acme", gatedPod)
		DeferCleanup(func() { must(append(tenantry.as("acme"), "delete", "pod", "gated", "--now")...) })
		must(append(tenantry.as("acme"), "wait", "--for=condition=ContainersReady", "pod/gated", "--timeout=3m")...)
		Expect(tenantry.get("acme", "pod/gated", `.status.conditions[?(@.type=="Ready")].status`)).To(Equal("False"))
		must(append(tenantry.as("acme"), "patch", "pod", "gated", "--subresource=status", "-p", `{"status":{"conditions":[{"type":"example.com/go","status":"True"}]}}`)...)
		tenantry.ready("acme", "gated")
	})

	It("see what is edited, and leave what they do not name in the space", func() {
		as := tenantry.as("acme")
		must(append(as, "create", "configmap", "told", "--from-literal=said=one")...)
		for _, name := range []string{"mounted", "idle"} {
			must(append(as, "create", "secret", "generic", name, "--from-literal=said="+name)...)
		}
		tenantry.apply("acme", readingPod)
		DeferCleanup(func() {
			must(append(as, "delete", "pod/reading", "configmap/told", "secret/mounted", "secret/idle", "--now")...)
		})
		tenantry.ready("acme", "reading")
		Expect(output("acme", "exec", "reading", "--", "/tenantry", "-read", "/told/said")()).To(Equal("one"))
		must(append(as, "patch", "configmap", "told", "-p", `{"data":{"said":"two"}}`)...)
		Eventually(output("acme", "exec", "reading", "--", "/tenantry", "-read", "/told/said")).Should(Equal("two"))
		Expect(output("acme", "exec", "reading", "--", "/tenantry", "-read", "/mounted/said")()).To(Equal("mounted"))
		// Names are of files, and values as everybody reads Secrets.
		onHost := must("get", "secrets", "-A", "-o", `jsonpath={range .items[*]}{.metadata.name} {.data}{"\n"}{end}`)
		Expect(onHost).To(And(ContainSubstring("tn-mounted"), ContainSubstring(base64.StdEncoding.EncodeToString([]byte("mounted")))))
		Expect(onHost).NotTo(Or(ContainSubstring("idle"), ContainSubstring(base64.StdEncoding.EncodeToString([]byte("idle")))))
	})

	It("preempt nobody's, whatever their priority is in the space", func() {
		free := resource.MustParse(must("get", "node", "node", "-o", "jsonpath={.status.allocatable.cpu}"))
		for asked := range strings.FieldsSeq(must("get", "pods", "-A", "--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].spec.containers[*].resources.requests.cpu}")) {
			free.Sub(resource.MustParse(asked))
		}
		asking := func(class string, percent int64) string {
			return strings.NewReplacer("CLASS", class, "CPU", strconv.FormatInt(free.MilliValue()*percent/100, 10)+"m").Replace(fillingPod)
		}
		must(append(tenantry.as("acme"), "create", "priorityclass", "huge", "--value=1000000000")...)
		onHost := func(field string) string { return must("get", "pods", "-A", "-l", "app=filling", "-o", field) }
		tenantry.apply("globex", asking(`""`, 70))
		DeferCleanup(func() { must(append(tenantry.as("globex"), "delete", "pod", "filling", "--now")...) })
		tenantry.ready("globex", "filling")
		before := onHost(podStates)
		tenantry.apply("acme", asking("huge", 50))
		DeferCleanup(func() {
			must(append(tenantry.as("acme"), "delete", "pod/filling", "priorityclass/huge", "--now")...)
		})
		Expect(tenantry.get("acme", "pod/filling", ".spec.priority")).To(Equal("1000000000"))
		Eventually(tenantry.get).WithArguments("acme", "pod/filling", `.status.conditions[?(@.type=="PodScheduled")].reason`).Should(Equal("Unschedulable"))
		Consistently(func(g Gomega) {
			g.Expect(strings.Split(onHost(podStates), "\n")).To(ContainElement(before))
			g.Expect(onHost("jsonpath={.items[*].metadata.deletionTimestamp}")).To(BeEmpty())
		}).WithTimeout(5 * time.Second).Should(Succeed())
		Expect(tenantry.get("acme", "pod/filling", ".status.phase")).To(Equal("Pending"))
	})

	It("keep away from their tenant's pods of the same labels, and from no others", func() {
		for tenant, replicas := range map[string]string{"acme": "2", "globex": "1"} {
			tenantry.apply(tenant, strings.ReplaceAll(lonelyDeployment, "REPLICAS", replicas))
			DeferCleanup(func() { must(append(tenantry.as(tenant), "delete", "deployment", "lonely")...) })
		}
		lonely := func(tenant string) string {
			return output(tenant, "get", "pods", "-l", "app=lonely", "--sort-by=.status.phase", "-o", `jsonpath={range .items[*]}{.status.phase} {.status.conditions[?(@.type=="PodScheduled")].reason}{"\n"}{end}`)()
		}
		Eventually(lonely).WithArguments("acme").Should(Equal("Pending Unschedulable\nRunning"))
		Eventually(lonely).WithArguments("globex").Should(Equal("Running"))
		Expect(lonely("acme")).To(Equal("Pending Unschedulable\nRunning"))
	})

	It("show what they use to their tenant, and are scaled by it", func() {
		pods := map[string]string{}
		for _, tenant := range []string{"acme", "globex"} {
			pods[tenant] = strings.TrimPrefix(must(append(tenantry.as(tenant), "get", "pods", "-l", "app=web", "-o", "name")...), "pod/")
		}
		Expect(output("acme", "top", "pods")()).To(ContainSubstring("an administrator of it is to install metrics-server"))
		startMetricsServer()
		for tenant, pod := range pods {
			Eventually(output(tenant, "top", "pods", "-A", "--no-headers", "-l", "app=web")).WithTimeout(2 * time.Minute).Should(MatchRegexp(`^default +%s +\d+m +\d+Mi$`, pod))
			Expect(output(tenant, "top", "pod", pod, "--containers", "--no-headers")()).To(And(MatchRegexp(`(?m)^%s +c +\d+m +\d+Mi`, pod), Not(ContainSubstring("admins"))))
		}
		Expect(output("globex", "top", "pod", pods["acme"])()).To(ContainSubstring("not found"))
		Expect(output("acme", "top", "nodes")()).To(ContainSubstring("nodes belong to the system space"))

		as := tenantry.as("acme")
		file := filepath.Join(tenantry.dir, "working.yaml")
		Expect(os.WriteFile(file, []byte(workingDeployment), 0o600)).To(Succeed())
		must(append(as, "create", "-f", file)...)
		DeferCleanup(func() { must(append(as, "delete", "-f", file)...) })
		Eventually(output("acme", "get", "deployment", "working", "-o", "jsonpath={.status.readyReplicas}")).WithTimeout(5 * time.Minute).Should(Equal("2"))
	})

	Context("that store something", func() { storing(func() *standalone { return tenantry }) })

	Context("that come and go", func() { comingAndGoing(func() *standalone { return tenantry }) })

	It("ask their space, and no other and no host, by what every pod has", func() {
		tenantry.asksItsSpace("acme", "globex")
		Expect(must("get", "pods", "-A", "-l", "app=client", "-o", `jsonpath={.items[0].spec.containers[0].env[?(@.name=="SAID_SERVICE_HOST")].value}`)).
			To(Equal(must(append(tenantry.as("acme"), "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)))
	})

	It("are refused with the field and the rule, and so is every template of pods", func() {
		for fields, says := range map[string]string{
			"hostNetwork: true, containers: [{name: c, image: i}]":                          ".hostNetwork",
			"volumes: [{name: v, hostPath: {path: /}}], containers: [{name: c, image: i}]":  ".volumes[0].hostPath",
			"containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}]}]": ".containers[0].ports[0].hostPort",
			"containers: [{name: c, image: i, securityContext: {privileged: true}}]":        ": Forbidden: it violates the Pod Security level baseline",
		} {
			file := filepath.Join(tenantry.dir, "refused.yaml")
			Expect(os.WriteFile(file, []byte(strings.ReplaceAll(templatesOfPods, "FIELDS", fields)), 0o600)).To(Succeed())
			out := output("acme", "create", "-f", file)()
			for resource, path := range map[string]string{
				"pods": "spec", "podtemplates": "template.spec", "replicationcontrollers": "spec.template.spec", "replicasets.apps": "spec.template.spec",
				"deployments.apps": "spec.template.spec", "statefulsets.apps": "spec.template.spec",
				"jobs.batch": "spec.template.spec", "cronjobs.batch": "spec.jobTemplate.spec.template.spec",
			} {
				Expect(out).To(MatchRegexp(`%s "refused" is forbidden: SpacePolicy.*%s`, resource, regexp.QuoteMeta(path+says)))
			}
		}
	})

	It("go on while Tenantry is killed, and are the same afterwards", func() {
		before := tenantry.onHost()
		address := must(append(tenantry.as("acme"), "get", "service", "said", "-o", "jsonpath={.spec.clusterIP}")...)
		asker := strings.Fields(must("get", "pods", "-A", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.namespace} {.items[0].metadata.name}"))
		tenantry.kill()
		Expect(must("exec", "-n", asker[0], asker[1], "-c", "c", "--", "/tenantry", "-ask", address+":80")).To(Equal("said by acme"))
		tenantry.start()
		Eventually(output("acme", "logs", "deployment/web", "-c", "c")).Should(Equal("hello from acme in default"))
		must(append(tenantry.as("acme"), "scale", "deployment/web", "--replicas=2")...)
		must(append(tenantry.as("acme"), "rollout", "status", "deployment/web", "--timeout=3m")...)
		Expect(tenantry.onHost()).To(And(HaveLen(7), ContainElements(before)))
	})

	It("go on while the API of the host is away, and follow their space when it is back", func() {
		before := tenantry.onHost()
		open := closeAPI()
		Expect(must(append(tenantry.as("acme"), "get", "pods", "-o", "name")...)).To(ContainSubstring("pod/web-"))
		status, later := tenantry.post("acme", "/api/v1/namespaces/default/services", laterService)
		Expect(status).To(Equal(http.StatusServiceUnavailable))
		Expect(strconv.Atoi(later)).To(BeNumerically(">", 0), "Retry-After")
		tenantry.apply("acme", laterDeployment)
		Eventually(tenantry.get).WithArguments("acme", "deployment/later", ".status.unavailableReplicas").Should(Equal("1"))
		Eventually(tenantry.log).Should(gbytes.Say("Pods do not run on the host cluster.*the lease was lost"))
		open()
		must(append(tenantry.as("acme"), "rollout", "status", "deployment/later", "--timeout=3m")...)
		status, _ = tenantry.post("acme", "/api/v1/namespaces/default/services", laterService)
		Expect(status).To(Equal(http.StatusCreated))
		Expect(tenantry.onHost()).To(And(HaveLen(len(before)+1), ContainElements(before)))
		must(append(tenantry.as("acme"), "delete", "deployment/later", "service/later")...)
	})

	It("have another token in time, without a restart", func() {
		as := tenantry.as("acme")
		Eventually(func() string { return must(append(as, "exec", "aging", "--", "/tenantry", "-token")...) }).WithTimeout(11*time.Minute).WithPolling(5*time.Second).
			ShouldNot(Equal(agingToken), "the token that the pod has begun with")
		Expect(must(append(as, "exec", "aging", "--", "/tenantry", "/api/v1/namespaces/default/pods")...)).To(HavePrefix("200 "))
		Expect(agingStarted()).To(Equal(agingSince))
		must(append(as, "delete", "pod", "aging")...)
	})

	It("are evicted from the node as their tenant's budget allows, and replaced", func() {
		as := tenantry.as("acme")
		must(append(as, "scale", "deployment/web", "--replicas=1")...)
		must(append(as, "create", "poddisruptionbudget", "web", "--selector=app=web", "--max-unavailable=0")...)
		onHost := func() string {
			return must("get", "poddisruptionbudgets", "-A", "-l", "workloads.tenantry.io/installation", "-o", "jsonpath={.items[*].spec.minAvailable}/{.items[*].status.currentHealthy}")
		}
		Eventually(onHost).Should(Equal("1/1"))
		drain := func() (string, error) {
			return kubectl("drain", "node", "--pod-selector=app=web", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=10s")
		}
		DeferCleanup(func() { must("uncordon", "node") })
		var before string
		Eventually(func() string {
			before = must(append(as, "get", "pods", "-l", "app=web", "-o", "name")...)
			return before
		}).ShouldNot(ContainSubstring("\n"), "one is left")
		out, err := drain()
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("would violate the pod's disruption budget"))
		Expect(must(append(as, "get", "pods", "-l", "app=web", "-o", "name")...)).To(Equal(before))
		must(append(as, "delete", "poddisruptionbudget", "web")...)
		Eventually(onHost).Should(Equal("/"))

		watching := exec.Command("kubectl", append(as, "get", before, "--watch", "-o", `jsonpath={.status.conditions[?(@.type=="DisruptionTarget")].reason}{"\n"}`)...)
		seen := gbytes.NewBuffer()
		watching.Stdout = seen
		Expect(watching.Start()).To(Succeed())
		DeferCleanup(func() {
			_ = watching.Process.Kill()
			_ = watching.Wait()
		})
		Eventually(func() error {
			_, err := drain()
			return err
		}).Should(Succeed())
		Eventually(seen).Should(gbytes.Say("EvictionByEvictionAPI"))
		must("uncordon", "node")
		must(append(as, "rollout", "status", "deployment/web", "--timeout=3m")...)
		Expect(must(append(as, "get", "pods", "-l", "app=web", "-o", "name")...)).NotTo(Equal(before))
	})

	It("are gone from the host when they are deleted", func() {
		for _, tenant := range []string{"acme", "globex"} {
			must(append(tenantry.as(tenant), "delete", "--ignore-not-found", "deployment/web", "deployment/said", "deployment/client", "service/said")...)
			Eventually(output(tenant, "get", "pods", "-o", "name")).Should(BeEmpty())
		}
		Eventually(func() string {
			return must("get", "pods,services,secrets", "-A", "-l", "workloads.tenantry.io/installation", "-o", "name")
		}).Should(BeEmpty())
	})

	It("are left alone by another installation with the same names", func() {
		other := &standalone{dir: filepath.Join(filepath.Dir(tenantry.dir), "other"), hostKubeconfig: tenantry.hostKubeconfig, port: "7444", isolation: tenantry.isolation}
		runTwins := func(s *standalone) {
			GinkgoHelper()
			must(append(s.as("acme"), "create", "namespace", "shop")...)
			for _, namespace := range []string{"default", "shop"} {
				s.apply("acme", strings.ReplaceAll(twinPod, "name: twin", "name: twin, namespace: "+namespace))
				must(append(s.as("acme"), "wait", "--namespace", namespace, "--for=condition=Ready", "pod/twin", "--timeout=3m")...)
			}
		}
		other.start()
		DeferCleanup(func() { other.stop() })
		runTwins(tenantry)
		runTwins(other)
		before := tenantry.onHost()
		Expect(before).To(HaveLen(2))
		Expect(other.onHost()).To(And(HaveLen(2), Not(ContainElement(BeElementOf(before)))))
		must(append(other.as("acme"), "delete", "namespace/shop", "pod/twin", "--timeout=2m")...)
		Eventually(other.onHost).Should(Equal([]string{""}))
		Expect(tenantry.onHost()).To(Equal(before))

		other.stop()
		Expect(os.RemoveAll(other.dir)).To(Succeed())
		other.start()
		runTwins(other)
		Expect(tenantry.onHost()).To(Equal(before))
		must(append(tenantry.as("acme"), "delete", "namespace/shop", "pod/twin", "--timeout=2m")...)
		Eventually(tenantry.onHost).Should(Equal([]string{""}))
		Expect(other.onHost()).To(And(HaveLen(2), Not(ContainElement(HaveSuffix(" 1")))))
	})

	It("stay when an old backup is restored, and why is said", func() {
		onHost := func() []string {
			all := strings.Fields(must("get", "pods,services", "-A", "-l", "workloads.tenantry.io/installation", "-o", `jsonpath={range .items[*]}{.metadata.name}/{.metadata.uid} {end}`))
			return slices.DeleteFunc(all, func(one string) bool { return !strings.HasPrefix(one, "nowhere-") })
		}
		backup := filepath.Join(filepath.Dir(tenantry.dir), "backup")
		tenantry.stop()
		command("cp", "-a", tenantry.dir, backup)
		tenantry.start()
		tenantry.apply("acme", nowhereDeployment)
		var services strings.Builder
		for i := range 40 {
			fmt.Fprintf(&services, nowhereService, i)
		}
		tenantry.apply("acme", services.String())
		Eventually(onHost).Should(HaveLen(60))
		before := onHost()
		tenantry.kill()
		Expect(os.RemoveAll(tenantry.dir)).To(Succeed())
		Expect(os.Rename(backup, tenantry.dir)).To(Succeed())
		tenantry.start()
		Eventually(tenantry.log).Should(gbytes.Say(`60 of \d+ objects on the host are made of what no space has, and are of the tenant .*acme.*nothing more of this tenant is deleted`))
		tenantry.apply("globex", twinPod)
		tenantry.ready("globex", "twin") // others go on
		Expect(tenantry.get("acme", "deployment/nowhere", ".metadata.name")).To(BeEmpty())
		Consistently(onHost).WithTimeout(15 * time.Second).Should(ConsistOf(before))
	})
})

package workloads

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenantry/tenantry/internal/kubeconfig"
	"github.com/tenantry/tenantry/internal/pki"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/sync"
	"github.com/tenantry/tenantry/test/env/suite"
	"github.com/tenantry/tenantry/test/harness"
)

// apiAddress is where pods reach the API, as they are told. There are none here; tests ask at a loopback address.
const apiAddress = "192.0.2.7"

const (
	acme   tenant.Name = "acme"
	globex tenant.Name = "globex"
)

var (
	tenantry *suite.Environment
	// host is a client of an administrator of the host cluster: that is the system space of the same Tenantry,
	// in which no pod runs by itself.
	host *kubernetes.Clientset
)

func TestWorkloads(t *testing.T) { suite.Run(t, "Workloads") }

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		o.Server.Host.Kubeconfig = syncerKubeconfig(o.Dir, o.Port)
		o.Workloads.Image = "localhost/tenantry:1"
		o.Workloads.TestPeriod = time.Second
		o.Workloads.OrphanLimit = 50
		o.Workloads.DNSService = sync.DefaultDNSService
		o.Workloads.APIAddress = net.JoinHostPort(apiAddress, strconv.Itoa(o.Port))
	})
	host = tenantry.Client(tenant.System)
	publishRoutes(ctx)
	apply(ctx, "../../../config/workloads")
	go canaries.run(suiteContext())
	tenantry.CreateTenants(ctx, acme, globex)
}, NodeTimeout(suite.StartTimeout))

// canaries are what a kubelet of the host makes of the syncer's: there is no network here.
var canaries = &kubelet{}

// kubelet says that canaries run, and how the one ends that connects.
type kubelet struct{ exitCode atomic.Int32 }

// suiteContext ends with the suite.
func suiteContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	return ctx
}

func (k *kubelet) run(ctx context.Context) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		watching, err := host.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{LabelSelector: names.Prefix + "canary"})
		if err != nil {
			return
		}
		defer watching.Stop()
		for event := range watching.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Added {
				k.start(ctx, pod)
			}
		}
	}, 10*time.Millisecond)
}

func (k *kubelet) start(ctx context.Context, pod *corev1.Pod) {
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.0.0.9"
	if slices.Contains(pod.Spec.Containers[0].Args, "dial") {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "canary", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: k.exitCode.Load()}}}}
	}
	_, _ = host.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // the next test is another try
}

// syncerKubeconfig returns the file of a kubeconfig of the host's ServiceAccount syncer, for a Tenantry that is
// to be started.
func syncerKubeconfig(dir string, port int) string {
	GinkgoHelper()
	keys, err := pki.Ensure(filepath.Join(dir, "pki"), "127.0.0.1")
	Expect(err).NotTo(HaveOccurred())
	content, err := kubeconfig.New(keys, fmt.Sprintf("https://127.0.0.1:%d", port), kubeconfig.User{Tenant: tenant.System, Name: "admin", Groups: []string{"system:masters"}})
	Expect(err).NotTo(HaveOccurred())
	config, err := clientcmd.Load(content)
	Expect(err).NotTo(HaveOccurred())
	for _, user := range config.AuthInfos {
		user.Impersonate = "system:serviceaccount:tenantry-workloads:syncer"
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:tenantry-workloads", "system:authenticated"}
	}
	file := filepath.Join(GinkgoT().TempDir(), "host.kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file
}

// apply creates on the host what the YAML files of a directory have.
func apply(ctx context.Context, dir string) {
	GinkgoHelper()
	for _, path := range harness.WorkloadsFiles(dir) {
		file, err := os.Open(path)
		Expect(err).NotTo(HaveOccurred())
		decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
		for {
			o := &unstructured.Unstructured{}
			if decoder.Decode(o) != nil {
				break
			}
			create(ctx, o)
		}
		Expect(file.Close()).To(Succeed())
	}
}

// plural are resources that are not called as their kinds are.
var plural = map[string]string{"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "PriorityClass": "priorityclasses", "PodDisruptionBudget": "poddisruptionbudgets", "NetworkPolicy": "networkpolicies"}

func create(ctx context.Context, o *unstructured.Unstructured) {
	GinkgoHelper()
	kind := o.GetKind()
	resource := plural[kind]
	if resource == "" {
		resource = strings.ToLower(kind) + "s"
	}
	gv, err := schema.ParseGroupVersion(o.GetAPIVersion())
	Expect(err).NotTo(HaveOccurred())
	client := suite.Dynamic(tenantry.Config(tenant.System)).Resource(gv.WithResource(resource))
	in := dynamic.ResourceInterface(client)
	if namespace := o.GetNamespace(); namespace != "" {
		in = client.Namespace(namespace)
	}
	_, err = in.Create(ctx, o, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// hostPods returns the host's pods of a name, by their tenants.
func hostPods(ctx context.Context, name string) (map[string]*corev1.Pod, error) {
	list, err := host.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: names.InstallationLabel})
	if err != nil {
		return nil, err
	}
	found := map[string]*corev1.Pod{}
	for i := range list.Items {
		if list.Items[i].Name == name {
			found[list.Items[i].Annotations[names.TenantAnnotation]] = &list.Items[i]
		}
	}
	return found, nil
}

// onHost waits until the host has a tenant's pod, and returns it.
func onHost(ctx context.Context, n tenant.Name, name string) *corev1.Pod {
	GinkgoHelper()
	var pod *corev1.Pod
	Eventually(func(g Gomega) {
		all, err := hostPods(ctx, name)
		g.Expect(err).NotTo(HaveOccurred())
		pod = all[n.String()]
		g.Expect(pod).NotTo(BeNil())
	}).Should(Succeed())
	return pod
}

// start does what a scheduler and a kubelet do for a pod of the host.
func start(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	pods := host.CoreV1().Pods(pod.Namespace)
	Expect(pods.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}, metav1.CreateOptions{})).To(Succeed())
	Eventually(func() error {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.Status.Phase, now.Status.PodIP, now.Status.HostIP = corev1.PodRunning, "10.0.0.7", "10.1.0.1"
		now.Status.StartTime = new(metav1.Now())
		now.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
		_, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	}).Should(Succeed())
}

// plainPod is a pod of one container.
func plainPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/i:1"}}, TerminationGracePeriodSeconds: new(int64(7))},
	}
}

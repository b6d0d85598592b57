package operator

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/operator"
	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/test/host"
)

const (
	startTimeout = 2 * time.Minute
	timeout      = 30 * time.Second
	poll         = 50 * time.Millisecond

	namespace = "tenantry-system"
	image     = "registry.example/tenantry:test"
	config    = "../../../config"
	token     = "token-of-the-operator"
	account   = token + ",system:serviceaccount:" + namespace + ":tenantry-operator,2,\"system:serviceaccounts,system:authenticated\"\n"
)

var (
	cluster *host.Host
	// admin is a client of the host's administrator.
	admin client.Client
	// endOperator ends the operator that runs.
	endOperator func()
)

func TestMain(m *testing.M) {
	host.RunIfCalled()
	os.Exit(m.Run())
}

func TestOperator(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Operator")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(poll)
	var err error
	cluster, err = host.Start(ctx, GinkgoT().TempDir(), account)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(cluster.Stop)
	scheme := runtime.NewScheme()
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	Expect(v1alpha1.AddHostToScheme(scheme)).To(Succeed())
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	admin, err = client.New(cluster.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	apply(ctx, "crd/tenantry.io_controlplanes.yaml", "crd/tenantry.io_tenants.yaml", "operator/namespace.yaml",
		"operator/serviceaccount.yaml", "operator/role.yaml", "default/events.yaml")
	for _, name := range []string{"controlplanes.tenantry.io", "tenants.tenantry.io"} {
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(definition), definition)).To(Succeed())
			g.Expect(definition.Status.Conditions).To(ContainElement(SatisfyAll(
				HaveField("Type", apiextensionsv1.Established), HaveField("Status", apiextensionsv1.ConditionTrue))))
		}).Should(Succeed())
	}
	endOperator = startOperator()
	DeferCleanup(func() { endOperator() })
}, NodeTimeout(startTimeout))

// startOperator runs the operator, with its own rights, until the returned function is called.
func startOperator() (end func()) {
	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	config := cluster.As(token)
	config.Wrap(written.wrap)
	go func() {
		ended <- operator.Run(running, config, operator.Options{
			Image: image, Namespaces: []string{namespace}, Namespace: namespace, LeaderElection: true, Outside: true, Now: clock.now,
		})
	}()
	return func() {
		stop()
		Eventually(ended).Should(Receive(BeNil()))
	}
}

// clock is the operator's.
var clock later

// later is a clock that can be put forward.
type later struct{ by atomic.Int64 }

func (l *later) now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// forward puts the clock forward until the end of the spec, and has a ControlPlane looked at.
func (l *later) forward(ctx context.Context, cp string, by time.Duration) {
	GinkgoHelper()
	l.by.Add(int64(by))
	DeferCleanup(func() { l.by.Add(-int64(by)) })
	change(ctx, newControlPlane(cp), cp, func(cp *v1alpha1.ControlPlane) {
		if cp.Annotations == nil {
			cp.Annotations = map[string]string{}
		}
		cp.Annotations["example.com/looked-at"] = l.now().Format(time.RFC3339)
	})
}

// written has the requests of the operator that write something on the host, but for its lease.
var written writes

type writes struct {
	mu  sync.Mutex
	all []string
}

func (w *writes) wrap(next http.RoundTripper) http.RoundTripper {
	return roundtrip.Func(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet && !strings.Contains(request.URL.Path, "/leases") {
			w.mu.Lock()
			w.all = append(w.all, request.Method+" "+request.URL.Path)
			w.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

// list returns them.
func (w *writes) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

// apply creates what manifests of config have, in the operator's namespace where there is
// one.
func apply(ctx context.Context, files ...string) {
	GinkgoHelper()
	for _, file := range files {
		Expect(host.Apply(ctx, admin, namespace, filepath.Join(config, file))).To(Succeed())
	}
}

// newControlPlane returns one that is in the operator's namespace.
func newControlPlane(name string) *v1alpha1.ControlPlane {
	return &v1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// create creates a ControlPlane, and deletes it with all that was made for it at the end of
// the spec: the host has no garbage collector.
func create(ctx context.Context, cp *v1alpha1.ControlPlane) {
	GinkgoHelper()
	giveEtcdSecret(ctx, cp)
	Expect(admin.Create(ctx, cp)).To(Succeed())
	deleteAfter(cp)
}

// deleteAfter deletes a ControlPlane, with all that was made for it, at the end of the spec.
func deleteAfter(cp *v1alpha1.ControlPlane) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, cp))).To(Succeed())
		for _, object := range made(cp) {
			Expect(client.IgnoreNotFound(admin.Delete(ctx, object))).To(Succeed())
		}
	})
}

// get reads an object, and fails unless it is there.
func get[T client.Object](ctx context.Context, object T, name string) T {
	GinkgoHelper()
	Eventually(func() error { return admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object) }).Should(Succeed())
	return object
}

// setReady says that the pods of a ControlPlane are ready, as a kubelet and a controller do.
func setReady(ctx context.Context, name string) {
	GinkgoHelper()
	spec := get(ctx, newControlPlane(name), name).Spec
	if spec.Workloads != nil {
		defer setDeploymentReady(ctx, name+"-syncer")
	}
	if spec.Storage.Etcd != nil {
		setDeploymentReady(ctx, name)
		setDeploymentReady(ctx, name+"-manager")
		return
	}
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		set := get(ctx, &appsv1.StatefulSet{}, name)
		set.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, CurrentReplicas: 1, AvailableReplicas: 1,
			CurrentRevision: "1", UpdateRevision: "1",
		}
		return admin.Status().Update(ctx, set)
	})).To(Succeed())
}

func setDeploymentReady(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		deployment := get(ctx, &appsv1.Deployment{}, name)
		all := *deployment.Spec.Replicas
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: all, ReadyReplicas: all, UpdatedReplicas: all, AvailableReplicas: all,
		}
		return admin.Status().Update(ctx, deployment)
	})).To(Succeed())
}

// expectCondition waits for a condition of a ControlPlane.
func expectCondition(ctx context.Context, name, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	GinkgoHelper()
	cp := newControlPlane(name)
	return expectConditionOf(ctx, cp, &cp.Status.Conditions, kind, status, reason)
}

// expectConditionOf waits for a condition of an object, which has it in all.
func expectConditionOf(ctx context.Context, object client.Object, all *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	GinkgoHelper()
	var found *metav1.Condition
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		found = meta.FindStatusCondition(*all, kind)
		g.Expect(found).NotTo(BeNil())
		g.Expect(*found).To(SatisfyAll(HaveField("Status", status), HaveField("Reason", reason), HaveField("ObservedGeneration", object.GetGeneration())))
	}).Should(Succeed())
	return *found
}

// expectEvent waits for an event about an object, by the namespace of the event.
func expectEvent(ctx context.Context, namespace, name, reason string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		events := &eventsv1.EventList{}
		g.Expect(admin.List(ctx, events, client.InNamespace(namespace))).To(Succeed())
		g.Expect(events.Items).To(ContainElement(SatisfyAll(HaveField("Regarding.Name", name), HaveField("Reason", reason))))
	}).Should(Succeed())
}

// change changes an object that others change, too.
func change[T client.Object](ctx context.Context, object T, name string, how func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		get(ctx, object, name)
		how(object)
		err := admin.Update(ctx, object)
		if apierrors.IsConflict(err) {
			return err
		}
		Expect(err).NotTo(HaveOccurred())
		return nil
	}).Should(Succeed())
}

// newPod returns a pod of a template, as the host would make it, with the volume of a StatefulSet.
func newPod(name string, template corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "state"})
	return pod
}

// failedPod makes a pod whose server has said something at its end.
func failedPod(ctx context.Context, name string, template corev1.PodTemplateSpec, said string) *corev1.Pod {
	GinkgoHelper()
	pod := newPod(name, template)
	Expect(admin.Create(ctx, pod)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, pod, client.GracePeriodSeconds(0)))).To(Succeed())
	})
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "tenantry", Image: image, ImageID: "x",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1, Message: said, FinishedAt: metav1.NewTime(time.Now())}},
	}}
	Expect(admin.Status().Update(ctx, pod)).To(Succeed())
	return pod
}

func secret(ctx context.Context, name string) *corev1.Secret {
	GinkgoHelper()
	return get(ctx, &corev1.Secret{}, name)
}

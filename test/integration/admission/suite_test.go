// Package admission tests the admission chain of a running server: acceptance
// lines 35 and 37.
package admission

import (
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	startTimeout = 2 * time.Minute
	readyTimeout = time.Minute
	poll         = 50 * time.Millisecond
)

// admin is a system administrator on the system space.
var admin *rest.Config

func TestAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(readyTimeout)
	SetDefaultEventuallyPollingInterval(poll)
	RunSpecs(t, "Admission")
}

var _ = BeforeSuite(func() {
	binary, err := gexec.Build("github.com/tenantry/tenantry/cmd/tenantry")
	Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(GinkgoT().TempDir(), "state")
	server, err := gexec.Start(exec.Command(binary, "up", "--dir", dir, "--secure-port", freePort()), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Eventually(server.Terminate(), readyTimeout).Should(gexec.Exit())
		gexec.CleanupBuildArtifacts()
	})
	Eventually(func() error {
		admin, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
		return err
	}, startTimeout).Should(Succeed())
	admin.QPS = -1
})

func freePort() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// system returns a client of the system space.
func system() *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(admin)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// newTenant creates a tenant and returns a client of its space, in which pods
// can be created.
func newTenant(ctx SpecContext, prefix string) *kubernetes.Clientset {
	tenants := system().CoreV1().RESTClient()
	created := &metav1.PartialObjectMetadata{}
	body := `{"apiVersion": "v1", "kind": "Tenant", "metadata": {"generateName": "` + prefix + `-"}}`
	Expect(tenants.Post().AbsPath("/api/v1/tenants").SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body([]byte(body)).Do(ctx).Into(created)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		result := tenants.Delete().AbsPath("/api/v1/tenants", created.Name).Do(ctx)
		Expect(result.Error()).NotTo(HaveOccurred())
	})
	config := rest.CopyConfig(admin)
	config.Host += "/tenants/" + created.Name
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	ensureServiceAccount(ctx, client, "default")
	return client
}

// ensureServiceAccount creates the default service account of a namespace unless
// a controller has done so.
func ensureServiceAccount(ctx SpecContext, client kubernetes.Interface, namespace string) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	Eventually(func() error {
		_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}).Should(Succeed())
}

// newNamespace creates a namespace, in which pods can be created.
func newNamespace(ctx SpecContext, client kubernetes.Interface, name string, labels map[string]string) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	ensureServiceAccount(ctx, client, name)
}

// newPod creates a pod and returns what the server made of it.
func newPod(ctx SpecContext, client kubernetes.Interface, namespace string, changes ...func(*corev1.Pod)) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
}

// beForbidden matches an error with status 403.
func beForbidden() OmegaMatcher {
	return WithTransform(func(err error) int {
		if status, ok := err.(apierrors.APIStatus); ok {
			return int(status.Status().Code)
		}
		return 0
	}, Equal(http.StatusForbidden))
}

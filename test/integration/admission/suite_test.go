// Package admission tests the admission chain of a running server: acceptance
// lines 35 and 37.
package admission

import (
	"errors"
	"net/http"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry = suite.Tenants()

func TestAdmission(t *testing.T) {
	suite.Run(t, "Admission")
}

// newTenant creates a tenant for the spec and returns a client of its administrator.
func newTenant(ctx SpecContext, prefix string) *kubernetes.Clientset {
	GinkgoHelper()
	return tenantry.Client(tenantry.NewTenant(ctx, prefix))
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
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			return int(status.Status().Code)
		}
		return 0
	}, Equal(http.StatusForbidden))
}

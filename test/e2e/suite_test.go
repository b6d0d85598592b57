//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

const timeout = 2 * time.Minute

var (
	// system is the config of the system administrator that KUBECONFIG names.
	system *rest.Config
	// tenants is a client of the system space.
	tenants client.Client
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "End to end")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(timeout)
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	var err error
	system, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	Expect(err).NotTo(HaveOccurred(), "KUBECONFIG must name the kubeconfig of a system administrator")
	scheme := clientgoscheme.Scheme
	Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	tenants, err = client.New(system, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
})

// createTenant creates a tenant, waits until it is ready and deletes it at the end.
func createTenant(ctx context.Context) *v1alpha1.Tenant {
	GinkgoHelper()
	object := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}
	Expect(tenants.Create(ctx, object)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { deleteTenant(ctx, object) }, NodeTimeout(timeout))
	Eventually(func() (bool, error) {
		err := tenants.Get(ctx, client.ObjectKeyFromObject(object), object)
		return meta.IsStatusConditionTrue(object.Status.Conditions, v1alpha1.ConditionReady), err
	}).WithContext(ctx).Should(BeTrue())
	return object
}

// deleteTenant deletes a tenant and waits until it has gone.
func deleteTenant(ctx context.Context, object *v1alpha1.Tenant) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(tenants.Delete(ctx, object))).To(Succeed())
	Eventually(func() bool {
		return apierrors.IsNotFound(tenants.Get(ctx, client.ObjectKeyFromObject(object), &v1alpha1.Tenant{}))
	}).WithContext(ctx).Should(BeTrue())
}

// space returns the config of the system administrator in the space of a tenant.
func space(t *v1alpha1.Tenant) *rest.Config {
	config := rest.CopyConfig(system)
	config.Host = strings.TrimSuffix(config.Host, "/") + "/tenants/" + t.Name
	return config
}

// administrator returns the config of a service account of the tenant with every
// right in its space, whose URLs name no space.
func administrator(ctx context.Context, t *v1alpha1.Tenant) *rest.Config {
	GinkgoHelper()
	admin := clientFor(space(t))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: metav1.NamespaceDefault}}
	_, err := admin.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	token, err := admin.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	config := rest.AnonymousClientConfig(system)
	config.BearerToken = token.Status.Token
	return config
}

func clientFor(config *rest.Config) *kubernetes.Clientset {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

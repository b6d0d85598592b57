package clients

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

const (
	startTimeout = 2 * time.Minute
	timeout      = time.Minute
)

var tenantry *env.Environment

func TestClients(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Clients")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	SetDefaultEventuallyTimeout(timeout)
	var err error
	tenantry, err = env.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(tenantry.Stop()).To(Succeed()) })
	Expect(tenantry.CreateTenant(ctx, "a")).To(Succeed())
	Expect(tenantry.CreateTenant(ctx, "b")).To(Succeed())
}, NodeTimeout(startTimeout))

// form is one of the URL forms that a stock client can be configured with.
type form struct {
	name   string
	config func(*rest.Config) *rest.Config
}

var forms = []form{
	{"space-root", rest.CopyConfig},
	{"short-path", func(config *rest.Config) *rest.Config { return tenantry.ShortPath(config) }},
}

// admin returns the config of the administrator of a space.
func admin(t tenant.Name) *rest.Config {
	GinkgoHelper()
	config, err := tenantry.UserConfig(t, "admin")
	Expect(err).NotTo(HaveOccurred())
	return config
}

// createNamespace creates a namespace for one spec in a space.
func createNamespace(ctx SpecContext, config *rest.Config, name string) {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

package discovery

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

const startTimeout = 2 * time.Minute

var tenantry *env.Environment

func TestDiscovery(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Discovery")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	var err error
	tenantry, err = env.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(tenantry.Stop()).To(Succeed()) })
	Expect(tenantry.CreateTenant(ctx, "a")).To(Succeed())
	Expect(tenantry.CreateTenant(ctx, "b")).To(Succeed())
}, NodeTimeout(startTimeout))

// config returns the config of an administrator in a space.
func config(t tenant.Name) *rest.Config {
	GinkgoHelper()
	config, err := tenantry.UserConfig(t, "admin")
	if t == tenant.System {
		config, err = tenantry.Admin()
	}
	Expect(err).NotTo(HaveOccurred())
	return config
}

func client(t tenant.Name) *kubernetes.Clientset {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config(t))
	Expect(err).NotTo(HaveOccurred())
	return client
}

func definitions(t tenant.Name) *apiextensionsclient.Clientset {
	GinkgoHelper()
	client, err := apiextensionsclient.NewForConfig(config(t))
	Expect(err).NotTo(HaveOccurred())
	return client
}

package smoke

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

const startTimeout = 2 * time.Minute

var tenantry *env.Environment

func TestSmoke(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Smoke")
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

// admin returns the config of the administrator of a space.
func admin(t tenant.Name) *rest.Config {
	GinkgoHelper()
	config, err := tenantry.UserConfig(t, "admin")
	Expect(err).NotTo(HaveOccurred())
	return config
}

// system returns the config of a system administrator.
func system() *rest.Config {
	GinkgoHelper()
	config, err := tenantry.Admin()
	Expect(err).NotTo(HaveOccurred())
	return config
}

func clientFor(config *rest.Config) *kubernetes.Clientset {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

package isolation

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/test/env"
)

var tenantry *env.Environment

func TestIsolation(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Isolation")
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
}, NodeTimeout(2*time.Minute))

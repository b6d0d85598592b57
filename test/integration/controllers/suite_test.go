package controllers

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "controllers")
}

// nodeName is a node of the system space.
const nodeName = "node-1"

// admin is the config of a system administrator.
var admin *rest.Config

var _ = BeforeSuite(func(ctx context.Context) {
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	environment, err := env.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	admin, err = environment.Admin()
	Expect(err).NotTo(HaveOccurred())
	admin.WarningHandler = rest.NoWarnings{}
	_, err = client(tenant.System).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(environment.CreateTenant(ctx, "a")).To(Succeed())
	Expect(environment.CreateTenant(ctx, "b")).To(Succeed())
}, NodeTimeout(time.Minute))

// inSpace returns an administrator's config for the space of n.
func inSpace(n tenant.Name) *rest.Config {
	config := rest.CopyConfig(admin)
	if n != tenant.System {
		config.Host += "/tenants/" + string(n)
	}
	return config
}

func client(n tenant.Name) *kubernetes.Clientset {
	c, err := kubernetes.NewForConfig(inSpace(n))
	Expect(err).NotTo(HaveOccurred())
	return c
}

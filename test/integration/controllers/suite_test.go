package controllers

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

func TestControllers(t *testing.T) {
	suite.Run(t, "controllers")
}

// nodeName is a node of the system space.
const nodeName = "node-1"

var tenantry *suite.Environment

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	_, err := client(tenant.System).CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	tenantry.CreateTenants(ctx, "a", "b")
}, NodeTimeout(suite.StartTimeout))

// configIn returns a system administrator's config for the space of n.
func configIn(n tenant.Name) *rest.Config {
	GinkgoHelper()
	config := tenantry.Config(tenant.System)
	if n == tenant.System {
		return config
	}
	return tenantry.In(n, config)
}

func client(n tenant.Name) *kubernetes.Clientset {
	GinkgoHelper()
	return suite.Client(configIn(n))
}

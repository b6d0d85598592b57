// Package flowcontrol tests on a running server how requests of tenants share it.
package flowcontrol

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env"
)

const (
	startTimeout = 2 * time.Minute
	// The limits of tenants that have none of their own.
	defaultWatches = 20
	defaultBody    = 1 << 20
	defaultList    = 200
)

var environment *env.Environment

func TestFlowControl(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Flow control")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	klog.LogToStderr(false)
	klog.SetOutput(GinkgoWriter)
	var err error
	environment, err = env.Start(ctx, func(o *standalone.Options) {
		o.ObjectCountPeriod = time.Second
		options := flowcontrol.NewOptions()
		options.Allowance.Watches, options.Size = defaultWatches, flowcontrol.Size{BodyBytes: defaultBody, ListObjects: defaultList}
		o.FlowControl = &options
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
}, NodeTimeout(startTimeout))

// tenants numbers the tenants of the suite.
var tenants atomic.Int32

// newTenant creates a tenant.
func newTenant(ctx SpecContext) tenant.Name {
	GinkgoHelper()
	name := tenant.Name(fmt.Sprintf("flow-%d", tenants.Add(1)))
	Expect(environment.CreateTenant(ctx, name)).To(Succeed())
	return name
}

// user returns the config of a user of a tenant.
func user(t tenant.Name, name string, groups ...string) *rest.Config {
	GinkgoHelper()
	config, err := environment.UserConfig(t, name, groups...)
	Expect(err).NotTo(HaveOccurred())
	return config
}

// system returns the config of a system administrator.
func system() *rest.Config {
	GinkgoHelper()
	config, err := environment.Admin()
	Expect(err).NotTo(HaveOccurred())
	return config
}

func clientFor(config *rest.Config) *kubernetes.Clientset {
	GinkgoHelper()
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	return client
}

// answer sends a GET and returns the answer without its body.
func answer(ctx SpecContext, config *rest.Config, path string, header http.Header) *http.Response {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header = header
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	return response
}

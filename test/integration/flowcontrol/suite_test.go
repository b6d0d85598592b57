// Package flowcontrol tests on a running server how requests of tenants share it.
package flowcontrol

import (
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/tenantry/tenantry/internal/server/flowcontrol"
	"github.com/tenantry/tenantry/internal/standalone"
	"github.com/tenantry/tenantry/test/env/suite"
)

const (
	// The limits of tenants that have none of their own.
	defaultWatches = 20
	defaultBody    = 1 << 20
	defaultList    = 200
)

var tenantry *suite.Environment

func TestFlowControl(t *testing.T) {
	suite.Run(t, "Flow control")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx, func(o *standalone.Options) {
		o.Server.Kube.Etcd.StorageConfig.CountMetricPollPeriod = time.Second
		options := &o.Server.FlowControl
		options.Allowance.Watches, options.Size = defaultWatches, flowcontrol.Size{BodyBytes: defaultBody, ListObjects: defaultList}
	})
}, NodeTimeout(suite.StartTimeout))

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

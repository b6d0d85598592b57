package discovery

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry *suite.Environment

func TestDiscovery(t *testing.T) {
	RegisterFailHandler(Fail)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Discovery")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx)
	tenantry.CreateTenants(ctx, "a", "b")
}, NodeTimeout(suite.StartTimeout))

func definitions(t tenant.Name) apiextensions.CustomResourceDefinitionInterface {
	GinkgoHelper()
	return suite.Definitions(tenantry.Config(t))
}

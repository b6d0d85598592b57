package discovery

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry = suite.Tenants("a", "b")

func TestDiscovery(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	suite.Run(t, "Discovery")
}

func definitions(t tenant.Name) apiextensions.CustomResourceDefinitionInterface {
	GinkgoHelper()
	return suite.Definitions(tenantry.Config(t))
}

package isolation

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry *suite.Environment

func TestIsolation(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Isolation")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	tenantry = suite.Start(ctx)
	tenantry.CreateTenants(ctx, "a", "b")
}, NodeTimeout(suite.StartTimeout))

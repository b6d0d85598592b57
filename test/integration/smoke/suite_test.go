package smoke

import (
	"testing"

	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry = suite.Tenants("a", "b")

func TestSmoke(t *testing.T) {
	suite.Run(t, "Smoke")
}

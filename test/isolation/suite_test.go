package isolation

import (
	"testing"

	"github.com/tenantry/tenantry/test/env/suite"
)

var tenantry = suite.Tenants("a", "b")

func TestIsolation(t *testing.T) {
	suite.Run(t, "Isolation")
}

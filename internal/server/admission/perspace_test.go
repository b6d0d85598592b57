package admission

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/plugin/pkg/admission/gc"

	"github.com/tenantry/tenantry/internal/tenant"
)

// TestInstancesBelongToALife asks for the instance of a space whose kinds it remembers.
func TestInstancesBelongToALife(t *testing.T) {
	var uid types.UID = "first"
	s := newServer(t, serverConfig{enable: []string{gc.PluginName}, tenantUID: func(tenant.Name) types.UID { return uid }})
	instance := func() admission.Interface {
		t.Helper()
		i, err := s.perSpace[gc.PluginName].instanceOf(tenant.WithSpace(t.Context(), "a"), nil)
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	first := instance()
	if instance() != first {
		t.Error("another instance for the same UID")
	}
	uid = "second"
	if instance() == first {
		t.Error("the next tenant of the name has the instance of the first")
	}
}

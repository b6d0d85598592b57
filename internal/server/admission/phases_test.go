package admission

import (
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"

	"github.com/tenantry/tenantry/internal/server/admission/spacepolicy"
)

// TestPluginsTakePartInTheirPhases checks that plugins are called in the phases that
// upstream's take part in, and in no other.
func TestPluginsTakePartInTheirPhases(t *testing.T) {
	type phases struct{ Mutates, Validates bool }
	got := map[string]phases{}
	newServer(t, serverConfig{decorator: func(plugin admission.Interface, name string) admission.Interface {
		_, mutates := plugin.(admission.MutationInterface)
		_, validates := plugin.(admission.ValidationInterface)
		got[name] = phases{mutates, validates}
		return plugin
	}})
	for name, want := range map[string]phases{
		lifecycle.PluginName:                {Mutates: true}, // of each mode one at least
		limitranger.PluginName:              {Mutates: true, Validates: true},
		resourcequota.PluginName:            {Validates: true},
		mutatingwebhook.PluginName:          {Mutates: true},
		validatingpolicy.PluginName:         {Validates: true},
		defaulttolerationseconds.PluginName: {Mutates: true},
		setdefault.PluginName:               {Mutates: true},
		spacepolicy.PluginName:              {Mutates: true, Validates: true},
	} {
		if got[name] != want {
			t.Errorf("%s: %+v, want %+v", name, got[name], want)
		}
	}
}

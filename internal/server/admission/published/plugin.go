package published

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/tenant"
)

// PluginName is the name of the plugin in flags, metrics and messages.
const PluginName = "Published"

// Register makes the plugin known by its name.
func Register(plugins *admission.Plugins, rules Rules) {
	plugins.Register(PluginName, func(io.Reader) (admission.Interface, error) {
		return &Plugin{Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete), rules: rules}, nil
	})
}

// Plugin asks the rules about each request.
type Plugin struct {
	*admission.Handler
	rules Rules
}

var _ admission.ValidationInterface = &Plugin{}

// Validate is called after everything that may change the object.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	n, err := tenant.From(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	var before, after runtime.Object
	if a.GetOperation() != admission.Create {
		before = a.GetOldObject()
	}
	if a.GetOperation() != admission.Delete {
		after = a.GetObject()
	}
	return p.rules.Of(ctx, n, a.GetResource().GroupResource(), before)(after)
}

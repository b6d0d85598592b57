package published

import (
	"context"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

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

// Plugin applies the rules to each request.
type Plugin struct {
	*admission.Handler
	rules Rules
}

var _ admission.ValidationInterface = &Plugin{}

// definitions are never copied. Storage shows a published definition to spaces in the form
// of a copy, which an update can replace; storage decides about that.
var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// Validate is called after everything that may change the object.
func (p *Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	n, err := tenant.SpaceFrom(ctx)
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
	resource := a.GetResource().GroupResource()
	if resource == definitions && a.GetOperation() == admission.Update && marksOf(before).copied() {
		return nil
	}
	if err := p.rules.Of(ctx, n, resource, before)(after); err != nil {
		return err
	}
	if n == tenant.System && a.GetSubresource() == "" {
		if text := p.rules.warning(resource, before, after); text != "" {
			warning.AddWarning(ctx, "", text)
		}
	}
	return nil
}

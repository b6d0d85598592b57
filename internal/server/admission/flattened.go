package admission

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/warning"

	"github.com/tenantry/tenantry/internal/spaces/view"
	"github.com/tenantry/tenantry/internal/tenant"
)

// flattenedPlugin is one instance that serves all spaces on flattened names.
// Users see plain names only.
type flattenedPlugin struct{ unchangedPlugin }

func (p *flattenedPlugin) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if n == tenant.System {
		return mutate(ctx, p.instance, a, o)
	}
	if p.name == lifecycle.PluginName {
		if err := p.shared.checkProtected(a, n); err != nil {
			return err
		}
	}
	flat := flattenInPlace(a, n)
	defer flat.restore()
	return view.PlainError(mutate(withPlainWarnings(ctx, n), p.instance, flat, o), n)
}

func (p *flattenedPlugin) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	n, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if n == tenant.System {
		return validate(ctx, p.instance, a, o)
	}
	if p.name == resourcequota.PluginName && tenant.ByPublisher(ctx) {
		return nil
	}
	return view.PlainError(validate(withPlainWarnings(ctx, n), p.instance, flattenCopy(a, n), o), n)
}

// protected are the namespaces that NamespaceLifecycle protects by their plain names in
// the system space.
var protected = sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic)

// checkProtected protects the same namespaces in the space of n, unless the tenant is
// being deleted.
func (s *shared) checkProtected(a admission.Attributes, n tenant.Name) error {
	if a.GetOperation() != admission.Delete || !isNamespace(a) || !protected.Has(a.GetName()) || s.Terminating(n) {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), errors.New("this namespace may not be deleted"))
}

// plainWarnings passes warnings on with plain names.
type plainWarnings struct {
	ctx    context.Context
	tenant tenant.Name
}

func withPlainWarnings(ctx context.Context, n tenant.Name) context.Context {
	return warning.WithWarningRecorder(ctx, plainWarnings{ctx: ctx, tenant: n})
}

func (w plainWarnings) AddWarning(agent, text string) {
	warning.AddWarning(w.ctx, agent, tenant.PlainText(text, w.tenant))
}

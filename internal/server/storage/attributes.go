package storage

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/tenantry/tenantry/internal/tenant"
)

const (
	// dispatchField is the field by which upstream's cache dispatches events to watchers.
	// Every space has a namespace "default", so the field holds the space instead, and a
	// write in one space is never offered to the watchers of another.
	dispatchField = "metadata.namespace"
	// namespaceField holds the namespace itself. Selectors on metadata.namespace are
	// rewritten to it.
	namespaceField = "tenantry.io/namespace"
)

// spaceAttributes wraps a resource's attributes with the space of the object.
func spaceAttributes(delegate storage.AttrFunc) storage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		l, f, err := delegate(obj)
		if err != nil {
			return nil, nil, err
		}
		n, err := tenantOf(obj)
		if err != nil {
			return nil, nil, err
		}
		if f == nil {
			f = make(fields.Set, 1)
		}
		if namespace := f[dispatchField]; namespace != "" {
			f[namespaceField] = namespace
		}
		f[dispatchField] = string(n)
		return l, f, nil
	}
}

// predicate returns p as it applies to a scope.
func (s *Space) predicate(p storage.SelectionPredicate, in tenant.Scope, namespace string) (storage.SelectionPredicate, error) {
	if err := checkSelectors(p, in); err != nil {
		return p, err
	}
	if p.GetAttrs != nil {
		p.GetAttrs = s.attributes
	}
	if p.Field != nil && !p.Field.Empty() {
		rewritten, err := p.Field.Transform(func(field, value string) (string, string, error) {
			if field == dispatchField {
				return namespaceField, value, nil
			}
			return field, value, nil
		})
		if err != nil {
			return p, err
		}
		p.Field = rewritten
	}
	if s.foreign != nil {
		p.Field = and(p.Field, fields.OneTermNotEqualSelector(foreignField, foreignLink))
	}
	if in.IsMany() {
		// Namespace foo of all tenants is not a contiguous range.
		if namespace != "" {
			p.Field = and(p.Field, fields.OneTermEqualSelector(namespaceField, namespace))
		}
		return p, nil
	}
	// Upstream's indexes join the objects of all spaces on a field's value. The
	// range of the space is the better index, except for pods by node, which the
	// kubelets of the system space watch.
	p.IndexLabels = nil
	if in != tenant.System.Scope() {
		p.IndexFields = nil
	} else if len(p.IndexFields) > 0 {
		p.IndexFields = slices.DeleteFunc(slices.Clone(p.IndexFields), func(field string) bool {
			return field == dispatchField || field == "metadata.name"
		})
	}
	return p, nil
}

func and(a, b fields.Selector) fields.Selector {
	if a == nil || a.Empty() {
		return b
	}
	return fields.AndSelectors(a, b)
}

// maxRequirements is how many requirements the selectors of a list or watch in a space may have. A watch compares them
// with each object that is written, which no seat is charged for.
const maxRequirements = 256

func checkSelectors(p storage.SelectionPredicate, in tenant.Scope) error {
	if n, one := in.Space(); !one || !n.IsSpace() {
		return nil
	}
	requirements := 0
	if p.Label != nil {
		all, _ := p.Label.Requirements()
		requirements = len(all)
	}
	if p.Field != nil {
		requirements += len(p.Field.Requirements())
	}
	if requirements > maxRequirements {
		return apierrors.NewBadRequest(fmt.Sprintf("the selectors have %d requirements, and may have %d; name values in sets (a in (x,y)), or select less and filter what comes",
			requirements, maxRequirements))
	}
	return nil
}

package publishedobject

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("publishedobjects").GroupResource()

// REST serves the reports.
type REST struct {
	*genericregistry.Store
	// Status serves the subresource status.
	Status definition.StatusREST
}

// NewREST returns the storage of the reports.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter) (*REST, error) {
	common, table, err := definition.NewStrategy(scheme, crd.PublishedObjects, parts)
	if err != nil {
		return nil, err
	}
	s := strategy{Strategy: common}
	store, err := definition.NewStore[v1alpha1.PublishedObject, v1alpha1.PublishedObjectList](options, Resource, "publishedobject", s, table)
	if err != nil {
		return nil, err
	}
	return &REST{store, definition.NewStatusREST(store, definition.NewStatusStrategy(s, parts))}, nil
}

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"pub"} }

// strategy are the rules for reports.
type strategy struct {
	definition.Strategy[v1alpha1.PublishedObject, v1alpha1.PublishedObjectStatus]
}

// Validate implements rest.RESTCreateStrategy.
func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	report := obj.(*v1alpha1.PublishedObject)
	errs := s.Rules.Validate(ctx, report, nil)
	for _, message := range content.IsPathSegmentName(report.Name) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), report.Name, message))
	}
	if n, err := tenant.SpaceFrom(ctx); err != nil || n != tenant.System {
		errs = append(errs, field.Forbidden(field.NewPath("metadata"), "objects are published from the system space, and their reports are there alone"))
	}
	return errs
}

// parts are those of a PublishedObject.
var parts = definition.Parts[v1alpha1.PublishedObject, v1alpha1.PublishedObjectStatus]{
	Spec:   func(report *v1alpha1.PublishedObject) any { return &report.Object },
	Status: func(report *v1alpha1.PublishedObject) *v1alpha1.PublishedObjectStatus { return &report.Status },
}

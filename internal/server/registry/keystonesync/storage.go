package keystonesync

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Resource is the resource of this package.
var Resource = v1alpha1.GroupVersion.WithResource("keystonesyncs").GroupResource()

// REST serves KeystoneSyncs.
type REST struct {
	definition.Confirmed
	// Status serves the subresource status.
	Status definition.StatusREST
}

// Spaces is what is known of tenants' spaces.
type Spaces struct {
	// Counted reports whether spaces may have objects of a resource in a built-in group.
	Counted func(schema.GroupResource) bool
	// HasClusterRole reports whether every space has a ClusterRole.
	HasClusterRole func(name string) bool
}

// NewREST returns the storage of KeystoneSyncs.
func NewREST(scheme *runtime.Scheme, options generic.RESTOptionsGetter, a authorizer.UnconditionalAuthorizer, spaces Spaces) (*REST, error) {
	common, table, err := definition.NewStrategy(scheme, crd.KeystoneSyncs, parts)
	if err != nil {
		return nil, err
	}
	s := strategy{Strategy: common, spaces: spaces}
	store, err := definition.NewStore[v1alpha1.KeystoneSync, v1alpha1.KeystoneSyncList](options, Resource, "keystonesync", s, table)
	if err != nil {
		return nil, err
	}
	return &REST{
		definition.Confirmed{Store: store, Confirm: escalation{a}.confirm},
		definition.NewStatusREST(store, definition.NewStatusStrategy(s, parts)),
	}, nil
}

// ShortNames implements rest.ShortNamesProvider.
func (*REST) ShortNames() []string { return []string{"kss"} }

// strategy are the rules for the main resource.
type strategy struct {
	definition.Strategy[v1alpha1.KeystoneSync, v1alpha1.KeystoneSyncStatus]
	spaces Spaces
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	setDefaults(obj.(*v1alpha1.KeystoneSync))
	s.Strategy.PrepareForCreate(ctx, obj)
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	setDefaults(obj.(*v1alpha1.KeystoneSync))
	s.Strategy.PrepareForUpdate(ctx, obj, old)
}

// setDefaults fills in the mode, which is shown.
func setDefaults(s *v1alpha1.KeystoneSync) {
	s.Spec.Mode = cmp.Or(s.Spec.Mode, v1alpha1.KeystoneSyncPreview)
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	sync := obj.(*v1alpha1.KeystoneSync)
	errs := s.validate(ctx, sync, nil)
	for _, message := range validation.NameIsDNSSubdomain(sync.Name, false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), sync.Name, message))
	}
	if n, err := tenant.SpaceFrom(ctx); err != nil || n != tenant.System {
		errs = append(errs, field.Forbidden(field.NewPath("metadata"), "Tenants are made of Keystone in the system space alone"))
	}
	return errs
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(ctx, obj.(*v1alpha1.KeystoneSync), old)
}

// validate returns what the rules of the definition say, whether a role has two ClusterRoles, and whether
// ClusterRoles can have such names.
func (s strategy) validate(ctx context.Context, sync *v1alpha1.KeystoneSync, old runtime.Object) field.ErrorList {
	errs := s.Rules.Validate(ctx, sync, old)
	if template := sync.Spec.TenantTemplate; template != nil {
		before := &v1alpha1.KeystoneTenantTemplate{}
		if old, ok := old.(*v1alpha1.KeystoneSync); ok && old.Spec.TenantTemplate != nil {
			before = old.Spec.TenantTemplate
		}
		errs = append(errs, v1alpha1.ValidateQuota(template.Quota, before.Quota, s.spaces.Counted, field.NewPath("spec", "tenantTemplate", "quota"))...)
	}
	type mapped struct {
		role  string
		scope v1alpha1.KeystoneScope
	}
	seen := map[mapped]bool{}
	for i, mapping := range sync.Spec.RoleMappings {
		at, path := mapped{mapping.RoleID, mapping.Scope}, field.NewPath("spec", "roleMappings").Index(i)
		if seen[at] {
			errs = append(errs, field.Duplicate(path.Child("roleID"), mapping.RoleID))
		}
		for _, message := range content.IsPathSegmentName(mapping.ClusterRole) {
			errs = append(errs, field.Invalid(path.Child("clusterRole"), mapping.ClusterRole, message))
		}
		seen[at] = true
	}
	return errs
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (s strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	var warnings []string
	for i, mapping := range obj.(*v1alpha1.KeystoneSync).Spec.RoleMappings {
		if !s.spaces.HasClusterRole(mapping.ClusterRole) {
			warnings = append(warnings, fmt.Sprintf("spec.roleMappings[%d].clusterRole: not every space has a ClusterRole %q: bindings of it give nothing where there is none", i, mapping.ClusterRole))
		}
	}
	return warnings
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (s strategy) WarningsOnUpdate(ctx context.Context, obj, _ runtime.Object) []string {
	return s.WarningsOnCreate(ctx, obj)
}

// parts are those of a KeystoneSync.
var parts = definition.Parts[v1alpha1.KeystoneSync, v1alpha1.KeystoneSyncStatus]{
	Spec:   func(s *v1alpha1.KeystoneSync) any { return &s.Spec },
	Status: func(s *v1alpha1.KeystoneSync) *v1alpha1.KeystoneSyncStatus { return &s.Status },
}

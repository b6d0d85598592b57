package tenant

import (
	"context"
	"regexp"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/audit"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// parts are those of a Tenant.
var parts = definition.Parts[v1alpha1.Tenant, v1alpha1.TenantStatus]{
	Spec:   func(t *v1alpha1.Tenant) any { return &t.Spec },
	Status: func(t *v1alpha1.Tenant) *v1alpha1.TenantStatus { return &t.Status },
}

// strategy are the rules for the main resource.
type strategy struct {
	definition.Strategy[v1alpha1.Tenant, v1alpha1.TenantStatus]
	// earlier reports whether there may have been a tenant of this name before.
	earlier func(ctx context.Context, name string) bool
	// hostLimits are the most that the operator of a host cluster may ask for, nil without
	// any.
	hostLimits *v1alpha1.TenantLimits
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.Strategy.PrepareForCreate(ctx, obj)
	t := obj.(*v1alpha1.Tenant)
	if s.earlier(ctx, t.Name) {
		// The creation itself began earlier, if it had to wait.
		t.Status.CredentialsNotBefore = new(metav1.Now().Rfc3339Copy())
	}
	if tenant.Name(t.Name) != tenant.System && !slices.Contains(t.Finalizers, v1alpha1.SpaceFinalizer) {
		t.Finalizers = append(t.Finalizers, v1alpha1.SpaceFinalizer)
	}
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(ctx, obj.(*v1alpha1.Tenant), nil)
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(ctx, obj.(*v1alpha1.Tenant), old.(*v1alpha1.Tenant))
}

// validate returns what the rules of the definition say and, with the field that is
// meant, what these cannot. old is nil on creation. What is as it was is not looked at.
func (s strategy) validate(ctx context.Context, t, old *v1alpha1.Tenant) field.ErrorList {
	before := &v1alpha1.Tenant{}
	if old != nil {
		before = old
	}
	if t.Name == "" { // rules about the name say nothing of use then
		return field.ErrorList{field.Required(field.NewPath("metadata", "name"),
			"a tenant needs a name, which is that of its space in URLs: at most 63 lower case letters, digits and '-'")}
	}
	path := field.NewPath("spec")
	quota := v1alpha1.ValidateQuota(t.Spec.Quota, before.Spec.Quota, IsCounted, path.Child("quota"))
	errs := slices.Concat(quota, s.validateDefinition(ctx, t, old, len(quota) > 0))
	if !apiequality.Semantic.DeepEqual(t.Spec.AuditPolicy, before.Spec.AuditPolicy) {
		errs = append(errs, audit.Validate(t.Spec.AuditPolicy, path.Child("auditPolicy"))...)
	}
	errs = append(errs, validateAnnotations(t, before)...)
	if tenant.Name(t.Name) == tenant.System {
		errs = append(errs, validateSystem(t, before, path)...)
	}
	if s.hostLimits != nil && isHostOperator(ctx) {
		errs = append(errs, s.hostLimits.Validate(&t.Spec, &before.Spec, path)...)
	}
	return errs
}

// isHostOperator reports whether a request is that of the operator of a host cluster. By its name
// alone: no other user is to have it, and one who has would get less and not more.
func isHostOperator(ctx context.Context) bool {
	u, known := genericapirequest.UserFrom(ctx)
	return known && u.GetName() == v1alpha1.HostOperator
}

// validateDefinition returns what the rules of the definition say, but for the quota if
// that has been found wrong with more detail.
func (s strategy) validateDefinition(ctx context.Context, t, old *v1alpha1.Tenant, quotaIsWrong bool) field.ErrorList {
	var previous runtime.Object
	if old != nil {
		previous = old
	}
	errs := s.Rules.Validate(ctx, t, previous)
	if !quotaIsWrong {
		return errs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return err.Field == "spec.quota" })
}

// annotations are those that let somebody have a Tenant, and what they can be. By another value nobody
// would have it, and nobody would say so.
var annotations = []struct {
	name    string
	form    *regexp.Regexp
	message string
}{
	{
		v1alpha1.AdoptKeystoneDomainAnnotation, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[A-Za-z0-9_.@-]{1,64}$`),
		"must be KEYSTONE/DOMAIN-ID: the name in the KeystoneConfiguration, default unless it says another, and the id, not the name, of the domain " +
			"(openstack domain show NAME -f value -c id)",
	},
	{
		v1alpha1.HostTenantAnnotation, regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`),
		"must be the UID of the Tenant on the host (there: kubectl get tenant NAME -o jsonpath={.metadata.uid})",
	},
}

// validateAnnotations refuses values that are new and can mean nobody.
func validateAnnotations(t, before *v1alpha1.Tenant) (errs field.ErrorList) {
	for _, a := range annotations {
		value, ok := t.Annotations[a.name]
		if was, had := before.Annotations[a.name]; ok && !(had && was == value) && !a.form.MatchString(value) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(a.name), value, a.message))
		}
	}
	return errs
}

func validateSystem(t, before *v1alpha1.Tenant, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Spec.Suspended && !before.Spec.Suspended {
		errs = append(errs, field.Forbidden(path.Child("suspended"), "the built-in tenant cannot be suspended"))
	}
	if t.Spec.AuditPolicy != nil && before.Spec.AuditPolicy == nil {
		errs = append(errs, field.Forbidden(path.Child("auditPolicy"), "the audit policy of the built-in tenant is the server's, --audit-policy-file"))
	}
	for name, is := range map[string]bool{
		"admins":        t.Spec.Admins != nil && before.Spec.Admins == nil,
		"quota":         t.Spec.Quota != nil && before.Spec.Quota == nil,
		"nodePlacement": t.Spec.NodePlacement != nil && before.Spec.NodePlacement == nil,
		"daemonSets":    t.Spec.DaemonSets != nil && before.Spec.DaemonSets == nil,
		"workloads":     t.Spec.Workloads != nil && before.Spec.Workloads == nil,
		"rateLimit":     t.Spec.RateLimit != nil && before.Spec.RateLimit == nil,
		"requestLimit":  t.Spec.RequestLimit != nil && before.Spec.RequestLimit == nil,
	} {
		if is {
			errs = append(errs, field.Forbidden(path.Child(name), "it has no effect on the built-in tenant, whose space is the platform's own; leave it out"))
		}
	}
	return errs
}

// statusStrategy are the rules for the subresource status.
type statusStrategy struct{ strategy }

func (statusStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	t, previous := obj.(*v1alpha1.Tenant), old.(*v1alpha1.Tenant)
	status := t.Status
	status.CredentialsNotBefore = previous.Status.CredentialsNotBefore
	managed := t.ManagedFields
	previous.DeepCopyInto(t)
	t.Status, t.ManagedFields = status, managed
}

// GetResetFields implements rest.ResetFieldsStrategy.
func (statusStrategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return definition.ResetFields("spec")
}

// usageStrategy are the rules for what the server itself changes of the status, which
// are numbers: the rest is as it was. The definition's rules would cost more than the
// change.
type usageStrategy struct{ statusStrategy }

func (usageStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// finalizeStrategy are the rules for the subresource finalize, which changes
// finalizers only.
type finalizeStrategy struct{ strategy }

func (finalizeStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	t, previous := obj.(*v1alpha1.Tenant), old.(*v1alpha1.Tenant)
	finalizers := t.Finalizers
	previous.DeepCopyInto(t)
	t.Finalizers = finalizers
}

func (s finalizeStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.Rules.Validate(ctx, obj, old)
}

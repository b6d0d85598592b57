package accesspolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/server/definition"
	"github.com/tenantry/tenantry/internal/tenant"
)

// UIDOf returns the UID of a tenant, empty if there is none.
type UIDOf func(ctx context.Context, n tenant.Name) (types.UID, error)

// parts are those of a TenantAccessPolicy.
var parts = definition.Parts[v1alpha1.TenantAccessPolicy, v1alpha1.TenantAccessPolicyStatus]{
	Spec:   func(p *v1alpha1.TenantAccessPolicy) any { return &p.Spec },
	Status: func(p *v1alpha1.TenantAccessPolicy) *v1alpha1.TenantAccessPolicyStatus { return &p.Status },
}

// strategy are the rules for policies.
type strategy struct {
	definition.Strategy[v1alpha1.TenantAccessPolicy, v1alpha1.TenantAccessPolicyStatus]
	uidOf UIDOf
	now   func() time.Time
}

// PrepareForCreate implements rest.RESTCreateStrategy.
func (s strategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	s.Strategy.PrepareForCreate(ctx, obj)
	s.setStatus(ctx, obj.(*v1alpha1.TenantAccessPolicy))
}

// PrepareForUpdate implements rest.RESTUpdateStrategy.
func (s strategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	s.Strategy.PrepareForUpdate(ctx, obj, old)
	p, previous := obj.(*v1alpha1.TenantAccessPolicy), old.(*v1alpha1.TenantAccessPolicy)
	if p.Generation != previous.Generation {
		p.Status = *previous.Status.DeepCopy()
		s.setStatus(ctx, p)
	}
}

// setStatus writes the status. A tenant that the policy has named before keeps its
// digest, by which a later tenant of that name stays out.
func (s strategy) setStatus(ctx context.Context, p *v1alpha1.TenantAccessPolicy) {
	known := make(map[string]string, len(p.Status.Grantees))
	for _, grantee := range p.Status.Grantees {
		known[grantee.Tenant] = grantee.UIDDigest
	}
	p.Status.Grantees = nil
	named := make(map[string]bool, len(p.Spec.Subjects))
	for _, subject := range p.Spec.Subjects {
		if named[subject.Tenant] {
			continue
		}
		named[subject.Tenant] = true
		digest, ok := known[subject.Tenant]
		if !ok {
			if uid, err := s.uidOf(ctx, tenant.Name(subject.Tenant)); err == nil {
				digest = newUIDDigest(uid)
			} // else there is none, and validation says so
		}
		p.Status.Grantees = append(p.Status.Grantees, v1alpha1.Grantee{Tenant: subject.Tenant, UIDDigest: digest})
	}
	p.Status.ObservedGeneration = p.Generation
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type:               v1alpha1.ConditionAccepted,
		Status:             metav1.ConditionTrue,
		Reason:             v1alpha1.ReasonAccepted,
		Message:            "the rules hold for the subjects of those tenants that existed when the policy first named them",
		ObservedGeneration: p.Generation,
		LastTransitionTime: metav1.NewTime(s.now()),
	})
}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	return s.validate(ctx, obj.(*v1alpha1.TenantAccessPolicy), nil)
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	return s.validate(ctx, obj.(*v1alpha1.TenantAccessPolicy), old)
}

func (s strategy) validate(ctx context.Context, p *v1alpha1.TenantAccessPolicy, old runtime.Object) field.ErrorList {
	errs := s.Rules.Validate(ctx, p, old)
	for _, err := range errs {
		if err.Type == field.ErrorTypeRequired && strings.HasSuffix(err.Field, ".namespaces") {
			err.Detail = fmt.Sprintf("name the namespaces that the rule is about; %q is every one, and what is in none", v1alpha1.AllNamespaces)
		}
	}
	for _, message := range validation.NameIsDNSSubdomain(p.Name, false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), p.Name, message))
	}
	own, err := tenant.SpaceFrom(ctx)
	if err != nil {
		return append(errs, field.InternalError(nil, err))
	}
	if !own.IsSpace() {
		return append(errs, field.Forbidden(field.NewPath("metadata"), "a TenantAccessPolicy belongs into the space of the tenant that grants access; "+
			"for access to the system space there is none"))
	}
	for _, grantee := range p.Status.Grantees {
		if grantee.UIDDigest == "" {
			errs = append(errs, field.InternalError(field.NewPath("status", "grantees"), errors.New("the tenants cannot be read now; try again")))
		}
	}
	for i, subject := range p.Spec.Subjects {
		if tenant.Name(subject.Tenant) == own {
			errs = append(errs, field.Invalid(field.NewPath("spec", "subjects").Index(i).Child("tenant"), subject.Tenant,
				fmt.Sprintf("is the tenant of this space; give its own users rights by a RoleBinding or ClusterRoleBinding to %s %q", subject.Kind, subject.Name)))
		}
	}
	return errs
}

func (strategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return warnings(obj.(*v1alpha1.TenantAccessPolicy))
}

func (strategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	return warnings(obj.(*v1alpha1.TenantAccessPolicy))
}

// warnings names the rules of which a part has no effect, with the first such part.
func warnings(p *v1alpha1.TenantAccessPolicy) []string {
	var result []string
	for i, rule := range p.Spec.Rules {
		if part, ok := ungrantable(rule); ok {
			result = append(result, fmt.Sprintf("spec.rules[%d]: %s is never granted to other tenants", i, part))
		}
	}
	return result
}

// maxWarned is how many rights of a rule are looked at for a warning.
const maxWarned = 100_000

// ungrantable describes the first right of a rule that is never granted.
func ungrantable(rule v1alpha1.AccessRule) (string, bool) {
	looked := 0
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if group != "*" && resource != "*" && !Grantable(verb, group, resource) {
					return fmt.Sprintf("%s of %s in API group %q", verb, resource, group), true
				}
				if looked++; looked > maxWarned {
					return "", false
				}
			}
		}
	}
	return "", false
}

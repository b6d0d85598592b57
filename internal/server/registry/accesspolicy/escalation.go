package accesspolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/component-helpers/auth/rbac/validation"
	kapihelper "k8s.io/kubernetes/pkg/apis/core/helper"
	rbacv1helpers "k8s.io/kubernetes/pkg/apis/rbac/v1"
	rbacregistry "k8s.io/kubernetes/pkg/registry/rbac"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/spaces/rbac"
)

// Escalation keeps users from granting what they may not do themselves, as RBAC
// does with Roles.
type Escalation struct {
	// Authorizer is asked for the verbs bind and escalate on policies, either of
	// which lifts the rule.
	Authorizer authorizer.UnconditionalAuthorizer
	// RulesFor returns the RBAC rules of a user in a namespace of the space of
	// ctx, those of cluster scope included.
	RulesFor func(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error)
}

// maxRights is how many single rights are compared with a user's: upstream makes a rule of
// each, and a policy of ten kilobytes can have half a billion.
const maxRights = 5000

// maxComparisons is how many comparisons of a single right with a string of a rule of the user are
// made, which takes two or three seconds.
const maxComparisons = 25_000_000

// confirm is a definition.Confirmed's.
func (e Escalation) confirm(ctx context.Context, obj, old runtime.Object) error {
	p := obj.(*v1alpha1.TenantAccessPolicy)
	if old != nil && rbacregistry.IsOnlyMutatingGCFields(obj, old, kapihelper.Semantic) {
		return nil
	}
	if err := e.Confirm(ctx, p); err != nil {
		return apierrors.NewForbidden(Resource, p.Name, err)
	}
	return nil
}

// Confirm returns an error that names what the user of ctx would grant without
// having it.
func (e Escalation) Confirm(ctx context.Context, p *v1alpha1.TenantAccessPolicy) error {
	u, ok := request.UserFrom(ctx)
	if !ok {
		return errors.New("no user on context")
	}
	if rbacregistry.EscalationAllowed(ctx) || e.exempt(ctx, u, p.Name) {
		return nil
	}
	granted, err := byNamespace(p.Spec.Rules)
	if err != nil {
		return err
	}
	missing, failures, err := e.missing(ctx, u, granted)
	if err != nil || len(missing) == 0 {
		return err
	}
	slices.Sort(missing)
	err = fmt.Errorf("user %q (groups=%q) is attempting to grant access not currently held:\n%s",
		u.GetName(), u.GetGroups(), strings.Join(slices.Compact(missing), "\n"))
	return errors.Join(append([]error{err}, failures...)...)
}

// byNamespace returns what rules grant in each namespace, those of cluster scope in none. Its error
// says that it is too much to compare.
func byNamespace(rules []v1alpha1.AccessRule) (map[string][]rbacv1.PolicyRule, error) {
	rights, granted := 0.0, make(map[string][]rbacv1.PolicyRule)
	for _, rule := range rules {
		rights += float64(len(rule.Namespaces)) * rbac.CountRights(PolicyRule(rule))
	}
	if rights > maxRights {
		return nil, fmt.Errorf("its rules have %.0f combinations of namespace, verb, group, resource and name, and at most %d are compared with yours; "+
			"use fewer, or ask somebody who may bind or escalate tenantaccesspolicies", rights, maxRights)
	}
	for _, rule := range rules {
		for _, namespace := range rule.Namespaces {
			if namespace == v1alpha1.AllNamespaces {
				namespace = "" // rights of cluster scope
			}
			granted[namespace] = append(granted[namespace], PolicyRule(rule))
		}
	}
	return granted, nil
}

// missing describes what a user does not have of what is granted. failures are those of reading the user's rules.
func (e Escalation) missing(ctx context.Context, u user.Info, granted map[string][]rbacv1.PolicyRule) (missing []string, failures []error, _ error) {
	comparisons := 0.0
	for namespace, rules := range granted {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		held, err := e.RulesFor(ctx, u, namespace)
		if err != nil {
			failures = append(failures, err)
		}
		for i := range held {
			comparisons += (1 + rbac.CountRights(rules...)) * rbac.Weight(&held[i])
		}
		if comparisons > maxComparisons {
			return nil, nil, errors.New("your own rules are too many to compare those of the policy with; " +
				"use fewer namespaces and rules, or ask somebody who may bind or escalate tenantaccesspolicies")
		}
		if covered, lacking := validation.Covers(held, rules); !covered {
			for _, rule := range lacking {
				missing = append(missing, describe(rule, namespace))
			}
		}
	}
	return missing, failures, nil
}

func (e Escalation) exempt(ctx context.Context, u user.Info, name string) bool {
	for _, verb := range []string{"bind", "escalate"} {
		decision, _, err := e.Authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: u, Verb: verb, APIGroup: Resource.Group, APIVersion: "*", Resource: Resource.Resource, Name: name, ResourceRequest: true,
		})
		if err == nil && decision == authorizer.DecisionAllow {
			return true
		}
	}
	return false
}

func describe(rule rbacv1.PolicyRule, namespace string) string {
	if namespace == "" {
		return rbacv1helpers.CompactString(rule)
	}
	return rbacv1helpers.CompactString(rule) + " in namespace " + namespace
}

// PolicyRule returns what RBAC calls a rule, without its namespaces.
func PolicyRule(rule v1alpha1.AccessRule) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
	}
}

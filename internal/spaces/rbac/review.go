package rbac

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// The most that is in the answer to a SelfSubjectRulesReview. The roles of a space can have
// gigabytes of rules.
const (
	MaxReviewedRules = 5000
	MaxReviewedBytes = 2 << 20
)

// Review collects the rules of a user until there are too many or the request ends.
type Review struct {
	// Resources and Paths are the rules so far.
	Resources []authorizer.ResourceRuleInfo
	Paths     []authorizer.NonResourceRuleInfo
	// Incomplete is whether there are more.
	Incomplete bool

	ctx   context.Context
	bytes int
	errs  []error
}

// NewReview returns an empty Review for a request.
func NewReview(ctx context.Context) *Review { return &Review{ctx: ctx} }

// AddResources adds a rule, and returns false if no more are wanted.
func (r *Review) AddResources(rule authorizer.ResourceRuleInfo) bool {
	if !r.fits(rule.GetVerbs(), rule.GetAPIGroups(), rule.GetResources(), rule.GetResourceNames()) {
		return false
	}
	r.Resources = append(r.Resources, rule)
	return true
}

// AddPaths adds a rule, and returns false if no more are wanted.
func (r *Review) AddPaths(rule authorizer.NonResourceRuleInfo) bool {
	if !r.fits(rule.GetVerbs(), rule.GetNonResourceURLs()) {
		return false
	}
	r.Paths = append(r.Paths, rule)
	return true
}

// Err returns why there may be rules that are not collected, nil if there are none.
func (r *Review) Err() error { return utilerrors.NewAggregate(r.errs) }

// visit adds a rule of RBAC, or the error of reading some.
func (r *Review) visit(_ fmt.Stringer, rule *rbacv1.PolicyRule, err error) bool {
	if err != nil {
		return r.fits([]string{err.Error()}) && r.failed(err)
	}
	if len(rule.Resources) > 0 && !r.AddResources(&authorizer.DefaultResourceRuleInfo{
		Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
	}) {
		return false
	}
	return len(rule.NonResourceURLs) == 0 ||
		r.AddPaths(&authorizer.DefaultNonResourceRuleInfo{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
}

func (r *Review) failed(err error) bool {
	r.errs = append(r.errs, err)
	return true
}

// fits accounts for a rule with these strings, and reports whether there is room for it.
func (r *Review) fits(lists ...[]string) bool {
	if r.Incomplete {
		return false
	}
	if err := r.ctx.Err(); err != nil {
		r.Incomplete = true
		r.errs = append(r.errs, err)
		return false
	}
	for _, list := range lists {
		for _, s := range list {
			r.bytes += len(s) + len(`"",`)
		}
	}
	if r.bytes > MaxReviewedBytes || len(r.Resources)+len(r.Paths)+len(r.errs) >= MaxReviewedRules {
		r.Incomplete = true
		r.errs = append(r.errs, fmt.Errorf("there are more rules than a review answers, which are at most %d rules and %d bytes; "+
			"ask for single rights with a SelfSubjectAccessReview (kubectl auth can-i VERB RESOURCE)", MaxReviewedRules, MaxReviewedBytes))
	}
	return !r.Incomplete
}

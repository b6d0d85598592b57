package kubecontrollers

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Work of a type check is counted in bytes of expressions, of which some hundred thousand
// are compiled in a second.

// policyWork returns how much upstream compiles to check the types of a policy: for each
// kind that it names, and each expression, all variables again.
func policyWork(policy *admissionregistrationv1.ValidatingAdmissionPolicy) int {
	variables, expressions, bytes := environmentWork, 0, 0
	for _, v := range policy.Spec.Variables {
		variables += variableWork + len(v.Expression)
	}
	for _, v := range policy.Spec.Validations {
		expressions, bytes = expressions+1, bytes+len(v.Expression)
		if v.MessageExpression != "" {
			expressions, bytes = expressions+1, bytes+len(v.MessageExpression)
		}
	}
	resources, kinds := resourcesOf(policy)
	if policy.Spec.ParamKind != nil { // its document is read once
		resources += kindWork
	}
	return resources + kinds*(kindWork+expressions*variables+bytes)
}

// resourcesOf returns how many resources are looked up for a policy, and how many kinds these
// may have. Upstream leaves out rules with wildcards and subresources, and takes at most ten
// kinds of a rule.
func resourcesOf(policy *admissionregistrationv1.ValidatingAdmissionPolicy) (resources, kinds int) {
	const maxTypesToCheck = 10
	if policy.Spec.MatchConstraints == nil {
		return 0, 0
	}
	named := func(values []string, without string) (count int) {
		for _, v := range values {
			if !strings.ContainsAny(v, without) {
				count++
			}
		}
		return count
	}
	for i := range policy.Spec.MatchConstraints.ResourceRules {
		rule := &policy.Spec.MatchConstraints.ResourceRules[i]
		product := named(rule.APIGroups, "*") * named(rule.APIVersions, "*") * named(rule.Resources, "*/")
		resources, kinds = resources+product, kinds+min(product, maxTypesToCheck)
	}
	return resources, kinds
}

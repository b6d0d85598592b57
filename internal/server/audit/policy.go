package audit

import (
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/apis/audit/validation"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"

	"github.com/tenantry/tenantry/api/v1alpha1"
)

// Compile returns the evaluator of a policy, nil without a policy.
func Compile(p *v1alpha1.AuditPolicy) audit.PolicyRuleEvaluator {
	if p == nil {
		return nil
	}
	return policy.NewPolicyRuleEvaluator(convert(p))
}

// Validate returns what is wrong with a policy, which may be nil.
func Validate(p *v1alpha1.AuditPolicy, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := validation.ValidatePolicy(convert(p))
	for _, err := range errs {
		err.Field = path.Child(err.Field).String()
	}
	return errs
}

// convert returns a copy, because upstream changes it.
func convert(p *v1alpha1.AuditPolicy) *auditapi.Policy {
	p = p.DeepCopy()
	versioned := auditv1.Policy{Rules: p.Rules, OmitStages: p.OmitStages, OmitManagedFields: p.OmitManagedFields}
	upstream := &auditapi.Policy{}
	utilruntime.Must(auditv1.Convert_v1_Policy_To_audit_Policy(&versioned, upstream, nil)) // assigns, and cannot fail
	return upstream
}

package spacepolicy

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/tenantry/tenantry/internal/tenant"
)

// The most expressions of an object and of all in a space, which take some 30 kB of memory
// each as long as the object exists.
const (
	maxExpressions        = 500
	maxExpressionsInSpace = 2_000
	// maxRules is four times what the largest of the public definitions has.
	maxRules        = 1_500
	maxRulesInSpace = 5_000
)

// Expressions are the CEL expressions that there are in a space.
type Expressions struct {
	// Policies returns those of admission policies and webhooks, without an object.
	Policies func(n tenant.Name, resource schema.GroupResource, name string) int
	// Rules returns those of definitions, without the definition of a name.
	Rules func(n tenant.Name, except string) int
}

// check refuses policies and webhooks with very many expressions. One that had as
// many before can be changed.
func (e Expressions) check(a admission.Attributes, n tenant.Name) error {
	count := ExpressionsOf(a.GetObject())
	switch before := ExpressionsOf(a.GetOldObject()); {
	case count <= before:
		return nil
	case count > maxExpressions:
		return forbidden(a, fmt.Sprintf("it has %d expressions, and a policy in a space at most %d; make several policies of it", count, maxExpressions))
	case e.Policies == nil:
		return nil
	}
	if all := count + e.Policies(n, a.GetResource().GroupResource(), a.GetName()); all > maxExpressionsInSpace {
		return forbidden(a, fmt.Sprintf("with it the policies and webhooks of the space have %d expressions, and at most %d may be there; use fewer", all, maxExpressionsInSpace))
	}
	return nil
}

// ExpressionsOf returns how many expressions a policy, or the configuration of webhooks, has.
// Validations may have one for their message.
func ExpressionsOf(obj runtime.Object) (count int) {
	switch o := obj.(type) {
	case *admissionregistration.ValidatingAdmissionPolicy:
		for i := range o.Spec.Validations {
			count += 1 + min(1, len(o.Spec.Validations[i].MessageExpression))
		}
		return count + len(o.Spec.AuditAnnotations) + len(o.Spec.MatchConditions) + len(o.Spec.Variables)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		for i := range o.Spec.Validations {
			count += 1 + min(1, len(o.Spec.Validations[i].MessageExpression))
		}
		return count + len(o.Spec.AuditAnnotations) + len(o.Spec.MatchConditions) + len(o.Spec.Variables)
	case *admissionregistration.MutatingAdmissionPolicy:
		return len(o.Spec.Mutations) + len(o.Spec.MatchConditions) + len(o.Spec.Variables)
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		return len(o.Spec.Mutations) + len(o.Spec.MatchConditions) + len(o.Spec.Variables)
	case *admissionregistration.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			count += len(o.Webhooks[i].MatchConditions)
		}
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			count += len(o.Webhooks[i].MatchConditions)
		}
	case *admissionregistration.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			count += len(o.Webhooks[i].MatchConditions)
		}
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			count += len(o.Webhooks[i].MatchConditions)
		}
	}
	return count
}

// checkRules refuses definitions with which a space has very many rules.
func (e Expressions) checkRules(a admission.Attributes, n tenant.Name) error {
	definition, ok := a.GetObject().(*apiextensions.CustomResourceDefinition)
	if !ok || a.GetSubresource() != "" || e.Rules == nil {
		return nil
	}
	count := rulesOf(definition)
	if old, ok := a.GetOldObject().(*apiextensions.CustomResourceDefinition); ok && count <= rulesOf(old) {
		return nil
	}
	if all := count + e.Rules(n, definition.Name); all > maxRulesInSpace {
		return forbidden(a, fmt.Sprintf("with it the definitions of the space have %d rules (x-kubernetes-validations), and at most %d may be there; use fewer", all, maxRulesInSpace))
	}
	return nil
}

func rulesOf(definition *apiextensions.CustomResourceDefinition) int {
	spec, err := withSchemas(definition)
	if err != nil {
		return 0 // as other checks say
	}
	return RulesOf(spec)
}

// RulesOf returns how many rules a definition has in all of its versions.
func RulesOf(spec *apiextensionsv1.CustomResourceDefinitionSpec) (count int) {
	for _, version := range spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			all := rules{most: maxRules * maxVersions}
			_ = all.check(nil, version.Schema.OpenAPIV3Schema)
			count += all.count
		}
	}
	return count
}

// rules counts the rules of a schema.
type rules struct{ count, most int }

func (r *rules) check(path *field.Path, props *apiextensionsv1.JSONSchemaProps) error {
	r.count += len(props.XValidations)
	for _, rule := range props.XValidations {
		if rule.MessageExpression != "" {
			r.count++
		}
	}
	if r.count > r.most {
		return fmt.Errorf("%s: with those before it, these are %d rules, and a space takes definitions with at most %d; use fewer",
			path.Child("x-kubernetes-validations"), r.count, r.most)
	}
	return eachSchema(path, props, r.check)
}

package spacepolicy

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
)

// The most expressions of an object, which take some 30 kB of memory each as long as the
// object exists.
const (
	maxExpressions = 500
	// maxRules is four times what the largest of the public definitions has.
	maxRules = 1_500
)

// checkExpressions refuses policies with very many expressions. One that had as many before
// can be changed.
func checkExpressions(a admission.Attributes) error {
	count := expressionsOf(a.GetObject())
	if count <= max(maxExpressions, expressionsOf(a.GetOldObject())) {
		return nil
	}
	return forbidden(a, fmt.Sprintf("it has %d expressions, and a policy in a space at most %d; make several policies of it", count, maxExpressions))
}

func expressionsOf(obj runtime.Object) int {
	switch policy := obj.(type) {
	case *admissionregistration.ValidatingAdmissionPolicy:
		s := &policy.Spec
		return len(s.Validations) + len(s.AuditAnnotations) + len(s.MatchConditions) + len(s.Variables)
	case *admissionregistration.MutatingAdmissionPolicy:
		s := &policy.Spec
		return len(s.Mutations) + len(s.MatchConditions) + len(s.Variables)
	default:
		return 0
	}
}

// rules counts the rules of a schema.
type rules struct{ count int }

func (r *rules) check(path *field.Path, schema *apiextensionsv1.JSONSchemaProps) error {
	if r.count += len(schema.XValidations); r.count > maxRules {
		return fmt.Errorf("%s: with those before it, these are %d rules, and a space takes definitions with at most %d; use fewer",
			path.Child("x-kubernetes-validations"), r.count, maxRules)
	}
	return eachSchema(path, schema, r.check)
}

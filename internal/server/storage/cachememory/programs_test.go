package cachememory

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/process/memory"
)

// TestExpressionsTakeMemory checks that the programs of all expressions of policies and webhooks count.
func TestExpressionsTakeMemory(t *testing.T) {
	const length = 1000
	long := strings.Repeat("x", length)
	conditions := []admissionregistration.MatchCondition{{Expression: long}, {Expression: long}}
	for want, obj := range map[int]runtime.Object{
		7: &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{
			Validations: []admissionregistration.Validation{{Expression: long}, {Expression: long, MessageExpression: long}}, AuditAnnotations: []admissionregistration.AuditAnnotation{{ValueExpression: long}},
			Variables: []admissionregistration.Variable{{Expression: long}}, MatchConditions: conditions,
		}},
		5: &admissionregistration.MutatingAdmissionPolicy{Spec: admissionregistration.MutatingAdmissionPolicySpec{
			Mutations: []admissionregistration.Mutation{{JSONPatch: &admissionregistration.JSONPatch{Expression: long}}, {ApplyConfiguration: &admissionregistration.ApplyConfiguration{Expression: long}}},
			Variables: []admissionregistration.Variable{{Expression: long}}, MatchConditions: conditions,
		}},
		2: &admissionregistration.ValidatingWebhookConfiguration{Webhooks: []admissionregistration.ValidatingWebhook{{MatchConditions: conditions}, {}}},
		3: &admissionregistration.MutatingWebhookConfiguration{Webhooks: []admissionregistration.MutatingWebhook{{MatchConditions: conditions}, {MatchConditions: conditions[:1]}}},
		0: &core.ConfigMap{},
	} {
		if got := weightOf(obj, 0); got != want*(expressionBytes+length*eachByte) {
			t.Errorf("%T: %d bytes, want %d expressions", obj, got, want)
		}
	}
}

// TestDefinitionsTakeMemory checks that what is made of a definition counts, in each of its versions, wherever its
// schema is.
func TestDefinitionsTakeMemory(t *testing.T) {
	const schemas, rules, versions = 4, 3, 2
	schema := &apiextensions.JSONSchemaProps{
		Properties: map[string]apiextensions.JSONSchemaProps{"list": {
			Items:        &apiextensions.JSONSchemaPropsOrArray{Schema: &apiextensions.JSONSchemaProps{}},
			XValidations: apiextensions.ValidationRules{{Rule: "self.size() < 9"}, {Rule: "true", MessageExpression: "'no'"}},
		}},
		AnyOf: []apiextensions.JSONSchemaProps{{}},
	}
	validation := &apiextensions.CustomResourceValidation{OpenAPIV3Schema: schema}
	each := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Schema: validation}, {Name: "v2", Schema: validation}},
	}}
	once := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Validation: validation, Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2"}},
	}}
	none := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1"}, {Name: "v2"}},
	}}
	made := versions * (versionBytes + schemas*schemaBytes + rules*ruleBytes + len("self.size() < 9true'no'")*eachByte)
	for what, tc := range map[string]struct {
		of   *apiextensions.CustomResourceDefinition
		want int
	}{
		"a schema of each version": {each, made}, "one schema": {once, made}, "no schema": {none, versions * versionBytes},
	} {
		if got := madeOf(tc.of) - definedCopies*memory.Encoded(tc.of); got != tc.want {
			t.Errorf("%s: %d bytes are made of it, want %d", what, got, tc.want)
		}
	}
	if weightOf(once, 0) != madeOf(once) {
		t.Error("what is made of a definition does not count")
	}
	once.Spec.Versions[0].SelectableFields = []apiextensions.SelectableField{{JSONPath: strings.Repeat("x", 1000)}}
	if madeOf(once) < 2000+made {
		t.Error("what is written in a definition does not count")
	}
}

package cachememory

import (
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/tenantry/tenantry/internal/process/memory"
	"github.com/tenantry/tenantry/internal/server/expression"
)

// What upstream makes of a definition, in bytes of memory, as long as there is a server for it: validators, structural
// schemas and the types of server-side apply take 1 to 1.6 kB for a schema of a value, the program of a CEL rule 58 to
// 128 kB, and a version its storage and its watch cache. Values of enumerations, defaults and columns of tables, take
// twice to thirteen times their bytes (127 definitions of charts, and hostile ones).
const (
	schemaBytes   = 3 << 9
	ruleBytes     = 100 << 10
	versionBytes  = 176 << 10
	definedCopies = 2
	// expressionBytes is what the program of a short expression of a policy takes, 35 to 38 kB, and eachByte what each
	// byte of one, or of a rule, adds.
	expressionBytes = 40 << 10
	eachByte        = 110
)

// madeOf returns about how many bytes of memory the server makes of an object, beside it.
func madeOf(obj runtime.Object) (bytes int) {
	switch o := obj.(type) {
	case *apiextensions.CustomResourceDefinition:
		return madeOfDefinition(o)
	case *admissionregistration.ValidatingAdmissionPolicy, *admissionregistration.MutatingAdmissionPolicy,
		*admissionregistration.ValidatingWebhookConfiguration, *admissionregistration.MutatingWebhookConfiguration:
		expression.Each(obj, func(text string) { bytes += expressionBytes + eachByte*len(text) })
	}
	return bytes
}

func madeOfDefinition(definition *apiextensions.CustomResourceDefinition) int {
	bytes := definedCopies * memory.Encoded(definition)
	for _, version := range definition.Spec.Versions {
		validated := version.Schema
		if validated == nil {
			validated = definition.Spec.Validation // that of all versions
		}
		bytes += versionBytes
		if validated != nil {
			bytes += madeOfSchema(validated.OpenAPIV3Schema)
		}
	}
	return bytes
}

func madeOfSchema(schema *apiextensions.JSONSchemaProps) (bytes int) {
	validation.SchemaHas(schema, func(s *apiextensions.JSONSchemaProps) bool {
		bytes += schemaBytes
		for _, rule := range s.XValidations {
			bytes += ruleBytes + eachByte*(len(rule.Rule)+len(rule.MessageExpression))
			if rule.MessageExpression != "" {
				bytes += ruleBytes
			}
		}
		return false // which goes on to the next one
	})
	return bytes
}

package definition

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Rules validate by the schema and the CEL rules of a CustomResourceDefinition.
type Rules struct {
	// Columns are those in which clients print the resource.
	Columns   []apiextensionsv1.CustomResourceColumnDefinition
	schema    validation.SchemaValidator
	structure *structuralschema.Structural
	rules     *cel.Validator
}

// NewRules reads a definition in YAML.
func NewRules(manifest []byte) (*Rules, error) {
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(manifest, &crd); err != nil {
		return nil, fmt.Errorf("reading the definition: %w", err)
	}
	version := crd.Spec.Versions[0]
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		version.Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, fmt.Errorf("converting the schema: %w", err)
	}
	schema, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema: %w", err)
	}
	structure, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("reading the schema's structure: %w", err)
	}
	return &Rules{
		Columns:   version.AdditionalPrinterColumns,
		schema:    schema,
		structure: structure,
		rules:     cel.NewValidator(structure, true, celconfig.PerCallLimit),
	}, nil
}

// Validate returns what is wrong with an object. old is nil on creation.
func (r *Rules) Validate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	errs := validation.ValidateCustomResource(nil, object, r.schema)
	if len(errs) > 0 {
		return errs
	}
	var before any
	if old != nil {
		if before, err = runtime.DefaultUnstructuredConverter.ToUnstructured(old); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
	}
	errs, _ = r.rules.Validate(ctx, nil, r.structure, object, before, celconfig.RuntimeCELCostBudget)
	for _, err := range errs {
		if err.Field == rootField {
			err.Field = "metadata.name" // what the rules at the root are about
		}
	}
	return errs
}

// rootField is how upstream names the object itself.
var rootField = (*field.Path)(nil).String()

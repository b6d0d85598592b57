package definition

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/yaml"
)

// Rules validate by the schema and the CEL rules of a CustomResourceDefinition.
type Rules struct {
	// Columns are the printer columns of the resource.
	Columns   []apiextensionsv1.CustomResourceColumnDefinition
	schema    validation.SchemaValidator
	structure *structuralschema.Structural
	rules     *cel.Validator
}

// NewRules reads a definition in YAML. With the names of fields that lead to a part of the
// objects, the rules are about that part.
func NewRules(manifest []byte, part ...string) (*Rules, error) {
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
	for _, name := range part {
		below, found := props.Properties[name]
		if !found {
			return nil, fmt.Errorf("the definition has no field %q of %q", name, part)
		}
		props = below
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

// Validate returns what is wrong with an object. old is nil on creation. Unchanged fields
// of an update are not validated, as in custom resources (ratcheting): a later rule must
// not prevent changes of an object.
func (r *Rules) Validate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var errs field.ErrorList
	var before any
	var options []cel.Option
	if old == nil {
		errs = validation.ValidateCustomResource(nil, object, r.schema)
	} else {
		unstructured, err := runtime.DefaultUnstructuredConverter.ToUnstructured(old)
		if err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
		before = unstructured
		correlated := common.NewCorrelatedObject(object, before, &model.Structural{Structural: r.structure})
		errs = validation.ValidateCustomResourceUpdate(nil, object, before, r.schema, validation.WithRatcheting(correlated))
		options = append(options, cel.WithRatcheting(correlated))
	}
	if len(errs) > 0 {
		return errs
	}
	errs, _ = r.rules.Validate(ctx, nil, r.structure, object, before, celconfig.RuntimeCELCostBudget, options...)
	for _, err := range errs {
		if err.Field == rootField {
			err.Field = "metadata.name" // the rules at the root are about the name
		}
	}
	return errs
}

// ValidatePart returns what is wrong with a new part of an object, a pointer to a struct. What it
// leaves out has the defaults of the definition.
func (r *Rules) ValidatePart(ctx context.Context, part any, path *field.Path) field.ErrorList {
	value, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	defaulting.Default(value, r.structure)
	if errs := validation.ValidateCustomResource(path, value, r.schema); len(errs) > 0 {
		return errs
	}
	errs, _ := r.rules.Validate(ctx, path, r.structure, value, nil, celconfig.RuntimeCELCostBudget)
	return errs
}

// rootField is upstream's name of the object itself.
var rootField = (*field.Path)(nil).String()

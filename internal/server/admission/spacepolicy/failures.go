package spacepolicy

import (
	"fmt"
	"strconv"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// The most that may be wrong with a custom resource in a space. Upstream compares each error
// with all others, and copies the text of all for each.
const (
	maxFailures     = 1_000
	maxFailureBytes = 4 << 20
	// With less cost there cannot be many.
	maxUncountedCost = 2 * maxFailures * schemaCost
)

// failures are the errors of the parts of an object.
type failures struct{ errors, bytes int }

// checkFailures refuses objects with more errors than upstream lists in a few seconds. It
// validates them in parts as upstream does, and stops when there are too many.
func checkFailures(object map[string]any, schema *apiextensionsv1.JSONSchemaProps) error {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &props, nil); err != nil {
		return fmt.Errorf("converting the schema: %w", err)
	}
	_, root, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return fmt.Errorf("compiling the schema: %w", err)
	}
	return (&failures{}).add(object, "", []*spec.Schema{root})
}

// add adds what is wrong with a value by schemas.
func (f *failures) add(value any, path string, schemas []*spec.Schema) error {
	if len(schemas) == 0 {
		return nil
	}
	if !isLarge(value) {
		for _, s := range schemas {
			if err := f.addBy(s, value, path); err != nil {
				return err
			}
		}
		return nil
	}
	schemas = withSpecBranches(schemas)
	if err := f.addOwn(value, path, schemas); err != nil {
		return err
	}
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			if err := f.add(v, path+"."+key, propertySpecs(schemas, key)); err != nil {
				return err
			}
		}
	case []any:
		items := itemSpecs(schemas)
		for i, v := range value {
			if err := f.add(v, path+"["+strconv.Itoa(i)+"]", items); err != nil {
				return err
			}
		}
	}
	return nil
}

// addOwn adds what is wrong with a list or map itself, such as a missing field.
func (f *failures) addOwn(value any, path string, schemas []*spec.Schema) error {
	for _, s := range schemas {
		own := *s
		own.Properties, own.AdditionalProperties, own.Items = nil, nil, nil
		own.AllOf, own.AnyOf, own.OneOf, own.Not = nil, nil, nil, nil
		if err := f.addBy(&own, value, path); err != nil {
			return err
		}
	}
	return nil
}

func (f *failures) addBy(s *spec.Schema, value any, path string) error {
	for _, err := range validate.NewSchemaValidator(s, nil, path, strfmt.Default).Validate(value).Errors {
		f.errors, f.bytes = f.errors+1, f.bytes+len(err.Error())
		if f.errors > maxFailures || f.bytes > maxFailureBytes {
			return fmt.Errorf("more is wrong with it than the server lists: %d errors or more, of which one is: %s",
				f.errors, fmt.Sprintf("%.500s", err.Error()))
		}
	}
	return nil
}

// isLarge reports whether a value has so many values that it is validated in parts.
func isLarge(value any) bool { return left(value, 32) < 0 }

// left returns n minus the values in value, and less than zero when there are more.
func left(value any, n int) int {
	n--
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			if n = left(v, n); n < 0 {
				break
			}
		}
	case []any:
		for _, v := range value {
			if n = left(v, n); n < 0 {
				break
			}
		}
	}
	return n
}

func withSpecBranches(all []*spec.Schema) []*spec.Schema {
	for i := 0; i < len(all); i++ {
		s := all[i]
		for _, branches := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
			for j := range branches {
				all = append(all, &branches[j])
			}
		}
		if s.Not != nil {
			all = append(all, s.Not)
		}
	}
	return all
}

func propertySpecs(schemas []*spec.Schema, key string) (of []*spec.Schema) {
	for _, s := range schemas {
		if property, ok := s.Properties[key]; ok {
			of = append(of, &property)
		} else if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			of = append(of, s.AdditionalProperties.Schema)
		}
	}
	return of
}

func itemSpecs(schemas []*spec.Schema) (of []*spec.Schema) {
	for _, s := range schemas {
		if s.Items != nil && s.Items.Schema != nil {
			of = append(of, s.Items.Schema)
		}
	}
	return of
}

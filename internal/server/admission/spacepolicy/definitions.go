package spacepolicy

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

// The limits of what a CustomResourceDefinition of a space makes the server do for each of
// its objects. They are four times what the largest of 4,693 public definitions has, or more.
const (
	// Each version has storage and a watch cache of its own.
	maxVersions = 16
	// Discovery has them once for each version.
	maxNames = 32
	// Defaults are added whenever an object is decoded, and to all elements of a list.
	maxDefaultBytes  = 16 << 10
	maxElementBytes  = 1 << 10
	maxElementValues = 112
	// Those that objects may be stored without.
	maxLaterBytes  = 384
	maxLaterValues = 20
	// Upstream looks for the defaults of all properties in each object in a list.
	maxElementProperties = 320
	// What applies to one value: each may be an error, and takes time whether it is or not.
	maxBranches  = 128
	maxRequired  = 128
	maxEnumBytes = 64 << 10
)

// checkDefinition refuses definitions with which a small object takes much memory or time.
// Those that were there before the rules can be changed in all but their spec.
//
// keep is called for each pattern.
func checkDefinition(a admission.Attributes, keep keep) error {
	definition, old := definitionsIn(a)
	if definition == nil || old != nil && apiequality.Semantic.DeepEqual(old.Spec, definition.Spec) {
		return nil
	}
	spec, err := withSchemas(definition)
	if err != nil {
		return err
	}
	var before map[string]elements
	if old != nil {
		spec, err := withSchemas(old)
		if err != nil {
			return err
		}
		before = elementsOfVersions(spec)
	}
	if err := checkSpec(spec, old == nil, before, keep); err != nil {
		return forbidden(a, err.Error())
	}
	return nil
}

// definitionsIn returns the definition that a request writes, nil if it writes none, and what that was, nil if it is
// new.
func definitionsIn(a admission.Attributes) (definition, old *apiextensions.CustomResourceDefinition) {
	if a.GetSubresource() == "" {
		definition, _ = a.GetObject().(*apiextensions.CustomResourceDefinition)
		old, _ = a.GetOldObject().(*apiextensions.CustomResourceDefinition)
	}
	return definition, old
}

// checkDefinitionChange refuses versions and defaults by which the objects that there are take too much memory.
func (r Rules) checkDefinitionChange(ctx context.Context, a admission.Attributes, n tenant.Name) error {
	definition, old := definitionsIn(a)
	if definition == nil || old == nil || r.CheckDefinitionChange == nil || apiequality.Semantic.DeepEqual(old.Spec, definition.Spec) {
		return nil
	}
	spec, err := withSchemas(definition)
	if err != nil {
		return err
	}
	before, err := withSchemas(old)
	if err != nil {
		return err
	}
	object, element := growth(elementsOfVersions(before), elementsOfVersions(spec))
	resource := schema.GroupResource{Group: definition.Spec.Group, Resource: definition.Spec.Names.Plural}
	err = r.CheckDefinitionChange(ctx, n, resource, cachememory.DefinitionChange{
		Before: len(old.Spec.Versions), Versions: len(definition.Spec.Versions), Object: object, Element: element,
	})
	switch {
	case apierrors.IsTooManyRequests(err):
		return err
	case err != nil:
		return forbidden(a, fmt.Sprintf("spec.versions: with these and their defaults %v", err))
	}
	return nil
}

// valueMemory is what a value takes in memory at most beside its text, if it is a map.
const valueMemory = 344

// growth returns how many bytes of memory defaults take at most that there were not before: for an object, and for each
// map in one.
func growth(before, now map[string]elements) (object, element int64) {
	for version, is := range now {
		for at, defaults := range is {
			was := before[version][at]
			more := int64(max(0, defaults.bytes-was.bytes) + valueMemory*max(0, defaults.values-was.values))
			if at == ofObject {
				object = max(object, more)
			} else {
				element = max(element, more)
			}
		}
	}
	return object, element
}

// withSchemas returns the spec with the schema of each version in it.
func withSchemas(definition *apiextensions.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinitionSpec, error) {
	var spec apiextensionsv1.CustomResourceDefinitionSpec
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinitionSpec_To_v1_CustomResourceDefinitionSpec(
		definition.Spec.DeepCopy(), &spec, nil); err != nil {
		return nil, fmt.Errorf("converting the definition: %w", err)
	}
	return &spec, nil
}

// ofObject is where elements have the defaults of an object outside of lists and maps.
const ofObject = ""

// elementsOfVersions returns the defaults in lists and maps of each version, and those of an object.
func elementsOfVersions(spec *apiextensionsv1.CustomResourceDefinitionSpec) map[string]elements {
	all := make(map[string]elements, len(spec.Versions))
	for _, version := range spec.Versions {
		all[version.Name] = elements{}
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			if d, err := all[version.Name].find(nil, version.Schema.OpenAPIV3Schema, "", false); err == nil { // what has no JSON has none
				all[version.Name][ofObject] = d.most
			}
		}
	}
	return all
}

func checkSpec(spec *apiextensionsv1.CustomResourceDefinitionSpec, created bool, before map[string]elements, keep keep) error {
	for name, list := range map[string][]string{"shortNames": spec.Names.ShortNames, "categories": spec.Names.Categories} {
		if n := len(list); n > maxNames {
			return fmt.Errorf("%s: these are %d, and a space takes definitions with at most %d; leave out those that nobody uses", field.NewPath("spec", "names", name), n, maxNames)
		}
	}
	path := field.NewPath("spec", "versions")
	if n := len(spec.Versions); n > maxVersions {
		return fmt.Errorf("%s: these are %d versions, and a space takes definitions with at most %d; leave out those that nobody uses", path, n, maxVersions)
	}
	for i, version := range spec.Versions {
		at := path.Index(i)
		if err := checkColumns(version.AdditionalPrinterColumns, at.Child("additionalPrinterColumns")); err != nil {
			return err
		}
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		at, schema := at.Child("schema", "openAPIV3Schema"), version.Schema.OpenAPIV3Schema
		if err := (&ruleCount{most: maxRules}).check(at, schema); err != nil {
			return err
		}
		if err := checkValues(at, schema); err != nil {
			return err
		}
		if err := checkProperties(at, schema, false); err != nil {
			return err
		}
		if err := checkDefaults(at, schema, created && len(spec.Versions) == 1, before[version.Name]); err != nil {
			return err
		}
		if err := (&weight{defaults: true}).addDefaultsOf(at, schema); err != nil {
			return err
		}
		if err := (&patterns{keep: keep}).check(at, schema); err != nil { // keeps those of what is taken
			return err
		}
	}
	return nil
}

// checkValues refuses schemas that say too much about one value.
func checkValues(path *field.Path, schema *apiextensionsv1.JSONSchemaProps) error {
	enum := 0
	for _, allowed := range schema.Enum {
		enum += len(allowed.Raw)
	}
	const limit = "%s: it has %d %s, and a space takes definitions with at most %d for one value"
	switch branches := len(withBranches([]*apiextensionsv1.JSONSchemaProps{schema})) - 1; {
	case branches > maxBranches:
		return fmt.Errorf(limit+"; use an enum or a pattern instead", path, branches, "schemas in allOf, anyOf, oneOf and not", maxBranches)
	case len(schema.Required) > maxRequired:
		return fmt.Errorf(limit+"; group the fields in objects", path.Child("required"), len(schema.Required), "fields", maxRequired)
	case enum > maxEnumBytes:
		return fmt.Errorf(limit+"; use a pattern, or leave it to the controller of the resource", path.Child("enum"), enum, "bytes", maxEnumBytes)
	default:
		return eachSchema(path, schema, checkValues)
	}
}

// checkProperties refuses objects in lists and maps with many properties.
func checkProperties(path *field.Path, schema *apiextensionsv1.JSONSchemaProps, listed bool) error {
	if n := len(schema.Properties); listed && n > maxElementProperties {
		return fmt.Errorf("%s: an object in a list or map has %d properties, and a space takes definitions with at most %d; group them in objects", path, n, maxElementProperties)
	}
	return eachSchema(path, schema, func(path *field.Path, child *apiextensionsv1.JSONSchemaProps) error {
		return checkProperties(path, child, listed || child == itemsOf(schema) || child == additionalOf(schema))
	})
}

// eachSchema calls do for the schemas in a schema until it fails.
func eachSchema(path *field.Path, schema *apiextensionsv1.JSONSchemaProps, do func(*field.Path, *apiextensionsv1.JSONSchemaProps) error) error {
	for name, property := range schema.Properties {
		if err := do(path.Child("properties").Key(name), &property); err != nil {
			return err
		}
	}
	if items := itemsOf(schema); items != nil {
		if err := do(path.Child("items"), items); err != nil {
			return err
		}
	}
	if additional := additionalOf(schema); additional != nil {
		if err := do(path.Child("additionalProperties"), additional); err != nil {
			return err
		}
	}
	return eachBranch(path, schema, do)
}

// eachBranch calls do for the schemas that apply to the same value as schema.
func eachBranch(path *field.Path, schema *apiextensionsv1.JSONSchemaProps, do func(*field.Path, *apiextensionsv1.JSONSchemaProps) error) error {
	for _, branches := range []struct {
		name string
		all  []apiextensionsv1.JSONSchemaProps
	}{{"allOf", schema.AllOf}, {"anyOf", schema.AnyOf}, {"oneOf", schema.OneOf}} {
		for i := range branches.all {
			if err := do(path.Child(branches.name).Index(i), &branches.all[i]); err != nil {
				return err
			}
		}
	}
	if schema.Not != nil {
		return do(path.Child("not"), schema.Not)
	}
	return nil
}

func itemsOf(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.Items == nil {
		return nil
	}
	return schema.Items.Schema
}

func additionalOf(schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	if schema.AdditionalProperties == nil {
		return nil
	}
	return schema.AdditionalProperties.Schema
}

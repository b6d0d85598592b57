package spacepolicy

import (
	"fmt"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/bounds"
	"github.com/tenantry/tenantry/internal/tenant"
)

// Definitions returns the definition by which a custom resource in a space is validated, an
// error if it is not known.
type Definitions func(tenant.Name, schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error)

// The limits of a custom resource in a space, whose definition may be the tenant's own.
const (
	// Values are those in lists and maps, with what defaults have added.
	maxObjectValues = 100_000
	// Defaults may add so many to a body.
	maxFilledValues = 1_000_000
	// Bytes are those of strings and names. etcd takes less in one object.
	maxObjectBytes = 4 << 20
	// Cost is about the bytes of errors if all that the schema says were wrong, of which
	// upstream makes ten copies. What takes time without an error counts as if it had one
	// that takes as long.
	maxObjectCost = 32 << 20
)

func (d Definitions) checkCustomResource(a admission.Attributes, n tenant.Name) error {
	object, ok := a.GetObject().(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	var schemas []*apiextensionsv1.JSONSchemaProps // none without definitions
	if d != nil {
		definition, err := d(n, a.GetResource().GroupResource())
		if err != nil {
			return admission.NewForbidden(a, err)
		}
		if s := schemaOf(definition, a.GetResource().Version); s != nil {
			schemas = append(schemas, s)
		}
	}
	w := &weight{}
	w.add(object.Object, 0, withBranches(schemas))
	if w.err == nil && w.cost > maxUncountedCost && len(schemas) > 0 {
		w.err = checkFailures(object.Object, schemas[0])
	}
	if w.err != nil {
		return forbidden(a, w.err.Error())
	}
	return nil
}

// CheckContent refuses a body with too many values, or with too many objects to which the
// defaults of its definition may be added. It is for bodies that are not decoded yet.
func CheckContent(values, objects int, definition *apiextensionsv1.CustomResourceDefinition) error {
	if values > maxObjectValues {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"%s: it has %d values in its lists and maps, and a custom resource in a space at most %d; make several objects of it", PluginName, values, maxObjectValues))
	}
	if objects*maxElementValues <= maxFilledValues {
		return nil
	}
	most := 0.0
	for _, found := range elementsOfVersions(&definition.Spec) {
		for _, is := range found {
			most = max(most, is.values)
		}
	}
	if filled := most * float64(objects); filled > maxFilledValues {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"%s: it has %d objects, to each of which defaults may add %.0f values; a space takes custom resources to which they may add %d at most; make several objects of it, or have fewer defaults",
			PluginName, objects, most, maxFilledValues))
	}
	return nil
}

func schemaOf(definition *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for _, v := range definition.Spec.Versions {
		if v.Name == version && v.Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return nil
}

// weight is what it takes to validate values by their schemas.
type weight struct {
	values, bytes, cost int
	// instructions are those of patterns that have been compiled.
	instructions map[string]int
	// defaults are added to what has none of them yet.
	defaults bool
	// err says which limit has been reached. Nothing more is added then.
	err error
}

// What a schema costs for each value, whatever it says.
const (
	schemaCost   = 64  // a tree of validators, and an error without a value
	propertyCost = 8   // is looked for in each object
	requiredCost = 128 // an error
	// A pattern takes ten nanoseconds for each byte and instruction; so much of it counts as
	// much as a byte of an error.
	patternSteps = 8
)

// add adds a value at a path of so many bytes, to which schemas apply, those of branches
// included, and returns how many bytes the value has.
func (w *weight) add(value any, path int, schemas []*apiextensionsv1.JSONSchemaProps) int {
	if w.err != nil {
		return 0
	}
	w.values++
	bytes := 0
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			w.bytes += len(key)
			bytes += len(key) + w.add(v, path+len(`.`)+len(key), withBranches(propertiesOf(schemas, key)))
		}
		if w.defaults {
			w.addDefaults(value, path, schemas)
		}
	case []any:
		items := withBranches(elementsOf(schemas))
		for i, v := range value {
			bytes += w.add(v, path+len(`[]`)+len(strconv.Itoa(i)), items)
		}
	case string:
		bytes = len(value)
		w.bytes += bytes
	}
	for _, s := range schemas {
		w.cost += path*(1+len(s.XValidations)) + w.costOf(s, value, bytes) // a rule may fail, too
	}
	w.check()
	return bytes + len(`"",`)
}

// costOf returns what it costs to validate a value of so many bytes by one schema. An error
// shows the value and what is allowed.
func (w *weight) costOf(s *apiextensionsv1.JSONSchemaProps, value any, bytes int) int {
	cost := schemaCost
	for _, allowed := range s.Enum {
		cost += len(allowed.Raw) + len(`"", `)
	}
	switch value := value.(type) {
	case map[string]any:
		cost += len(value) + len(s.Properties)*propertyCost + len(s.Required)*requiredCost
	case string:
		cost += bytes
		if s.Pattern != "" && (s.MaxLength == nil || int64(len(value))/4 <= *s.MaxLength) { // 4 bytes a character
			cost += len(s.Pattern) + bytes*w.instructionsOf(s.Pattern)/patternSteps
		}
		return cost
	}
	if len(s.Enum) > 0 {
		cost += bytes
	}
	return cost
}

func (w *weight) instructionsOf(pattern string) int {
	n, ok := w.instructions[pattern]
	if !ok {
		if w.instructions == nil {
			w.instructions = make(map[string]int)
		}
		n = bounds.Instructions(pattern)
		w.instructions[pattern] = n
	}
	return n
}

// addDefaults adds the defaults of the properties that an object does not have.
func (w *weight) addDefaults(object map[string]any, path int, schemas []*apiextensionsv1.JSONSchemaProps) {
	for _, s := range schemas {
		for name, property := range s.Properties {
			if _, ok := object[name]; !ok && property.Default != nil {
				w.addDefault(&property, path+len(name), withBranches(propertiesOf(schemas, name)))
			}
		}
	}
}

func (w *weight) addDefault(s *apiextensionsv1.JSONSchemaProps, path int, schemas []*apiextensionsv1.JSONSchemaProps) {
	var value any
	if err := json.Unmarshal(s.Default.Raw, &value); err != nil {
		w.err = err
		return
	}
	w.add(value, path, schemas)
}

// addDefaultsOf adds the defaults of a schema: upstream validates them when it gets it.
func (w *weight) addDefaultsOf(path *field.Path, schema *apiextensionsv1.JSONSchemaProps) error {
	if schema.Default != nil {
		w.addDefault(schema, 0, withBranches([]*apiextensionsv1.JSONSchemaProps{schema}))
	}
	if w.err != nil {
		return fmt.Errorf("%s: with the defaults before it, %w", path.Child("default"), w.err)
	}
	return eachSchema(path, schema, w.addDefaultsOf)
}

func (w *weight) check() {
	for _, limit := range []struct {
		is, most int
		what     string
	}{
		{w.values, maxObjectValues, "values in its lists and maps, with those that defaults have added; make several objects of it"},
		{w.bytes, maxObjectBytes, "bytes; make several objects of it"},
		{w.cost, maxObjectCost, "units of work to validate it by its definition; make several objects of it, " +
			"or say less about each element of a list in the definition: shorter enums and patterns, fewer allOf, anyOf and oneOf"},
	} {
		if w.err == nil && limit.is > limit.most {
			w.err = fmt.Errorf("it has more than %d %s", limit.most, limit.what)
		}
	}
}

// withBranches returns schemas with all that apply to the same value.
func withBranches(all []*apiextensionsv1.JSONSchemaProps) []*apiextensionsv1.JSONSchemaProps {
	for i := 0; i < len(all); i++ {
		_ = eachBranch(nil, all[i], func(_ *field.Path, branch *apiextensionsv1.JSONSchemaProps) error {
			all = append(all, branch)
			return nil
		})
	}
	return all
}

// propertiesOf returns the schemas of a property.
func propertiesOf(schemas []*apiextensionsv1.JSONSchemaProps, key string) (of []*apiextensionsv1.JSONSchemaProps) {
	for _, s := range schemas {
		if property, ok := s.Properties[key]; ok {
			of = append(of, &property)
		} else if additional := additionalOf(s); additional != nil {
			of = append(of, additional)
		}
	}
	return of
}

// elementsOf returns the schemas of the elements of a list.
func elementsOf(schemas []*apiextensionsv1.JSONSchemaProps) (of []*apiextensionsv1.JSONSchemaProps) {
	for _, s := range schemas {
		if items := itemsOf(s); items != nil {
			of = append(of, items)
		}
	}
	return of
}

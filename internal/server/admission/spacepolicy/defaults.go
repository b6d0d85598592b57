package spacepolicy

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// size is how large a value is.
type size struct {
	bytes  float64 // of JSON; a float, as products of nested defaults have no end
	values float64
}

func (s size) plus(o size) size  { return size{s.bytes + o.bytes, s.values + o.values} }
func (s size) minus(o size) size { return size{s.bytes - o.bytes, s.values - o.values} }
func (s size) or(o size) size    { return size{max(s.bytes, o.bytes), max(s.values, o.values)} }

// defaults are what the defaults of a schema add to values.
type defaults struct {
	properties        map[string]*defaults
	items, additional *defaults
	// absent is what an object gets if it does not have this property.
	absent size
	// empty is the sum of absent of all properties.
	empty size
	// most is what is added to a value at most, but for elements of its lists and maps.
	most size
}

// elements are what the defaults of a version of a definition add to an object in a list or
// map, by its path in the schema. What they add to none is left out.
type elements map[string]size

// checkDefaults refuses defaults that make objects many times larger than what was sent or
// is stored. Those that an object had when it was written are stored with it; those that its
// definition gets later are not, nor those of another version. before are the defaults of
// the version before an update.
func checkDefaults(path *field.Path, schema *apiextensionsv1.JSONSchemaProps, only bool, before elements) error {
	found := elements{}
	d, err := found.find(path, schema, "", false)
	if err != nil {
		return err
	}
	if d.most.bytes > maxDefaultBytes {
		return fmt.Errorf("%s: the defaults outside of lists and maps are %.0f bytes of JSON, and a space takes definitions with at most %d, "+
			"since each object gets them whenever it is read; leave large defaults to the controller of the resource", path, d.most.bytes, maxDefaultBytes)
	}
	for at, is := range found {
		most, when := size{maxElementBytes, maxElementValues}, "when they are created with one version"
		if !only {
			most, when = size{maxLaterBytes, maxLaterValues}.or(before[at]), "when they are updated or have several versions"
		}
		if is.bytes > most.bytes || is.values > most.values {
			return fmt.Errorf("%s%s: the defaults of an object in a list or map are %.0f bytes of JSON with %.0f values; a space takes definitions with at most %.0f bytes and %.0f values "+
				"there %s, since every {} gets them whenever it is read; give these fields no defaults, or shorter ones", path, at, is.bytes, is.values, most.bytes, most.values, when)
		}
	}
	return nil
}

// find finds the defaults of a schema at a path below the schema of a version, which is in a
// list or map or is not.
func (e elements) find(root *field.Path, schema *apiextensionsv1.JSONSchemaProps, at string, listed bool) (*defaults, error) {
	d := &defaults{properties: make(map[string]*defaults, len(schema.Properties))}
	var err error
	if items := itemsOf(schema); items != nil {
		if d.items, err = e.find(root, items, at+".items", true); err != nil {
			return nil, err
		}
	}
	if additional := additionalOf(schema); additional != nil {
		if d.additional, err = e.find(root, additional, at+".additionalProperties", true); err != nil {
			return nil, err
		}
	}
	for name, schema := range schema.Properties {
		at := at + ".properties[" + name + "]"
		property, err := e.find(root, &schema, at, listed)
		if err != nil {
			return nil, err
		}
		if schema.Default != nil {
			var value any
			if err := json.Unmarshal(schema.Default.Raw, &value); err != nil {
				return nil, fmt.Errorf("%s%s.default: %w", root, at, err)
			}
			property.absent = property.filled(value).plus(size{bytes: float64(len(name) + len(`"":,`))})
		}
		d.properties[name] = property
		d.empty = d.empty.plus(property.absent)
		d.most = d.most.plus(property.absent.or(property.most))
	}
	if listed && d.empty.values > 0 {
		e[at] = d.empty
	}
	return d, nil
}

// filled returns how large a default is after other defaults have been added to it.
func (d *defaults) filled(value any) size {
	switch value := value.(type) {
	case map[string]any:
		sum := size{bytes: float64(len(`{}`)), values: 1}
		if d != nil {
			sum = sum.plus(d.empty)
		}
		for key, v := range value {
			sum = sum.plus(d.property(key).filled(v)).plus(size{bytes: float64(len(key) + len(`"":,`))})
			if d != nil && d.properties[key] != nil {
				sum = sum.minus(d.properties[key].absent)
			}
		}
		return sum
	case []any:
		sum := size{bytes: float64(len(`[]`)), values: 1}
		for _, v := range value {
			sum = sum.plus(d.element().filled(v)).plus(size{bytes: float64(len(`,`))})
		}
		return sum
	default:
		content, _ := json.Marshal(value) // it was JSON
		return size{bytes: float64(len(content)), values: 1}
	}
}

func (d *defaults) property(key string) *defaults {
	switch {
	case d == nil:
		return nil
	case d.properties[key] != nil:
		return d.properties[key]
	default:
		return d.additional
	}
}

func (d *defaults) element() *defaults {
	if d == nil {
		return nil
	}
	return d.items
}

package spacepolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/tenantry/tenantry/internal/server/storage/cachememory"
	"github.com/tenantry/tenantry/internal/tenant"
)

type props = apiextensions.JSONSchemaProps

func object(properties map[string]props) props { return props{Type: "object", Properties: properties} }

func with(name string, of props) props { return object(map[string]props{name: of}) }

func list(of props) props {
	return props{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &of}}
}

func mapOf(of props) props {
	return props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &of}}
}

func withDefault(of props, value any) props {
	j := apiextensions.JSON(value)
	of.Default = &j
	return of
}

// text is a string with a default of that many bytes.
func text(bytes int) props { return withDefault(props{Type: "string"}, strings.Repeat("x", bytes)) }

// fields returns an object with that many properties.
func fields(count int, of props) props {
	o := object(make(map[string]props, count))
	for i := range count {
		o.Properties[fmt.Sprintf("p%03d", i)] = of
	}
	return o
}

// enum is an enum of that many bytes of JSON.
func enum(bytes int) props {
	return props{Type: "string", Enum: []apiextensions.JSON{strings.Repeat("x", bytes-len(`""`))}}
}

// pattern has that many instructions when it is compiled.
func pattern(instructions int) props {
	return props{Type: "string", Pattern: strings.Repeat("a", instructions-2)} // one to begin, one to end
}

func definition(schemas ...props) *apiextensions.CustomResourceDefinition {
	d := &apiextensions.CustomResourceDefinition{}
	for i, schema := range schemas {
		d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{
			Name: fmt.Sprintf("v%d", i+1), Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &schema},
		})
	}
	return d
}

// named returns a definition with short names and categories.
func named(shortNames, categories int) *apiextensions.CustomResourceDefinition {
	d := definition(props{Type: "object"})
	d.Spec.Names.ShortNames, d.Spec.Names.Categories = make([]string, shortNames), make([]string, categories)
	return d
}

func definitionAttributes(d, old *apiextensions.CustomResourceDefinition, subresource string) admission.Attributes {
	operation, before := admission.Create, runtime.Object(nil)
	if old != nil {
		operation, before = admission.Update, old
	}
	return admission.NewAttributesRecord(d, before, apiextensions.SchemeGroupVersion.WithKind("CustomResourceDefinition"), "", "xs.example.com",
		apiextensions.SchemeGroupVersion.WithResource("customresourcedefinitions"), subresource, operation, nil, false, member)
}

func TestCheckDefinition(t *testing.T) {
	const overhead = len(`"a":"",`)
	nested := list(object(map[string]props{"a": withDefault(list(with("b", text(100))), []any{
		map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{},
		map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{},
	})}))
	endless := props{Type: "string"}
	for range 50 {
		ten := make([]any, 10)
		for i := range ten {
			ten[i] = map[string]any{}
		}
		endless = withDefault(list(with("a", endless)), ten)
	}
	columns := func(paths ...string) *apiextensions.CustomResourceDefinition {
		d := definition(object(nil))
		for _, path := range paths {
			d.Spec.Versions[0].AdditionalPrinterColumns = append(d.Spec.Versions[0].AdditionalPrinterColumns,
				apiextensions.CustomResourceColumnDefinition{JSONPath: path})
		}
		return d
	}
	numbered := func(count int, format string) (all []string) {
		for i := range count {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	for name, tc := range map[string]struct {
		new, old *apiextensions.CustomResourceDefinition
		want     string // in the error; none if empty
	}{
		"defaults":                             {new: definition(with("a", text(maxDefaultBytes-overhead)))},
		"large defaults":                       {new: definition(with("a", text(maxDefaultBytes-overhead+1))), want: "the defaults outside of lists and maps are 16385 bytes"},
		"large defaults in objects":            {new: definition(with("b", with("a", text(maxDefaultBytes)))), want: "outside of lists"},
		"defaults in a list":                   {new: definition(with("l", list(with("a", text(maxElementBytes-overhead)))))},
		"large defaults in a list":             {new: definition(with("l", list(with("a", text(maxElementBytes-overhead+1))))), want: "openAPIV3Schema.properties[l].items: the defaults of an object in a list or map are 1025 bytes of JSON with 1 values"},
		"large defaults in a map":              {new: definition(with("m", mapOf(with("a", text(maxElementBytes))))), want: "properties[m].additionalProperties: the defaults"},
		"large defaults in an object in lists": {new: definition(list(list(with("b", with("a", text(maxElementBytes)))))), want: ".items.items.properties[b]: the defaults"},
		"many defaults in a list":              {new: definition(list(fields(maxElementValues, withDefault(props{Type: "integer"}, int64(0)))))},
		"too many defaults in a list":          {new: definition(list(fields(maxElementValues+1, withDefault(props{Type: "integer"}, int64(0))))), want: "with 113 values"},
		"defaults of defaults":                 {new: definition(nested), want: ".items: the defaults of an object in a list or map are 1"},
		"defaults of defaults without end":     {new: definition(endless), want: "the defaults"},
		"later":                                {new: definition(list(fields(maxLaterValues, text(0)))), old: definition(list(object(nil)))},
		"too many later":                       {new: definition(list(fields(maxLaterValues+1, text(0)))), old: definition(list(object(nil))), want: "with 21 values; a space takes definitions with at most 384 bytes and 20 values there when they are updated"},
		"too large later":                      {new: definition(list(with("a", text(maxLaterBytes)))), old: definition(list(object(nil))), want: "at most 384 bytes"},
		"as before":                            {new: definition(with("l", list(fields(50, text(0))))), old: definition(object(map[string]props{"l": list(fields(50, text(0))), "b": {Type: "string"}}))},
		"elsewhere":                            {new: definition(with("k", list(fields(50, text(0))))), old: definition(with("l", list(fields(50, text(0))))), want: "properties[k].items: the defaults"},
		"of several versions":                  {new: definition(list(object(nil)), list(fields(maxLaterValues+1, text(0)))), want: "have several versions"},
		"not in the spec":                      {new: definition(list(with("a", text(100_000)))), old: definition(list(with("a", text(100_000))))},
		"costly defaults":                      {new: definition(fields(100, withDefault(list(enum(maxEnumBytes)), make([]any, 20)))), want: "default: with the defaults before it, it has more than 33554432 units"},

		"enum":                {new: definition(enum(maxEnumBytes))},
		"large enum":          {new: definition(enum(maxEnumBytes + 1)), want: "openAPIV3Schema.enum: it has 65537 bytes"},
		"branches":            {new: definition(props{AllOf: make([]props, 100), AnyOf: make([]props, 28)})},
		"many branches":       {new: definition(props{AllOf: []props{{AnyOf: make([]props, 100)}}, OneOf: make([]props, 28)}), want: "it has 129 schemas in allOf"},
		"required":            {new: definition(props{Required: make([]string, maxRequired)})},
		"many required":       {new: definition(props{Required: make([]string, maxRequired+1)}), want: "required: it has 129 fields"},
		"properties":          {new: definition(list(fields(maxElementProperties, props{})))},
		"many properties":     {new: definition(with("a", list(fields(maxElementProperties+1, props{})))), want: "has 321 properties"},
		"outside of lists":    {new: definition(fields(maxElementProperties+1, props{}))},
		"pattern":             {new: definition(with("a", pattern(maxPattern)))},
		"large pattern":       {new: definition(with("a", pattern(maxPattern+1))), want: "properties[a].pattern: the pattern has 6001 instructions"},
		"large repetition":    {new: definition(props{AllOf: []props{{Pattern: strings.Repeat("(?:a?){1000}", 7)}}}), want: "allOf[0].pattern"},
		"patterns":            {new: definition(fields(8, pattern(maxPatterns/8)))},
		"many patterns":       {new: definition(fields(9, pattern(maxPatterns/8))), want: "with those before it 54000"},
		"names":               {new: named(maxNames, maxNames)},
		"many short names":    {new: named(maxNames+1, 0), want: "spec.names.shortNames: these are 33, and a space takes definitions with at most 32"},
		"many categories":     {new: named(0, maxNames+1), want: "spec.names.categories: these are 33"},
		"versions":            {new: definition(make([]props, maxVersions)...)},
		"many versions":       {new: definition(make([]props, maxVersions+1)...), want: "spec.versions: these are 17 versions"},
		"columns":             {new: columns(numbered(maxColumns, ".spec.p%d")...)},
		"many columns":        {new: columns(numbered(maxColumns+1, ".spec.p%d")...), want: "additionalPrinterColumns: these are 65 columns"},
		"conditions":          {new: columns(numbered(50, `.status.conditions[?(@.type=="T%d")].status`)...)},
		"columns of the same": {new: columns(numbered(maxSameColumns, ".spec.a[%d]")...)},
		"many of the same":    {new: columns(numbered(maxSameColumns+1, ".spec.a[%d]")...), want: "5 columns may show the same values"},
		"parts of the same":   {new: columns(append(numbered(maxSameColumns, ".spec.a%d"), slices.Repeat([]string{".spec['b']"}, maxSameColumns)...)...)},
		"all":                 {new: columns(append(numbered(maxSameColumns, ".spec['b']"), ".")...), want: "additionalPrinterColumns[0].jsonPath: 5 columns"},
		"filters of the same": {new: columns(numbered(maxSameColumns+1, `.spec.l[?(@.n!="%d")]`)...), want: "5 columns"},
		"recursive descent":   {new: columns(".spec..a"), want: "recursive descent"},
		"in a filter":         {new: columns(".spec[?(@..a)]"), want: "recursive descent"},
		"union":               {new: columns(".spec.a[0,0,0]"), want: "unions"},
		"range":               {new: columns(".a}{range .l[*]}{.a}{end"), want: "ranges"},
		"long":                {new: columns("." + strings.Repeat("a", maxColumnPath)), want: "it has 513 bytes"},
		"wildcard":            {new: columns(".spec.l[*].a", ".spec.m.*")},
		"what does not parse": {new: columns(".spec[")},
		"without a schema":    {new: &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{Versions: []apiextensions.CustomResourceDefinitionVersion{{Name: "v1"}}}}},
		"schema of all versions": {new: &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
			Validation: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &props{Required: make([]string, maxRequired+1)}},
			Versions:   []apiextensions.CustomResourceDefinitionVersion{{Name: "v1"}},
		}}, want: "required"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkDefinition(definitionAttributes(tc.new, tc.old, ""), (&seenPatterns{}).in(life{name: "acme"}))
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%.500v, want %q", err, tc.want)
			}
		})
	}
}

// TestDefinitionsWhere checks where definitions are refused.
func TestDefinitionsWhere(t *testing.T) {
	bad := definition(list(with("a", text(100_000))))
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		space       tenant.Name
		subresource string
		refused     bool
	}{
		"a space":          {space: "a", refused: true},
		"its status":       {space: "a", subresource: "status"},
		"the system space": {space: tenant.System},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, a := tenant.WithSpace(t.Context(), tc.space), definitionAttributes(bad, nil, tc.subresource)
			if err := plugin.Admit(ctx, a, nil); (err != nil) != tc.refused {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}

// TestCheckDefinitionChange checks that versions and new defaults are compared with what the objects take that there
// are.
func TestCheckDefinitionChange(t *testing.T) {
	var asked cachememory.DefinitionChange
	plugin, err := New(nil, Rules{CheckDefinitionChange: func(_ context.Context, n tenant.Name, resource schema.GroupResource, change cachememory.DefinitionChange) error {
		if n != "a" || resource.String() != "xs.example.com" {
			t.Errorf("asked about %v in %s", resource, n)
		}
		asked = change
		return errors.New("they are too many")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defaulted := with("b", withDefault(text(1), "x"))
	for name, tc := range map[string]struct {
		old, is         []props
		versions        int
		object, element bool
	}{
		"one more version":          {[]props{object(nil)}, []props{object(nil), object(nil)}, 2, false, false},
		"a default of an object":    {[]props{object(nil)}, []props{defaulted}, 1, true, false},
		"a default in a list":       {[]props{list(object(nil))}, []props{list(defaulted)}, 1, false, true},
		"a default in a map":        {[]props{mapOf(object(nil))}, []props{mapOf(defaulted)}, 1, false, true},
		"defaults that there were":  {[]props{list(defaulted), defaulted}, []props{list(defaulted), defaulted, object(nil)}, 3, false, false},
		"another version has those": {[]props{list(defaulted)}, []props{list(defaulted), list(defaulted)}, 2, false, true},
	} {
		old, is := definition(tc.old...), definition(tc.is...)
		is.Spec.Group, is.Spec.Names.Plural = "example.com", "xs"
		old.Spec.Group, old.Spec.Names.Plural = "example.com", "xs"
		asked = cachememory.DefinitionChange{}
		err := plugin.Validate(tenant.WithSpace(t.Context(), "a"), definitionAttributes(is, old, ""), nil)
		if err == nil || !strings.Contains(err.Error(), "spec.versions: with these and their defaults they are too many") {
			t.Errorf("%s: %v", name, err)
		}
		if asked.Before != len(tc.old) || asked.Versions != tc.versions || asked.Object > 0 != tc.object || asked.Element > 0 != tc.element {
			t.Errorf("%s: %+v", name, asked)
		}
	}
}

package spacepolicy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/tenant"
)

// versioned returns a definition as servers of custom resources know it.
func versioned(t *testing.T, schemas ...props) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	spec, err := withSchemas(definition(schemas...))
	if err != nil {
		t.Fatal(err)
	}
	return &apiextensionsv1.CustomResourceDefinition{Spec: *spec}
}

func TestCheckCustomResource(t *testing.T) {
	values := func(count int, value any) []any { return slices.Repeat([]any{value}, count) }
	listed := func(of props) props { return with("l", list(of)) }
	texts := props{Type: "string"}
	long := pattern(1_000)
	short := long
	short.MaxLength = ptr.To[int64](1_000)
	longest := long
	longest.MaxLength = ptr.To[int64](1 << 62)
	large := make(map[string]any) // so many that their map is validated in parts
	for i := range 40 {
		large[strconv.Itoa(i)] = int64(i)
	}
	required := make([]string, 100)
	for i := range required {
		required[i] = fmt.Sprintf("missing-%d", i)
	}
	unknown := props{Type: "object", Required: required, XPreserveUnknownFields: ptr.To(true)}
	for name, tc := range map[string]struct {
		schema props
		object map[string]any
		want   string // in the error; none if empty
	}{
		"values":            {object: map[string]any{"l": values(maxObjectValues-2, "")}}, // with the object and the list
		"many values":       {object: map[string]any{"l": values(maxObjectValues-1, "")}, want: "it has more than 100000 values"},
		"many nested":       {object: map[string]any{"l": values(1_000, values(100, map[string]any{}))}, want: "it has more than 100000 values"},
		"bytes":             {object: map[string]any{"k": strings.Repeat("x", maxObjectBytes-1)}},
		"many bytes":        {object: map[string]any{"k": strings.Repeat("x", maxObjectBytes)}, want: "it has more than 4194304 bytes"},
		"bytes of names":    {object: map[string]any{strings.Repeat("x", maxObjectBytes+1): nil}, want: "bytes"},
		"as in the schema":  {schema: listed(texts), object: map[string]any{"l": values(50_000, "a")}},
		"errors":            {schema: listed(texts), object: map[string]any{"l": values(maxFailures, int64(1))}},
		"many errors":       {schema: listed(texts), object: map[string]any{"l": values(50_000, int64(1))}, want: "more is wrong with it than the server lists: 1001 errors"},
		"large errors":      {schema: listed(enum(10_000)), object: map[string]any{"l": values(1_000, "")}, want: "more is wrong with it"},
		"in a branch":       {schema: props{AllOf: []props{listed(enum(10_000))}}, object: map[string]any{"l": values(1_000, "")}, want: "more is wrong with it"},
		"of a map":          {schema: mapOf(list(texts)), object: map[string]any{"k": values(50_000, int64(1))}, want: "more is wrong with it"},
		"enum":              {schema: listed(enum(10_000)), object: map[string]any{"l": values(3_000, strings.Repeat("x", 9_998))}, want: "bytes"},
		"costly enum":       {schema: listed(enum(10_000)), object: map[string]any{"l": values(4_000, "")}, want: "it has more than 33554432 units of work"},
		"costly branches":   {schema: listed(props{AnyOf: make([]props, 100)}), object: map[string]any{"l": values(10_000, "")}, want: "units of work"},
		"costly pattern":    {schema: with("s", long), object: map[string]any{"s": strings.Repeat("a", 2_000_000)}, want: "units of work"},
		"pattern not tried": {schema: with("s", short), object: map[string]any{"s": strings.Repeat("a", 2_000_000)}},
		"any length":        {schema: with("s", longest), object: map[string]any{"s": strings.Repeat("a", 2_000_000)}, want: "units of work"},
		"errors of maps":    {schema: listed(unknown), object: map[string]any{"l": values(11, large)}, want: "more is wrong with it"},
		"few of maps":       {schema: listed(unknown), object: map[string]any{"l": values(9, large)}},
		"errors of a branch": {schema: listed(props{Type: "object", XPreserveUnknownFields: ptr.To(true), AllOf: []props{{Required: required}}}),
			object: map[string]any{"l": values(11, large)}, want: "more is wrong with it"},
		"costly names":      {schema: mapOf(list(texts)), object: map[string]any{strings.Repeat("k", 100_000): values(1_000, "")}, want: "units of work"},
		"costly properties": {schema: listed(fields(300, texts)), object: map[string]any{"l": values(60_000, map[string]any{})}, want: "units of work"},
		"costly required":   {schema: listed(props{Required: make([]string, 100)}), object: map[string]any{"l": values(10_000, map[string]any{})}, want: "units of work"},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := New(nil, Rules{Definition: func(tenant.Name, schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
				return versioned(t, tc.schema), nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			err = plugin.rules.Definition.checkCustomResource(customResource(tc.object), "a")
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%.500v, want %q", err, tc.want)
			}
		})
	}
}

func customResource(content map[string]any) admission.Attributes {
	group := schema.GroupVersion{Group: "example.com", Version: "v1"}
	return admission.NewAttributesRecord(&unstructured.Unstructured{Object: content}, nil, group.WithKind("X"), "default", "x",
		group.WithResource("xs"), "", admission.Create, nil, false, member)
}

// TestCustomResourceWithoutDefinition checks that what is not known is not taken for cheap.
func TestCustomResourceWithoutDefinition(t *testing.T) {
	plugin := &Plugin{rules: Rules{Definition: func(tenant.Name, schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
		return nil, errors.New("not yet")
	}}}
	if err := plugin.rules.Definition.checkCustomResource(customResource(map[string]any{}), "a"); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want it forbidden", err)
	}
}

func TestCheckContent(t *testing.T) {
	with50 := list(fields(50, withDefault(apiextensions.JSONSchemaProps{Type: "integer"}, int64(0))))
	for name, tc := range map[string]struct {
		values, objects int
		schema          props
		refused         bool
	}{
		"values":             {maxObjectValues, 0, props{}, false},
		"many values":        {maxObjectValues + 1, 0, props{}, true},
		"objects":            {maxObjectValues, maxObjectValues, list(props{}), false},
		"with defaults":      {maxObjectValues, maxFilledValues / 50, with50, false},
		"with many defaults": {maxObjectValues, maxFilledValues/50 + 1, with50, true},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckContent(tc.values, tc.objects, versioned(t, props{}, tc.schema))
			if (err != nil) != tc.refused || err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}

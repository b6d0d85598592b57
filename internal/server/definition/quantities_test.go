package definition

import (
	"context"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tenantry/tenantry/config/crd"
)

// TestClientsCanReadEveryQuantity says that a quantity that a host cluster stores can be
// read: an object that cannot keeps a client's cache from all of its kind.
func TestClientsCanReadEveryQuantity(t *testing.T) {
	texts := []string{"1", "+1", "-1", "1.", ".5", "1.125", "1.1255", "1e1", "1E3", "1e-99", "1e99", "1e100", "1e+3", "1e1.5", "1E3.2",
		"1e.5", "1e-999999999", "1e", "1E", "1Ei", "1Ki", "1k", "1K", "1n", "1u", "1m", "1.5Gi", ".", "-", "", "1 ", "1 Gi", "0x1", "1GiB",
		strings.Repeat("9", 32), strings.Repeat("9", 33), strings.Repeat("9", 31) + "E"}
	found := 0
	for kind, manifest := range definitions(t) {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(manifest, &definition); err != nil {
			t.Fatal(err)
		}
		walk(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, kind, func(path string, schema *apiextensionsv1.JSONSchemaProps) {
			if !schema.XIntOrString {
				return
			}
			found++
			if schema.MaxLength == nil {
				t.Errorf("%s has no maxLength", path)
				return
			}
			pattern := regexp.MustCompile(schema.Pattern)
			for _, text := range texts {
				if pattern.MatchString(text) && int64(len(text)) <= *schema.MaxLength {
					if strings.Contains(text, "-9999") {
						t.Errorf("%s takes %q, which takes long to read", path, text)
					} else if _, err := resource.ParseQuantity(text); err != nil {
						t.Errorf("%s takes %q: %v", path, text, err)
					}
				}
			}
			for _, text := range []string{"0", "1", "-1", "500m", "1.5Gi", "0.5", "10Gi", "100n", "1e3", "9223372036854775807", "9223372036854775807n"} {
				if !pattern.MatchString(text) {
					t.Errorf("%s refuses %q", path, text)
				}
			}
		})
	}
	if found < 6 {
		t.Errorf("found %d quantities, want those of quotas, volumes and pods", found)
	}
}

// walk calls visit for a schema and all below it.
func walk(schema *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, schema)
	for name, property := range schema.Properties {
		walk(&property, path+"."+name, visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(schema.AdditionalProperties.Schema, path+"[]", visit)
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(schema.Items.Schema, path+"[]", visit)
	}
}

// TestSpecsOfControlPlanes says that a host cluster refuses quantities that cannot be read or
// take long to be read, and names and images that no machine has.
func TestSpecsOfControlPlanes(t *testing.T) {
	rules, err := NewRules(crd.ControlPlanes)
	if err != nil {
		t.Fatal(err)
	}
	for spec, valid := range map[string]bool{
		`{pod: {resources: {requests: {cpu: "1e1.5"}}}}`:                                         false,
		`{pod: {resources: {requests: {cpu: "1E3.2"}}}}`:                                         false,
		`{pod: {resources: {limits: {cpu: "1e-999999999"}}}}`:                                    false,
		`{storage: {embedded: {size: "1e999999999"}}}`:                                           false,
		`{pod: {resources: {requests: {cpu: 500m, memory: 1.5Gi}, limits: {memory: "2e9"}}}}`:    true,
		`{pod: {resources: {requests: {cpu: 1}, limits: {cpu: "2"}}}}`:                           true,
		`{pod: {resources: {requests: {cpu: "2e1"}, limits: {cpu: 2}}}}`:                         false,
		`{pod: {resources: {requests: {cpu: "` + strings.Repeat("1", 33) + `"}}}}`:               false,
		`{expose: {names: [224.0.0.1]}}`:                                                         false,
		`{expose: {names: [255.255.255.255]}}`:                                                   false,
		`{expose: {names: ["ff02::1"]}}`:                                                         false,
		`{expose: {names: ["::"]}}`:                                                              false,
		`{expose: {names: [127.0.0.1, "::1", 10.0.0.1, 169.254.1.1, "2001:db8::1", a.example]}}`: true,
		`{pod: {image: "a:b:c"}}`:                                                                false,
		`{pod: {image: "UPPER/x:1"}}`:                                                            false,
		`{pod: {image: "a//b"}}`:                                                                 false,
		`{pod: {image: "a@b"}}`:                                                                  false,
		`{pod: {image: "tenantry"}}`:                                                             true,
		`{pod: {image: "a/b__c:V1.0"}}`:                                                          true,
		`{pod: {image: "localhost:5000/a:1"}}`:                                                   true,
		`{pod: {image: "ghcr.io/tenantry/tenantry:v0.1.0"}}`:                                     true,
		`{pod: {image: "Mirror.example:5000/a/b:v1@sha256:0123456789abcdef"}}`:                   true,
		`{storage: {embedded: {size: "1e12"}}}`:                                                  true,
	} {
		cp := &unstructured.Unstructured{Object: map[string]any{}}
		content, err := yaml.YAMLToJSON([]byte("{kind: ControlPlane, metadata: {name: x}, spec: " + spec + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if err := cp.UnmarshalJSON(content); err != nil {
			t.Fatal(err)
		}
		if errs := rules.Validate(context.Background(), cp, nil); (len(errs) == 0) != valid {
			t.Errorf("%s: %v", spec, errs)
		}
	}
}

// TestRulesDoNotReadLongExponents says that the rules, which a host cluster asks beside the
// pattern, do not compute what the pattern refuses.
func TestRulesDoNotReadLongExponents(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(crd.ControlPlanes, &definition); err != nil {
		t.Fatal(err)
	}
	walk(definition.Spec.Versions[0].Schema.OpenAPIV3Schema, "", func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range schema.XValidations {
			guard, read := strings.Index(rule.Rule, `.matches('[eE][-+]?[0-9.]{3}')`), strings.Index(rule.Rule, "quantity(")
			if read >= 0 && (guard < 0 || guard > read) {
				t.Errorf("%s reads a quantity before it looks at its exponent: %s", path, rule.Rule)
			}
		}
	})
}

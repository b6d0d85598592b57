package definition

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

const gauge = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gauges.example.com}
spec:
  group: example.com
  names: {kind: Gauge, plural: gauges}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Level, type: integer, jsonPath: .spec.level}]
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations: [{rule: "self.metadata.name != 'forbidden'", message: is taken}]
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: "!has(oldSelf.level) || self.level >= oldSelf.level", message: must not fall}]
            properties:
              level: {type: integer, maximum: 10}
              unit: {type: string, enum: [bar, psi]}
`

// newGauge returns an object whose unit is left out if it is empty.
func newGauge(name string, level int64, unit string) *unstructured.Unstructured {
	spec := map[string]any{"level": level}
	if unit != "" {
		spec["unit"] = unit
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

func TestRules(t *testing.T) {
	rules, err := NewRules([]byte(gauge))
	if err != nil {
		t.Fatal(err)
	}
	if len(rules.Columns) != 1 || rules.Columns[0].Name != "Level" {
		t.Errorf("columns %v", rules.Columns)
	}
	for name, tc := range map[string]struct {
		object, old *unstructured.Unstructured
		want        string // in the one error; none if empty
	}{
		"valid":                    {object: newGauge("a", 3, "bar")},
		"by the schema":            {object: newGauge("a", 11, ""), want: "spec.level: Invalid value: 11"},
		"by an enum":               {object: newGauge("a", 3, "mbar"), want: `spec.unit: Unsupported value: "mbar"`},
		"by a rule about the name": {object: newGauge("forbidden", 3, ""), want: "metadata.name: Invalid value"},
		"update":                   {object: newGauge("a", 4, ""), old: newGauge("a", 3, "")},
		"update against a rule":    {object: newGauge("a", 2, ""), old: newGauge("a", 3, ""), want: "must not fall"},
		"what was wrong before":    {object: newGauge("a", 4, "mbar"), old: newGauge("a", 3, "mbar")},
		"and is wrong otherwise":   {object: newGauge("a", 4, "torr"), old: newGauge("a", 3, "mbar"), want: `"torr"`},
	} {
		t.Run(name, func(t *testing.T) {
			var old runtime.Object
			if tc.old != nil {
				old = tc.old
			}
			errs := rules.Validate(t.Context(), tc.object, old)
			switch {
			case tc.want == "" && len(errs) > 0:
				t.Errorf("refused: %v", errs)
			case tc.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), tc.want)):
				t.Errorf("errors %v, want one with %q", errs, tc.want)
			}
		})
	}
}

func TestNewRulesRefuses(t *testing.T) {
	for name, manifest := range map[string]string{
		"no YAML":        "{",
		"unknown fields": strings.Replace(gauge, "scope:", "scoop:", 1),
	} {
		if _, err := NewRules([]byte(manifest)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

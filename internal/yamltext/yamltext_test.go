package yamltext

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"
)

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		content, err string
	}{
		"nothing":              {"", ""},
		"an alias":             {"a: &x 1\nb: *x\n", `it has an alias of YAML, "*x"`},
		"in a list":            {"a: &x-1_Y [1]\nb: [*x-1_Y,*x-1_Y]\n", "alias"},
		"as a key":             {"&x a: 1\nb: {*x : 2}\n", "alias"},
		"as what is merged":    {"a: &x {b: 1}\nc: {<<: *x}\n", "alias"},
		"after a tag":          {"a: !!str &x b\nc: *x\n", "alias"},
		"an anchor alone":      {"a: &x 1\n", ""},
		"wildcards":            {`{"resources": ["*", "*/status", "pods/*"], "urls": ["/a*", "*.example.com"]}`, ""},
		"CEL":                  {"expression: a && b * c && (d&&e)*f\n", ""},
		"a URL":                {"url: https://id.example.com/?a=1&b=2\nname: '*.c'\n", ""},
		"UTF-16":               {"\xff\xfea\x00", "write it in UTF-8"},
		"directives":           {strings.Repeat("%a\n", 11), "leave directives out"},
		"one directive":        {"%YAML 1.1\n---\na: 1\n", ""},
		"too long":             {strings.Repeat(" ", maxBytes+1), "make it shorter"},
		"as long as it may be": {strings.Repeat(" ", maxBytes), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]byte(tc.content))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}

// FuzzAliases looks for aliases that parsers see and Check does not.
func FuzzAliases(f *testing.F) {
	for _, seed := range []string{"a: &x 1\nb: *x\n", "[&a-b [], *a-b]", "- &\u00e4 a\n- *\u00e4\n", "? &a x\n: *a", "&1 a: *1", "{a: &x 1, *x : 2}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if Check(content) != nil {
			return
		}
		var document goyaml.Node
		if goyaml.Unmarshal(content, &document) == nil && hasAlias(&document) {
			t.Errorf("%q has an alias", content)
		}
		asJSON, err := yaml.YAMLToJSON(content)
		if most := 6*len(content) + 10; err == nil && len(asJSON) > most {
			t.Errorf("%q became %d bytes", content, len(asJSON))
		}
	})
}

func hasAlias(node *goyaml.Node) bool {
	if node.Kind == goyaml.AliasNode {
		return true
	}
	for _, child := range node.Content {
		if hasAlias(child) {
			return true
		}
	}
	return false
}
